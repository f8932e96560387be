"""Splits: which bytes of which files one task reads, by the files' content alone.

A file is cut at any byte where its format lets a reader find its first record alone; a record
belongs to the piece of the file in which it starts. Small files are read many a task. What is
planned depends on names, sizes, heads and `split_bytes`, never on workers; a record's id depends on
the file alone.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from data_prep.sources.files import SourceFile
from data_prep.sources.packed import Damage, kind_of, read_head
from data_prep.sources.text import byte_order_mark, check_text
from mlmdist.errors import DataError

FILES_A_SPLIT = 4096
READERS = 32  # heads that are read at once: a store answers in 50 ms or so
CUT_BY_LINES = ("jsonl", "text_documents", "sentences")


@dataclass(frozen=True)
class Piece:
    """A run of bytes of a file; the records that start in it belong to it."""

    file: SourceFile
    start: int
    stop: int

    @property
    def is_last(self) -> bool:
        """True where it ends with the file."""
        return self.stop >= self.file.num_bytes


@dataclass(frozen=True)
class Split:
    """What one task reads: a piece of one file, or many small files of one source."""

    index: int
    """Counts the splits of all sources, in the order of their records' ids."""

    pieces: tuple[Piece, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes that it reads, packed as they lie in their files."""
        return sum(piece.stop - piece.start for piece in self.pieces)

    @property
    def name(self) -> str:
        """What a person calls it: its first file, and which part of it or how many more."""
        first = self.pieces[0]
        if len(self.pieces) > 1:
            return f"{first.file.name} and {len(self.pieces) - 1} more"
        whole = first.start == 0 and first.is_last
        return first.file.name + ("" if whole else f" from {first.start >> 20} MiB")


def plan_splits(files: Iterable[SourceFile]) -> list[Split]:
    """The splits of these files, in the order of their records' ids.

    Reads only the heads of files larger than `split_bytes`. Memory grows with the files and with
    the number of splits, some 300 bytes each.
    """
    files = list(files)
    large = [file for file in files if file.num_bytes > file.source.split_bytes]
    with ThreadPoolExecutor(READERS) as readers:
        cut = dict(
            zip((file.index for file in large), readers.map(_can_be_cut, large), strict=True)
        )
    pieces = (piece for file in files for piece in _pieces(file, cut.get(file.index, False)))
    return [Split(index, group) for index, group in enumerate(_grouped(pieces))]


def _pieces(file: SourceFile, cut: bool) -> list[Piece]:
    size = file.source.split_bytes if cut else max(file.num_bytes, 1)
    starts = range(0, max(file.num_bytes, 1), size)
    return [Piece(file, start, min(start + size, file.num_bytes)) for start in starts]


def _can_be_cut(file: SourceFile) -> bool:
    """True where a reader finds the first record behind any byte; False too for what is damaged."""
    if file.source.format in ("parquet", "text"):
        return file.source.format == "parquet"
    try:
        head = read_head(file.path)
        kind = kind_of(head)
        if not kind:
            check_text(head)
    except Damage:
        return False
    except OSError as error:
        raise DataError(
            f"{file.path}: cannot be read ({error}); mend that or leave it out"
        ) from None
    if kind:
        return kind == "bzip2" and file.source.format == "mediawiki"
    return byte_order_mark(head)[1] == ""


def _grouped(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, ...]]:
    """Runs of pieces of one source that make up one task's work together."""
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        full = size + piece.stop - piece.start > piece.file.source.split_bytes
        if group and (
            full or len(group) == FILES_A_SPLIT or group[0].file.source != piece.file.source
        ):
            yield tuple(group)
            group, size = [], 0
        group.append(piece)
        size += piece.stop - piece.start
    if group:
        yield tuple(group)
