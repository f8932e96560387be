"""What a document is, how it is kept as a line of JSON, and on which side of the split it falls."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import orjson

from mlmdist.errors import DataError
from mlmdist.files import AnyPath
from mlmdist.rng import hash64

ORDINAL_BITS = 40
FIELDS = {"id", "group", "title", "paragraphs"}
SENTENCES_GIVEN = "sentences_given"  # a field of only those documents where it is true


@dataclass(frozen=True)
class Document:
    """A text that windows are cut from: its paragraphs in order, none empty once it is clean."""

    id: int
    """Unsigned 64-bit: source index << 40 | place in that source. See `document_id`."""

    group: str
    """Documents of one group (a novel, a site) fall on one side of the held-out split."""

    title: str
    paragraphs: tuple[str, ...]
    sentences_given: bool = False
    """True where each paragraph is exactly one sentence, as the source says."""

    @property
    def num_characters(self) -> int:
        """Code points in the paragraphs, as the counts of law W2 take them."""
        return sum(map(len, self.paragraphs))


def document_id(source_index: int, ordinal: int) -> int:
    """The id of the `ordinal`-th record of a source; both count from 0, so a split needs no peer.

    Raises DataError where a number does not fit its bits.
    """
    if not 0 <= ordinal < 1 << ORDINAL_BITS or not 0 <= source_index < 1 << (64 - ORDINAL_BITS):
        raise DataError(
            f"record {ordinal} of source {source_index} has no 64-bit id: at most "
            f"2**{ORDINAL_BITS} records in 2**{64 - ORDINAL_BITS} sources; join or cut sources"
        )
    return source_index << ORDINAL_BITS | ordinal


def held_out_side(group: str, share: float, seed: int) -> bool:
    """True where a group is held out: a function of (group, seed) alone, for `share` of groups.

    A larger share holds out a superset, so no text goes from the held-out to the training side.
    """
    digest = hashlib.blake2b(group.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return hash64("held_out", seed, int.from_bytes(digest, "little")) < int(share * 2**64)


def to_line(document: Document) -> bytes:
    """The document as one line of JSON in UTF-8; equal documents give equal bytes."""
    fields = {
        "id": document.id,
        "group": document.group,
        "title": document.title,
        "paragraphs": document.paragraphs,
    }
    if document.sentences_given:
        fields[SENTENCES_GIVEN] = True
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def from_line(line: bytes) -> Document:
    """The document of a line that `to_line` wrote; ValueError says what is wrong with another."""
    try:
        fields = orjson.loads(line)  # no copy of the line, which may be a document of 100 MB
    except ValueError:  # a lone surrogate, perhaps, which orjson refuses
        fields = json.loads(line.decode("utf-8", "surrogatepass"))
    given = fields.pop(SENTENCES_GIVEN, False) if isinstance(fields, dict) else False
    if not isinstance(fields, dict) or set(fields) != FIELDS or given not in (True, False):
        raise ValueError(f"the fields must be {', '.join(sorted(FIELDS))}")
    paragraphs = fields["paragraphs"]
    if not isinstance(paragraphs, list) or not all(isinstance(text, str) for text in paragraphs):
        raise ValueError("paragraphs must be a list of strings")
    if type(fields["id"]) is not int or not 0 <= fields["id"] < 2**64:
        raise ValueError("id must be an unsigned 64-bit integer")
    return Document(
        fields["id"], str(fields["group"]), str(fields["title"]), tuple(paragraphs), bool(given)
    )


def write_documents(file: BinaryIO, documents: Iterable[Document]) -> int:
    """Write documents as JSON Lines; their number."""
    number = 0
    for document in documents:
        file.write(to_line(document))
        number += 1
    return number


def read_documents(path: AnyPath) -> Iterator[Document]:
    """The documents of a file of JSON Lines, one at a time.

    Raises DataError naming the file and line where a line is damaged or cut short.
    """
    number = 0
    with path.open("rb") as file:
        for line in file:  # not by `enumerate`, which holds the last line; it may be of 100 MB
            number += 1
            document = _document(path, number, line)
            del line
            yield document


def _document(path: AnyPath, number: int, line: bytes) -> Document:
    try:
        if not line.endswith(b"\n"):
            raise ValueError("the line is cut short")
        return from_line(line)
    except ValueError as error:
        raise DataError(
            f"{path}, line {number}: {error}; remove the file and run `clean` again"
        ) from error
