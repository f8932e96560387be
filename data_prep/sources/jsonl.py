"""Documents from JSON Lines: an object a line, its text in one field."""

import json
from collections.abc import Iterator
from typing import BinaryIO

from data_prep.config import Source
from data_prep.documents import Document, document_id
from mlmdist.errors import DataError


def read_records(
    stream: BinaryIO, name: str, source_index: int, source: Source
) -> Iterator[Document]:
    """The document of every line that is not blank; its paragraphs are the lines of its text.

    A document's place is the byte at which its line starts. Raises DataError naming the line that
    is no JSON object or lacks a field.
    """
    place = 0
    for number, line in enumerate(stream, start=1):
        if line.strip():
            try:
                yield _document(line, document_id(source_index, place), source)
            except (ValueError, KeyError) as error:
                reason = f"field {error} is missing" if isinstance(error, KeyError) else error
                raise DataError(f"{name}, line {number}: {reason}; mend or remove it") from None
        place += len(line)


def _document(line: bytes, identity: int, source: Source) -> Document:
    record = json.loads(line.decode("utf-8"))
    if not isinstance(record, dict):
        raise ValueError(f"holds a {type(record).__name__}, must be an object")
    text = record[source.text_field]
    if not isinstance(text, str):
        raise ValueError(f"field {source.text_field!r} is no string")
    group = str(record[source.group_field]) if source.group_field else f"{identity:016x}"
    paragraphs = tuple(part for part in text.split("\n") if part.strip())
    return Document(identity, group, str(record.get("title", "")), paragraphs)
