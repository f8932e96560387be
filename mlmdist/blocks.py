"""A block: up to 1,024 windows as arrays, and its form on disk, tar members checked by CRC.

Windows are ragged, so token-long fields stand end to end and `window_ptr` says where each window
begins. There is no padding and there are no special tokens: those belong to a batch.

Where `long_text` leaves text out, a document has gaps: no window holds their tokens, and none spans
one. `gap` gives the tokens left out directly before a window, so `token_offset + repeated - gap` is
where the window before ends and the chain of a document can still be proved; what is left out
behind its last window is told by BEFORE_GAP alone. Either all blocks of a set have `gap` or none.
"""

import io
import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import google_crc32c
import numpy as np
from jaxtyping import Bool, Int64, UInt8, UInt16, UInt32, UInt64
from numpy.typing import NDArray

from mlmdist.errors import DataError

ROWS_PER_BLOCK = 1024
TAR_UNIT = 512
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<|][uib][1248])', 'fortran_order': False, "
    rb"'shape': \((\d+),\), \} *\n",
    re.DOTALL,
)

STARTS_ON_SENTENCE = 1
ENDS_ON_SENTENCE = 2
FORCED_CUT = 4  # the window ends inside a word that is longer than a window
LAST_OF_DOCUMENT = 8  # the last of its windows; the text may go on behind a gap
BEFORE_GAP = 16  # the tokens directly behind it are in no window

ROW_LONG = ("document_id", "token_offset", "window_number", "repeated", "flags")
OPTIONAL = ("tag", "gap")
GATHER_TOKENS = 1 << 18


@dataclass(frozen=True)
class Block:
    """Windows as arrays; `total` counts tokens, `starts` sentence starts, of all rows together."""

    tokens: UInt16[np.ndarray, "total"] | UInt32[np.ndarray, "total"]
    window_ptr: UInt32[np.ndarray, "rows_plus_1"]
    """Row r's tokens are `tokens[window_ptr[r]:window_ptr[r + 1]]`."""

    sentence_start: UInt16[np.ndarray, "starts"]
    """Offsets inside the window at which a sentence starts; a window's first is always 0, also
    where it continues a sentence (then its flags lack STARTS_ON_SENTENCE)."""

    sentence_ptr: UInt32[np.ndarray, "rows_plus_1"]
    """Row r's sentence starts are `sentence_start[sentence_ptr[r]:sentence_ptr[r + 1]]`."""

    word_start: Bool[np.ndarray, "total"]
    """Whether a token starts a word; packed to bits on disk."""

    document_id: UInt64[np.ndarray, "rows"]
    """Source index << 40 | ordinal in the source."""

    token_offset: UInt32[np.ndarray, "rows"]
    """Where in its document's tokens the window starts, repeated head included."""

    window_number: UInt32[np.ndarray, "rows"]
    repeated: UInt16[np.ndarray, "rows"]
    """Tokens at the head that the window before holds too: context, never a target."""

    flags: UInt8[np.ndarray, "rows"]
    tag: UInt8[np.ndarray, "total"] | None = None
    """A tag a token, for masking rules."""

    gap: UInt32[np.ndarray, "rows"] | None = None
    """Tokens directly before the window's new ones that no window holds; None: text has no gaps."""

    @property
    def num_rows(self) -> int:
        """Windows in the block."""
        return len(self.document_id)


def take(block: Block, rows: Int64[np.ndarray, "taken"]) -> Block:
    """The windows `rows` of a block, in that order, as a block."""
    window_ptr, (tokens, word_start, tag) = _take_ragged(
        block.window_ptr, (block.tokens, block.word_start, block.tag), rows
    )
    sentence_ptr, (sentence_start,) = _take_ragged(
        block.sentence_ptr, (block.sentence_start,), rows
    )
    return Block(
        tokens=tokens,
        window_ptr=window_ptr,
        sentence_start=sentence_start,
        sentence_ptr=sentence_ptr,
        word_start=word_start,
        tag=tag,
        gap=None if block.gap is None else block.gap[rows],
        **{name: getattr(block, name)[rows] for name in ROW_LONG},
    )


def concatenate(blocks: list[Block]) -> Block:
    """The windows of all the blocks, end to end, as one block.

    Either all or none have tags, and either all or none have gaps.
    """
    if len(blocks) == 1:
        return blocks[0]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(block, name) for block in blocks])
        for name in ("tokens", "sentence_start", "word_start", *ROW_LONG)
    }
    for name in OPTIONAL:
        there = [part for block in blocks if (part := getattr(block, name)) is not None]
        assert len(there) in (0, len(blocks)), f"some blocks have {name} and some have none"
        joined[name] = np.concatenate(there) if there else None
    return Block(
        window_ptr=_join_pointers([block.window_ptr for block in blocks]),
        sentence_ptr=_join_pointers([block.sentence_ptr for block in blocks]),
        **joined,
    )


