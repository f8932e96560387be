"""Rows of Parquet files: a row, a document."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.config import Source
from data_prep.documents import Document
from data_prep.sources.jsonl import from_fields
from data_prep.sources.packed import READ_BYTES, WAY_OUT, Counts, Damage
from data_prep.sources.record import NOWHERE, Raw, too_large
from data_prep.sources.splits import Piece
from data_prep.sources.text import decode
from mlmdist.errors import ConfigError

BATCH_BYTES = 8 << 20  # of text that is held at once, or one row


def read_records(piece: Piece, counts: Counts) -> Iterator[Raw]:
    """The rows of the row groups that start in the piece, as dicts; a row's place is its number.

    A damaged row group is one record. Raises Damage where the file cannot be opened as Parquet,
    ConfigError where it lacks a column of the recipe.
    """
    with piece.file.path.open("rb") as stream:
        try:
            file = pq.ParquetFile(
                stream, buffer_size=READ_BYTES, pre_buffer=False, page_checksum_verification=True
            )
        except (pa.ArrowException, OSError) as error:
            if piece.start and not _is_from_system(error):
                return  # the first piece tells it
            raise _damage(error) from None
        columns = _columns(file.schema_arrow, piece)
        for group, first_row in _groups(file.metadata, piece):
            try:
                yield from _rows(file, group, first_row, columns, piece)
            except (pa.ArrowException, OSError) as error:
                yield Raw(NOWHERE, problem=f"row group {group}: {_damage(error)}")
            counts.raw_bytes += _group_bytes(file.metadata.row_group(group))


def read_document(
    record: dict[str, Any], identity: int, source: Source, counts: Counts
) -> Document:
    """The document of a row; ValueError names the field that is null or of no use."""
    values = {
        name: decode(value, counts) if isinstance(value, bytes) else value
        for name, value in record.items()
    }
    record.clear()
    return from_fields(values, identity, source)


def _columns(schema: pa.Schema, piece: Piece) -> list[str]:
    """The columns of the recipe; ConfigError names one that is missing or holds no text."""
    source = piece.file.source
    fields = {
        "text_field": source.text_field,
        "id_field": source.id_field,
        "group_field": source.group_field,
    }
    for key, name in fields.items():
        if name is not None and name not in schema.names:
            raise ConfigError(
                f"{key}={name}: {piece.file.name} has no such column; "
                f"it has {', '.join(schema.names)}"
            )
    kind = schema.field(source.text_field).type
    if not _is_text(kind):
        raise ConfigError(
            f"text_field={source.text_field}: the column holds {kind} in {piece.file.name}; "
            "name one that holds strings"
        )
    return list(dict.fromkeys(name for name in fields.values() if name is not None))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)


def _groups(metadata: pq.FileMetaData, piece: Piece) -> Iterator[tuple[int, int]]:
    """(number, number of its first row) of each row group that starts in the piece."""
    first_row = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if piece.start <= _group_start(group) < piece.stop:
            yield number, first_row
        first_row += group.num_rows


def _group_start(group: pq.RowGroupMetaData) -> int:
    column = group.column(0)
    starts = (column.dictionary_page_offset, column.data_page_offset)
    return min(filter(None, starts), default=0)  # one that is not there is None or 0


def _group_bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(number).total_compressed_size for number in range(group.num_columns))


def _rows(
    file: pq.ParquetFile, group: int, first_row: int, columns: list[str], piece: Piece
) -> Iterator[Raw]:
    place, most_bytes = first_row, piece.file.source.max_record_bytes
    text = piece.file.source.text_field
    batches = file.iter_batches(
        batch_size=_rows_a_batch(file.metadata.row_group(group)),
        row_groups=[group],
        columns=columns,
        use_threads=False,
    )
    for batch in batches:
        values = {name: _values(batch.column(name)) for name in columns}
        for row in range(batch.num_rows):
            record = {name: values[name][row].as_py() for name in columns}
            if len(record[text] or b"") > most_bytes:
                yield too_large(place, most_bytes)
            else:
                yield Raw(place, record)
            place += 1


def _rows_a_batch(group: pq.RowGroupMetaData) -> int:
    """So many that their text, unpacked, takes about BATCH_BYTES."""
    return max(1, min(4096, BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)))


def _values(column: pa.Array) -> pa.Array:
    """The column with its strings as bytes: they need not be the UTF-8 that Parquet promises."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.large_binary()) if _is_text(column.type) else column


def _damage(error: Exception) -> Damage:
    """The error as damage; raises it again if the system could not read the file."""
    if _is_from_system(error):
        raise error
    return Damage(f"damaged Parquet ({error}); {WAY_OUT}")


def _is_from_system(error: Exception) -> bool:
    if isinstance(error, PermissionError | FileNotFoundError | TimeoutError | ConnectionError):
        return True  # of a store, which gives no number
    return isinstance(error, OSError) and error.errno is not None
