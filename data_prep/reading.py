"""Reading a split: its documents, cleaned, in files of about equal size, and a report."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from data_prep.cleaning import filters, prepared, verdict
from data_prep.config import Cleaning
from data_prep.documents import Document, to_line
from data_prep.progress import tell
from data_prep.sources.files import SourceFile
from data_prep.sources.packed import Counts
from data_prep.sources.record import NOWHERE, Raw
from data_prep.sources.records import Unreadable, identity_of, read_document, read_records
from data_prep.sources.splits import Split
from mlmdist.errors import UserError
from mlmdist.files import AnyPath, atomic_writer, write_json

QUARANTINED = "quarantined"
MOST_LISTED = 1000
MOST_REASON_CHARS = 500
SECONDS_BETWEEN_TELLS = 0.5


@dataclass
class Balance:
    """Documents and characters that came in, and those that left by cause (law W2).

    Characters are those of the prepared form; a record that is no document, such as a redirect or
    a damaged one, has none.
    """

    documents: int = 0
    characters: int = 0
    dropped_documents: Counter[str] = field(default_factory=Counter)
    dropped_characters: Counter[str] = field(default_factory=Counter)

    def drop(self, reason: str, characters: int) -> None:
        """Count a document that leaves."""
        self.dropped_documents[reason] += 1
        self.dropped_characters[reason] += characters

    def report(self) -> dict[str, Any]:
        """The balance as JSON values."""
        return {
            "documents": {"in": self.documents, "dropped": dict(self.dropped_documents)},
            "characters": {"in": self.characters, "dropped": dict(self.dropped_characters)},
        }


def read_split(
    split: Split,
    config: Cleaning,
    target: AnyPath,
    *,
    only: range | None = None,
    skip: frozenset[int] = frozenset(),
) -> dict[str, Any] | int:
    """Write the cleaned documents of a split as `target`-NNNNNN.jsonl and, last, `target`.json.

    The report, which comes back too, names the files and says what was dropped and why; where a
    file of documents ends depends on the text alone. A record that cannot be read or cleaned is
    quarantined: counted as dropped, and listed if it is among the first `MOST_LISTED`.

    Records are numbered from 0 in the split. With `only`, those are worked on, nothing is written,
    and their number comes back. Those in `skip` are quarantined unseen.
    """
    reader = _Reader(split, config, skip)
    if only is not None:
        return reader.probe(only)
    parts = _write_parts(reader.documents(), config.part_chars, target)
    report = {
        "parts": parts,
        "records": reader.balance.documents,
        "invalid_bytes": reader.counts.invalid_bytes,
        QUARANTINED: reader.listed,
        **reader.balance.report(),
    }
    write_json(target.with_name(f"{target.name}.json"), report)
    return report


def _write_parts(
    documents: Iterator[Document], part_chars: int, target: AnyPath
) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    following = next(documents, None)
    while following is not None:
        path = target.with_name(f"{target.name}-{len(parts):06d}.jsonl")
        part: dict[str, Any] = {"name": path.name, "documents": 0, "chars": 0}
        with atomic_writer(path) as output:
            while following is not None and part["chars"] < part_chars:
                output.write(to_line(following))
                part["documents"] += 1
                part["chars"] += following.num_characters
                following = None  # no two long documents at once
                following = next(documents, None)
        parts.append(part)
    return parts


class _Reader:
    """A split that is being read, and the counts of what has been met."""

    def __init__(self, split: Split, config: Cleaning, skip: frozenset[int]) -> None:
        self.split, self.config, self.skip = split, config, skip
        self.tests = filters(config)
        self.counts, self.balance = Counts(), Balance()
        self.listed: list[dict[str, Any]] = []
        self.teller = _Teller()

    def documents(self) -> Iterator[Document]:
        """The documents that are kept."""
        for number, (file, raw) in enumerate(read_records(self.split, self.counts)):
            document = self._kept(number, file, raw)
            if document is not None:
                yield document
            self.teller.tell_soon(self.counts, self.balance)
        self.teller.tell(self.counts, self.balance)

    def probe(self, only: range) -> int:
        """Work on the records in the range; how many there are."""
        worked_on = 0
        for number, (file, raw) in enumerate(read_records(self.split, self.counts)):
            if number >= only.stop:
                break
            if number in only:
                worked_on += 1
                document = self._kept(number, file, raw)
                if document is not None:
                    to_line(document)
        return worked_on

    def _kept(self, number: int, file: SourceFile, raw: Raw) -> Document | None:
        """The record's document in the form to keep; None, and the cause counted, if it leaves."""
        self.balance.documents += 1
        if number in self.skip:
            return self._quarantine(number, file, raw, "it ends the process that works on it")
        try:
            document, reason = read_document(file, raw, self.counts)
            document = None if document is None else prepared(document, self.config)
            drop, reason = (True, reason) if document is None else verdict(document, self.tests)
        except Unreadable as error:
            return self._quarantine(number, file, raw, str(error))
        except (UserError, OSError, MemoryError, ImportError):
            raise  # not of this record's making
        except Exception as error:
            return self._quarantine(number, file, raw, f"{type(error).__name__}: {error}")
        characters = 0 if document is None else document.num_characters
        self.balance.characters += characters
        if drop:
            self.balance.drop(reason, characters)
            return None
        return document

    def _quarantine(self, number: int, file: SourceFile, raw: Raw, reason: str) -> None:
        self.balance.drop(QUARANTINED, 0)
        if len(self.listed) < MOST_LISTED:
            line = {
                "source": file.name,
                "record": number,
                "place": None if raw.place == NOWHERE else raw.place,
                "id": identity_of(file, raw),
                "stage": "read",
                "reason": reason[:MOST_REASON_CHARS],
            }
            self.listed.append(line)


class _Teller:
    """Tells the driver, now and then, what has been counted since it was last told."""

    def __init__(self) -> None:
        self.due = time.monotonic() + SECONDS_BETWEEN_TELLS
        self.bytes, self.documents = 0, 0
        self.dropped = Counter[str]()

    def tell_soon(self, counts: Counts, balance: Balance) -> None:
        """Tell if it is time."""
        if time.monotonic() >= self.due:
            self.tell(counts, balance)

    def tell(self, counts: Counts, balance: Balance) -> None:
        """Tell what is new."""
        tell(
            bytes=counts.raw_bytes - self.bytes,
            documents=balance.documents - self.documents,
            dropped=dict(balance.dropped_documents - self.dropped),
        )
        self.bytes, self.documents = counts.raw_bytes, balance.documents
        self.dropped = Counter(balance.dropped_documents)
        self.due = time.monotonic() + SECONDS_BETWEEN_TELLS
