"""Text out of bytes: byte-order marks, lines with their places, and bytes that are no UTF-8."""

import codecs
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from data_prep.sources.packed import (
    HEAD_BYTES,
    WAY_OUT,
    Counts,
    Damage,
    joined,
    raw_blocks,
    unpacked,
)
from data_prep.sources.record import Raw, too_large
from mlmdist.files import AnyPath

BYTE_ORDER_MARKS = {  # in this order: UTF-32's mark starts with UTF-16's
    codecs.BOM_UTF8: "",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
TAR_MARK = slice(257, 262)
FEW_BROKEN, MOST_BROKEN_SHARE = 16, 0.1  # characters of a head that no text has; above, it is none
ALL = sys.maxsize
_BROKEN = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\udc80-\udcff\ufffd]")
_ESCAPED = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class TextBytes:
    """UTF-8 bytes of a file, as they may be: nothing says yet that all of them are valid."""

    first: int
    """Place of the first byte in the unpacked, recoded file."""

    stop: int
    """The place before which a record must start; ALL where the file is read whole."""

    blocks: Iterator[bytes]
    recoded: bool = False
    """True where the file is written in another encoding than UTF-8."""


def whole_text(path: AnyPath, num_bytes: int, counts: Counts) -> TextBytes:
    """The unpacked text of a file; raises Damage where it is none, at once or while it is read."""
    head, rest = _head(unpacked(raw_blocks(path, 0, range(num_bytes), counts)))
    check_text(head[:HEAD_BYTES])
    mark, encoding = byte_order_mark(head)
    blocks = joined(head[len(mark) :], rest)
    if encoding:
        return TextBytes(0, ALL, _recoded(blocks, encoding), recoded=True)
    return TextBytes(len(mark), ALL, blocks)


def piece_text(path: AnyPath, start: int, stop: int, num_bytes: int, counts: Counts) -> TextBytes:
    """The text of a file's bytes from `start` on, which are plain UTF-8 unless they are all of it.

    Behind the file's start it begins one byte early, so that the first line to end is one that
    does not count.
    """
    if start:
        return TextBytes(start - 1, stop, raw_blocks(path, start - 1, range(start, stop), counts))
    text = whole_text(path, stop, counts)
    # What stands behind a byte-order mark belongs to the first piece, be it ever so small.
    return text if stop >= num_bytes else replace(text, stop=max(stop, text.first + 1))


def _head(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """HEAD_BYTES or more from the start, and the rest, which may turn out to be damage."""
    head = b""
    try:
        for block in blocks:
            head += block
            if len(head) >= HEAD_BYTES:
                break
    except Damage as damage:
        if not head:
            raise
        return head, _raising(damage)
    return head, blocks


def _raising(damage: Damage) -> Iterator[bytes]:
    yield b""
    raise damage


def byte_order_mark(head: bytes) -> tuple[bytes, str]:
    """The mark at the start of a file, and the codec it stands for; "" is UTF-8."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return mark, encoding
    return b"", ""


def check_text(head: bytes) -> None:
    """Raise Damage if a file that starts so is no text in an encoding that is read."""
    if head[TAR_MARK] == b"ustar":
        raise Damage("is a tar archive, which is not read; unpack it")
    mark, encoding = byte_order_mark(head)
    errors = "replace" if encoding else "surrogateescape"
    text = head[len(mark) :].decode(encoding or "utf-8", errors)
    broken = len(_BROKEN.findall(text))
    if broken > max(FEW_BROKEN, MOST_BROKEN_SHARE * len(text)):
        raise Damage(
            "is no text in UTF-8, or by byte-order mark UTF-16; recode it (iconv -t utf-8), or "
            "leave it out of the source"
        )


def decode(data: bytes | bytearray, counts: Counts) -> str:
    """The text of bytes that should be UTF-8; a byte that is none becomes U+FFFD, counted."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        text, number = _ESCAPED.subn("\ufffd", data.decode("utf-8", "surrogateescape"))
        counts.invalid_bytes += number
        return text


def read_lines(text: TextBytes, most_bytes: int) -> Iterator[Raw]:
    """The lines without their ends: a line feed, or a carriage return and a line feed.

    Memory holds one line of at most `most_bytes`; a longer one comes as a problem.
    """
    place, size, pending = text.first, 0, bytearray()
    for block in text.blocks:
        *ends, rest = block.split(b"\n")
        for end in ends:
            if size == 0 and len(end) <= most_bytes:
                yield Raw(place, end.removesuffix(b"\r"))
                place += len(end) + 1
                continue
            size += len(end)
            line = _long_line(place, pending, end, size, most_bytes)
            place, size, pending = place + size + 1, 0, bytearray()
            yield line
        size += len(rest)
        if size <= most_bytes:
            pending += rest
        else:
            pending = bytearray()
    if size:
        yield _long_line(place, pending, b"", size, most_bytes)


def _long_line(place: int, pending: bytearray, end: bytes, size: int, most_bytes: int) -> Raw:
    """The line of what has been gathered of it and its end."""
    if size > most_bytes:
        return too_large(place, most_bytes)
    pending += end
    if pending.endswith(b"\r"):
        del pending[-1:]
    return Raw(place, pending)


def _recoded(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """UTF-8 of another encoding; a lone surrogate becomes bytes that are no UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
    try:
        for block in blocks:
            yield decoder.decode(block).encode("utf-8", "surrogatepass")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise Damage(f"damaged or cut {encoding} ({error.reason}); {WAY_OUT}") from None
