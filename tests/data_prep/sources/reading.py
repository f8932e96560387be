"""Sources made by a test, read whole or in pieces."""

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

from backports import zstd

from data_prep.config import Source
from data_prep.documents import Document
from data_prep.sources.files import SourceFile, find_files
from data_prep.sources.packed import Counts
from data_prep.sources.records import Unreadable, identity_of, read_document, read_records
from data_prep.sources.splits import Piece, Split

PACKERS = {
    "gzip": gzip.compress,
    "bzip2": lambda data: bz2.compress(data, 1),
    "xz": lzma.compress,
    "zstd": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
}
Entry = tuple[int | None, Document | str]
"""A record's id, and its document or why there is none."""


def source_file(path: Path, data: bytes, **source: Any) -> SourceFile:
    """A source of one file with this content."""
    path.write_bytes(data)
    return find_files([Source(path=str(path), **source)])[0]


def pieces(file: SourceFile, size: int) -> list[Split]:
    """The file cut every `size` bytes, whatever the planner would do."""
    starts = range(0, max(file.num_bytes, 1), size)
    return [
        Split(index, (Piece(file, start, min(start + size, file.num_bytes)),))
        for index, start in enumerate(starts)
    ]


def whole(file: SourceFile) -> Split:
    """The file as one split."""
    return Split(0, (Piece(file, 0, file.num_bytes),))


def entries(splits: list[Split], counts: Counts | None = None) -> list[Entry]:
    """Every record of the splits."""
    counts = counts or Counts()
    found: list[Entry] = []
    for split in splits:
        for file, raw in read_records(split, counts):
            try:
                document, reason = read_document(file, raw, counts)
            except Unreadable as error:
                document, reason = None, str(error)
            found.append((identity_of(file, raw), document or reason))
    return found


def read(path: Path, data: bytes, **source: Any) -> list[Entry]:
    """Every record of a file with this content."""
    return entries([whole(source_file(path, data, **source))])


def documents(path: Path, data: bytes, **source: Any) -> list[Document]:
    """The documents of a file of which every record is one."""
    found = [entry for _, entry in read(path, data, **source)]
    assert [entry for entry in found if isinstance(entry, str)] == []
    return [entry for entry in found if isinstance(entry, Document)]


def problems(path: Path, data: bytes, **source: Any) -> list[str]:
    """Why records of a file with this content are no documents."""
    return [entry for _, entry in read(path, data, **source) if isinstance(entry, str)]
