"""The records of a split, whatever their format, and the document of each.

    split -> pieces of files -> raw records -> documents

No damage stops the reading: what is broken becomes a record with a problem, and the next goes on.
"""

from collections.abc import Iterator

from data_prep.documents import Document, document_id
from data_prep.sources import jsonl, mediawiki, plain
from data_prep.sources.files import SourceFile
from data_prep.sources.packed import Counts, Damage
from data_prep.sources.record import NOWHERE, Raw
from data_prep.sources.splits import Piece, Split


class Unreadable(Exception):
    """A record that gives no document; the text says why."""


def read_records(split: Split, counts: Counts) -> Iterator[tuple[SourceFile, Raw]]:
    """Each record of the split, in the order of ids, with its file.

    Raises OSError where the machine cannot read a file, ConfigError where a Parquet file lacks a
    column of the recipe. Memory holds one record of at most `max_record_bytes`.
    """
    for piece in split.pieces:
        try:
            for raw in _read_piece(piece, counts):
                yield piece.file, raw
        except Damage as damage:
            yield piece.file, Raw(NOWHERE, problem=str(damage))


def identity_of(file: SourceFile, raw: Raw) -> int | None:
    """The id of the record's document; None for the damaged rest of a file."""
    return None if raw.place == NOWHERE else document_id(file.index, raw.place)


def read_document(file: SourceFile, raw: Raw, counts: Counts) -> tuple[Document | None, str]:
    """The record's document, or None and why it is no document; takes the record's data.

    Raises Unreadable if the record is damaged or lacks what the recipe asks for.
    """
    identity = identity_of(file, raw)
    if raw.problem or identity is None:
        raise Unreadable(raw.problem)
    kind = file.source.format
    try:
        if kind == "mediawiki":
            return mediawiki.read_document(raw.take(), identity, counts)
        if kind == "jsonl":
            return jsonl.read_document(raw.take(), identity, file.source, counts), ""
        if kind == "parquet":
            from data_prep.sources import parquet  # 40 MB and 0.5 s that other formats do without

            return parquet.read_document(raw.take(), identity, file.source, counts), ""
        return plain.read_document(raw.take(), identity, file, counts), ""
    except RecursionError:
        raise Unreadable("its values are nested too deep") from None
    except ValueError as error:
        raise Unreadable(str(error)) from None


def _read_piece(piece: Piece, counts: Counts) -> Iterator[Raw]:
    kind = piece.file.source.format
    if kind == "mediawiki":
        return mediawiki.read_records(piece, counts)
    if kind == "jsonl":
        return jsonl.read_records(piece, counts)
    if kind == "parquet":
        from data_prep.sources import parquet

        return parquet.read_records(piece, counts)
    return plain.read_file(piece, counts) if kind == "text" else plain.read_runs(piece, counts)
