"""Plain text: a file a document, or documents between blank lines."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator

from data_prep.documents import Document
from data_prep.sources.files import SourceFile
from data_prep.sources.packed import Counts
from data_prep.sources.paragraphs import joined_lines
from data_prep.sources.record import Raw, too_large
from data_prep.sources.splits import Piece
from data_prep.sources.text import decode, piece_text, read_lines, whole_text
from mlmdist.files import AnyPath

LOOK_BACK_BYTES = 4096
# Bytes of UTF-8 that are spaces, as str.isspace() has them.
_SPACE = (
    rb"[\t-\r\x1c- ]|\xc2[\x85\xa0]|\xe1\x9a\x80"
    rb"|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80"
)
_BLANK = re.compile(rb"(?:%b)*+" % _SPACE)


def read_file(piece: Piece, counts: Counts) -> Iterator[Raw]:
    """The one record of a file that is a document."""
    yield _whole_file(piece, counts)


def _whole_file(piece: Piece, counts: Counts) -> Raw:
    most_bytes = piece.file.source.max_record_bytes
    data = bytearray()
    for block in whole_text(piece.file.path, piece.file.num_bytes, counts).blocks:
        data += block
        if len(data) > most_bytes:
            return too_large(0, most_bytes)
    return Raw(0, data)


def read_runs(piece: Piece, counts: Counts) -> Iterator[Raw]:
    """The runs of lines that are not blank; a run's place is the first byte of its first line."""
    most_bytes = piece.file.source.max_record_bytes
    text = piece_text(piece.file.path, piece.start, piece.stop, piece.file.num_bytes, counts)
    lines = read_lines(text, most_bytes)
    if piece.start and _goes_on(piece, next(lines, None)):
        _skip_run(lines)
    run: Raw | None = None
    for line in lines:
        if run is None and line.place >= text.stop:
            return
        if not line.problem and is_blank(line.data):
            if run is not None:
                yield run
            run = None
        else:
            run = line if run is None else _longer(run, line, most_bytes)
    if run is not None:
        yield run


def read_document(
    data: bytes | bytearray, identity: int, file: SourceFile, counts: Counts
) -> Document:
    """The document of a record: named after its file where it is all of it."""
    source = file.source
    title = file.name if source.format == "text" else ""
    mode = source.paragraphs if source.format == "text" else "line"
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # Line by line: of a long text in wide characters there must be no second copy.
    paragraphs = joined_lines((decode(line, counts) for line in data.split(b"\n")), mode)
    given = source.format == "sentences"
    return Document(identity, f"{identity:016x}", title, paragraphs, sentences_given=given)


def is_blank(line: bytes | bytearray) -> bool:
    """True for a line of nothing but spaces."""
    return not line or (
        line[0] in b" \t\r\f\v\x1c\x1d\x1e\x1f\xc2\xe1\xe2\xe3" and bool(_BLANK.fullmatch(line))
    )


def _longer(run: Raw, line: Raw, most_bytes: int) -> Raw:
    """The run with one more line, unless together they are too large."""
    if run.problem or line.problem or len(run.data) + len(line.data) >= most_bytes:
        return too_large(run.place, most_bytes)
    data = run.data if isinstance(run.data, bytearray) else bytearray(run.data)
    data += b"\n"
    data += line.data
    return Raw(run.place, data)


def _goes_on(piece: Piece, rest: Raw | None) -> bool:
    """True if the line that holds the byte before the piece is not blank: its document goes on.

    `rest` is that line from that byte on.
    """
    if rest is None or rest.problem:
        return rest is not None
    before = _line_before(piece.file.path, piece.start - 1)
    line = before + rest.data
    if len(before) == piece.start - 1:
        line = line.removeprefix(BOM_UTF8)
    return not is_blank(line)


def _line_before(path: AnyPath, stop: int) -> bytes:
    """What stands in its line before byte `stop`; its last bytes will do, unless they are blank."""
    size, found = LOOK_BACK_BYTES, b""
    with path.open("rb") as file:
        while True:
            start = max(0, stop - size)
            file.seek(start)
            found = file.read(stop - start)
            line = found.rpartition(b"\n")[2]
            whole = start == 0 or len(line) < len(found)
            if whole or not is_blank(line.lstrip(bytes(range(0x80, 0xC0)))):
                return line
            size *= 16


def _skip_run(lines: Iterator[Raw]) -> None:
    """Read on to behind the next blank line."""
    for line in lines:
        if not line.problem and is_blank(line.data):
            return
