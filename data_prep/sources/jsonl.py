"""Documents from JSON Lines: an object a line, its text in one field."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from data_prep.config import Source
from data_prep.documents import Document, document_id
from mlmdist.errors import DataError


def read_records(
    lines: Iterable[bytes], name: str, source_index: int, source: Source
) -> Iterator[Document]:
    """The document of every line that is not blank; its paragraphs are the lines of its text.

    A document's place is the byte at which its line starts. Raises DataError naming the line that
    is no JSON object or lacks a field.
    """
    place = 0
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _document(line, document_id(source_index, place), source)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{name}, line {number}: {error}; mend or remove it") from None
        place += len(line)


def _document(line: bytes, identity: int, source: Source) -> Document:
    record = json.loads(line.decode("utf-8-sig"))
    if not isinstance(record, dict):
        raise ValueError(f"holds a {type(record).__name__}, must be an object")
    text = record.get(source.text_field)
    if not isinstance(text, str):
        raise ValueError(f"field {source.text_field!r} holds {text!r:.40}, must be a string")
    group = _group(record, source.group_field) or f"{identity:016x}"
    paragraphs = tuple(part for part in text.split("\n") if part.strip())
    return Document(identity, group, str(record.get("title", "")), paragraphs)


def _group(record: dict[str, Any], field: str | None) -> str:
    """The name of the document's group; empty if it is its own."""
    if field is None:
        return ""
    if field not in record:
        raise ValueError(f"field {field!r} is missing")
    group = record[field]
    if group is not None and not isinstance(group, str | int):
        raise ValueError(f"field {field!r} holds {group!r:.40}, must be a string, a number or null")
    return "" if group is None else str(group)
