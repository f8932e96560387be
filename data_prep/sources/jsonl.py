"""JSON Lines: an object a line, its text in one field."""

import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any

import pydantic_core

from data_prep.config import Source
from data_prep.documents import Document
from data_prep.sources.packed import Counts
from data_prep.sources.paragraphs import paragraphs_of
from data_prep.sources.record import Raw
from data_prep.sources.splits import Piece
from data_prep.sources.text import decode, piece_text, read_lines


def read_records(piece: Piece, counts: Counts) -> Iterator[Raw]:
    """The lines that start in the piece and are not blank; a line's place is its first byte."""
    source = piece.file.source
    text = piece_text(piece.file.path, piece.start, piece.stop, piece.file.num_bytes, counts)
    lines = read_lines(text, source.max_record_bytes)
    if piece.start:
        next(lines, None)  # what is left of a line that started before the piece
    for line in lines:
        if line.place >= text.stop:
            return
        if line.problem or (line.data and not line.data.isspace()):
            yield line


def read_document(
    line: bytes | bytearray, identity: int, source: Source, counts: Counts
) -> Document:
    """The document of a line; ValueError or RecursionError says why there is none."""
    record = _parsed(line.removeprefix(BOM_UTF8) if line.startswith(BOM_UTF8) else line, counts)
    if not isinstance(record, dict):
        raise ValueError(f"holds a {type(record).__name__}, must be an object")
    return from_fields(record, identity, source)


def from_fields(record: dict[str, Any], identity: int, source: Source) -> Document:
    """The document of named values; ValueError names the field that is missing or wrong.

    Where one key stands twice, the last one counts, as in Python's and most other readers.
    """
    text = record.get(source.text_field)
    if not isinstance(text, str):
        found = repr(text)[:40] if source.text_field in record else "nothing"
        raise ValueError(f"field {source.text_field!r} holds {found}, must be a string")
    record[source.text_field] = None  # of a long text there must be no second copy
    name = _name(record, source.id_field)
    group = _name(record, source.group_field) or name or f"{identity:016x}"
    title = name if source.id_field else str(record.get("title") or "")
    return Document(identity, group, title, paragraphs_of(text, source.paragraphs))


def _parsed(line: bytes | bytearray, counts: Counts) -> Any:
    """The JSON value of a line; surrogates and bytes that are no UTF-8 break none."""
    try:
        return pydantic_core.from_json(line, cache_strings="none")
    except ValueError:
        return json.loads(decode(line, counts))


def _name(record: dict[str, Any], field: str | None) -> str:
    """The value of a field that names something; empty if the recipe or the record has none."""
    if field is None:
        return ""
    if field not in record:
        raise ValueError(f"field {field!r} is missing")
    value = record[field]
    if value is not None and not isinstance(value, str | int):
        raise ValueError(f"field {field!r} holds {value!r:.40}, must be a string, a number or null")
    return "" if value is None else str(value)