def spans(
    sources: "Sequence[NDArray[Any] | None]",
    starts: Int64[np.ndarray, "spans"],
    stops: Int64[np.ndarray, "spans"],
) -> "tuple[Int64[np.ndarray, 'spans_plus_1'], list[Any]]":
    """Pointers to, and of each source the elements of, the spans [start, stop), end to end.

    The index of the elements, eight bytes each, is made for a stretch of them at a time.
    """
    ptr = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(stops - starts, out=ptr[1:])
    total = int(ptr[-1])
    made = [None if each is None else np.empty(total, dtype=each.dtype) for each in sources]
    cuts = np.searchsorted(ptr, np.arange(0, total, GATHER_TOKENS), "right") - 1
    for first, last in pairwise(np.unique(np.append(cuts, len(starts))).tolist()):
        low, high = int(ptr[first]), int(ptr[last])
        moved = starts[first:last] - ptr[first:last]
        index = np.arange(low, high) + np.repeat(moved, np.diff(ptr[first : last + 1]))
        for source, target in zip(sources, made, strict=True):
            if source is not None and target is not None:
                np.take(source, index, out=target[low:high], mode="clip")
    return ptr, made


def _take_ragged(
    pointers: UInt32[np.ndarray, "rows_plus_1"],
    sources: "tuple[NDArray[Any] | None, ...]",
    rows: Int64[np.ndarray, "taken"],
) -> "tuple[UInt32[np.ndarray, 'taken_plus_1'], list[Any]]":
    """Pointers of the rows taken, and their elements in each source."""
    starts, stops = pointers[rows].astype(np.int64), pointers[rows + 1].astype(np.int64)
    taken, made = spans(sources, starts, stops)
    return taken.astype(np.uint32), made


def _join_pointers(parts: list[NDArray[np.uint32]]) -> UInt32[np.ndarray, "rows_plus_1"]:
    bases = np.cumsum([0] + [int(part[-1]) for part in parts])
    moved = [part[1:].astype(np.int64) + base for part, base in zip(parts, bases, strict=False)]
    joined = np.concatenate([np.zeros(1, dtype=np.int64), *moved])
    assert joined[-1] < 1 << 32, "a block of over 2**32 tokens"
    return joined.astype(np.uint32)


def encode(block: Block, key: str) -> bytes:
    """The block as tar members `key.FIELD.npy` and `key.json`; equal blocks give equal bytes."""
    members: list[tuple[str, bytes]] = []
    for name, array in _stored_fields(block):
        members.append((f"{key}.{name}.npy", _npy(array)))
    described = {
        "rows": block.num_rows,
        "tokens": len(block.tokens),
        "crc32c": {name.split(".")[1]: google_crc32c.value(data) for name, data in members},
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    members.append((f"{key}.json", text.encode()))
    return b"".join(tar_member(name, data) for name, data in members)


def decode(data: bytes, where: str) -> Block:
    """The block in the bytes of its members, whose CRC the caller has checked.

    Raises DataError, naming `where`, if the members are not those of a block.
    """
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, start, end in tar_members(data, where):
        field = name.split(".")[1]
        if field != "json":
            arrays[field] = _array(data, start, end)
    total = len(arrays["tokens"])
    packed = arrays.pop("word_start")
    bits = np.unpackbits(packed.astype(np.uint8), count=total, bitorder="little")
    return Block(word_start=bits.view(np.bool_), **arrays)  # pyright: ignore[reportArgumentType]


def _array(data: bytes, start: int, end: int) -> NDArray[np.generic]:
    """The array in an .npy member; its header in the usual form is read without Python's parser."""
    head = HEADER.match(data, start, end)
    if head is None:
        return np.lib.format.read_array(io.BytesIO(data[start:end]))
    kind, count = head[2].decode(), int(head[3])
    first = start + 10 + int.from_bytes(head[1], "little")
    return np.frombuffer(data, np.dtype(kind), count, first).copy()


def broken_member(data: bytes, where: str) -> str:
    """Which member of a damaged block has the wrong CRC, and at which byte of the block."""
    try:
        spans = {name.split(".")[1]: (start, end) for name, start, end in tar_members(data, where)}
        start, end = spans["json"]
        sums = json.loads(data[start:end])["crc32c"]
        for field, expected in sums.items():
            start, end = spans[field]
            if google_crc32c.value(data[start:end]) != expected:
                return f"field {field}, bytes {start} to {end} of the block"
    except (DataError, KeyError, ValueError, IndexError):
        return "its members cannot be told apart"
    return "a header, the JSON member or padding"


def tar_member(name: str, data: bytes) -> bytes:
    """One file of an uncompressed USTAR archive, with time and owner 0."""
    header = tarfile.TarInfo(name)
    header.size = len(data)
    header.mode = 0o644
    padding = -len(data) % TAR_UNIT
    return header.tobuf(tarfile.USTAR_FORMAT) + data + bytes(padding)


def tar_members(data: bytes, where: str) -> Iterator[tuple[str, int, int]]:
    """(name, start, end) of each file in a run of tar members; DataError if it is not one."""
    place = 0
    while place < len(data):
        header = data[place : place + TAR_UNIT]
        try:
            name = header[:100].rstrip(b"\0").decode("ascii")
            size = int(header[124:135], 8)
        except (ValueError, UnicodeDecodeError):
            raise DataError(f"{where}: no tar header at byte {place} of the block") from None
        start = place + TAR_UNIT
        yield name, start, start + size
        place = start + size + -size % TAR_UNIT


def _stored_fields(block: Block) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """The fields in their fixed order, word starts as bits."""
    for field in fields(Block):
        array = getattr(block, field.name)
        if field.name == "word_start":
            yield field.name, np.packbits(array, bitorder="little")
        elif array is not None:
            yield field.name, array


def _npy(array: NDArray[np.generic]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
    return buffer.getvalue()
