"""Bytes out of packed files: gzip, bzip2, xz and zstd, known by their first bytes, or plain.

Every member, stream and frame of a file is read, and whatever is wrong raises Damage: a check sum,
a file that is cut short, bytes behind the end. What a format does not check cannot be seen: zstd
frames written without a check sum, and xz files written with `--check=none`.
"""

import bz2
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from backports import zstd

from mlmdist.files import AnyPath

READ_BYTES = 1 << 20
UNPACK_BYTES = 1 << 17  # at once; so much before a damaged place may be lost with it
HEAD_BYTES = 1 << 14
MOST_XZ_BYTES = 1 << 28  # memory that unpacking may take
MAGIC = {
    "gzip": b"\x1f\x8b\x08",
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "zstd": b"\x28\xb5\x2f\xfd",
}
SKIPPABLE_ZSTD = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
OTHER_ARCHIVES = {
    "zip": b"PK\x03\x04",
    "7z": b"7z\xbc\xaf\x27\x1c",
    "rar": b"Rar!\x1a\x07",
    "lz4": b"\x04\x22\x4d\x18",
    "lzip": b"LZIP\x01",
    "compress": b"\x1f\x9d",
}
LONGEST_MAGIC = 8
BZIP2_STREAM = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
BZIP2_HEADER_BYTES = 10
PADDED = ("gzip", "xz")  # zeros may follow a member


class Damage(Exception):
    """A file, or a part of one, is not what its format promises; the text says what and where."""

    def __init__(self, text: str, place: int = 0) -> None:
        super().__init__(text)
        self.place = place
        """Where the packed member starts that is damaged."""


@dataclass
class Counts:
    """What reading has met so far."""

    raw_bytes: int = 0
    """Bytes of the files that have been read, packed as they lie there."""

    invalid_bytes: int = 0
    """Bytes that are no UTF-8; each stands in the text as U+FFFD."""


class Gzip:
    """zlib's decompressor for one gzip member, in the form of the others."""

    def __init__(self) -> None:
        self.inner = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        """True behind the member's end."""
        return self.inner.eof

    @property
    def unused_data(self) -> bytes:
        """What it got behind the end."""
        return self.inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """The next bytes, at most `max_length`."""
        out = self.inner.decompress(self.inner.unconsumed_tail + data, max(max_length, 0))
        self.needs_input = not self.inner.eof and len(out) < max_length
        return out


Decompressor = Gzip | bz2.BZ2Decompressor | lzma.LZMADecompressor | zstd.ZstdDecompressor
"""Unpacks one member; see bz2.BZ2Decompressor, whose form all have."""


def kind_of(head: bytes) -> str:
    """How a file that starts with `head` is packed: a key of MAGIC, or "" for plain.

    Raises Damage for archives that are not read.
    """
    for kind, magic in OTHER_ARCHIVES.items():
        if head.startswith(magic):
            raise Damage(f"is a {kind} archive, which is not read; unpack it")
    if SKIPPABLE_ZSTD.match(head):
        return "zstd"
    return next((kind for kind, magic in MAGIC.items() if head.startswith(magic)), "")


def read_head(path: AnyPath) -> bytes:
    """The first HEAD_BYTES of a file."""
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def raw_blocks(path: AnyPath, start: int, counted: range, counts: Counts) -> Iterator[bytes]:
    """The bytes of a file from `start` to its end; those in `counted` are counted as read."""
    with path.open("rb") as file:
        file.seek(start)
        place = start
        while block := file.read(READ_BYTES):
            end = place + len(block)
            counts.raw_bytes += max(0, min(end, counted.stop) - max(place, counted.start))
            place = end
            yield block


def unpacked(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The plain bytes of a file, of which `blocks` are the raw ones from its start.

    Raises Damage naming the raw byte, once all that stands before the damage has been given.
    """
    blocks = iter(blocks)
    first = b""
    while len(first) < LONGEST_MAGIC and (block := next(blocks, b"")):
        first += block
    kind = kind_of(first)
    if not kind:
        yield first
        yield from blocks
        return
    for _, block in frames(joined(first, blocks), kind, 0):
        yield block


def joined(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks of `rest` behind `first`."""
    yield first
    yield from rest


def frames(raw: Iterator[bytes], kind: str, start: int) -> Iterator[tuple[int, bytes]]:
    """(where its member starts, plain bytes) of a run of packed members that starts at `start`.

    Plain bytes come in blocks of at most UNPACK_BYTES, at least one a member. Ends with the raw
    bytes; raises Damage where they are no whole members.
    """
    data, place = next(raw, b""), start
    while data:
        decompressor = _decompressor(kind, data)
        if decompressor is None:
            raise Damage(f"at byte {place:,}: bytes follow that are no {kind}; {WAY_OUT}", place)
        fed = len(data)
        while not decompressor.eof:
            try:
                out = decompressor.decompress(data, UNPACK_BYTES)
            except (OSError, EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError) as error:
                text = f"at byte {place:,}: damaged {kind} ({error}); {WAY_OUT}"
                raise Damage(text, place) from None
            yield place, out
            data = b""
            if decompressor.needs_input and not decompressor.eof:
                data = next(raw, b"")
                fed += len(data)
                if not data:
                    text = f"at byte {place + fed:,}: {kind} ends too early; {WAY_OUT}"
                    raise Damage(text, place)
        data = decompressor.unused_data
        place += fed - len(data)
        data, place = _next_member(data, raw, kind, place)


WAY_OUT = (
    "compare the file's check sum and fetch it again, or go on with a larger allow_quarantined"
)


def _next_member(data: bytes, raw: Iterator[bytes], kind: str, place: int) -> tuple[bytes, int]:
    """Enough of the next member to know it by, and where it starts; nothing at the end."""
    while True:
        if kind in PADDED:
            place += len(data) - len(data := data.lstrip(b"\x00"))
        if len(data) >= len(MAGIC[kind]) or not (more := next(raw, b"")):
            return data, place
        data += more


def _decompressor(kind: str, data: bytes) -> Decompressor | None:
    """A decompressor for the member that starts with `data`; None if none starts there."""
    if kind_of(data) != kind:
        return None
    if kind == "gzip":
        return Gzip()
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    if kind == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_XZ_BYTES)
    return zstd.ZstdDecompressor()


def find_stream(path: AnyPath, start: int, stop: int) -> int | None:
    """Where the first bzip2 stream starts at or behind `start` and before `stop`.

    A stream is known by the 80 bits of its head; chance makes one in 2**76 bytes.
    """
    with path.open("rb") as file:
        file.seek(start)
        data, place = b"", start
        while place < stop and (block := file.read(READ_BYTES)):
            data += block
            if found := BZIP2_STREAM.search(data):
                return place + found.start() if place + found.start() < stop else None
            place += max(0, len(data) - BZIP2_HEADER_BYTES + 1)
            data = data[-BZIP2_HEADER_BYTES + 1 :]
    return None
