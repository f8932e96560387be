"""Proof of one shard: read it in two ways and hold every window against the laws.

That the windows of each document join to its tokens (law W1) is shown without a table of documents:
every window but a document's last promises (document, next number, where it stops, whether a gap
follows), every window but a first claims (document, its number, where its new tokens start less the
gap before them, whether there is one). Promises and claims are the same multiset if and only if the
chains are whole, and then no token is new in two windows, as gaps are not negative. Multisets are
compared by sums of two independent 64-bit hashes (Clarke et al. 2003, MSet-Add-Hash), which any
number of readers can add up.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt64

from data_prep.parts import seal_keys
from data_prep.progress import tell
from data_prep.sealing import count_tokens
from mlmdist.blocks import (
    BEFORE_GAP,
    ENDS_ON_SENTENCE,
    LAST_OF_DOCUMENT,
    OPTIONAL,
    ROW_LONG,
    ROWS_PER_BLOCK,
    Block,
)
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, sha256
from mlmdist.manifest import Manifest
from mlmdist.rng import absorb_array, hash64
from mlmdist.shards import Shard, ShardEntry, ShardSet
from mlmdist.tokenizer import NUM_SPECIAL_POSITIONS

MASK64 = (1 << 64) - 1
FIELD_NAMES = tuple(f.name for f in fields(Block))
COPY_BYTES = 1 << 20
NUMBERS = ("windows", "tokens", "repeated", "left_out", "tails", "firsts", "lasts", *OPTIONAL)


@dataclass
class Findings:
    """What reading one shard, or several, gives; `a + b` is what reading both gives."""

    broken: list[str] = field(default_factory=list)
    windows: int = 0
    tokens: int = 0
    repeated: int = 0
    left_out: int = 0
    """Tokens in gaps before windows."""

    tails: int = 0
    """Documents of which text behind their last window is left out."""

    firsts: int = 0
    lasts: int = 0
    tag: int = 0
    """Blocks that have tags."""

    gap: int = 0
    """Blocks that have gaps."""

    promised: tuple[int, int] = (0, 0)
    claimed: tuple[int, int] = (0, 0)
    documents: tuple[int, int] = (0, 0)
    """The multiset of documents."""

    unigram: Int64[np.ndarray, "ids"] | int = 0

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(
            broken=self.broken + other.broken,
            promised=_add(self.promised, other.promised),
            claimed=_add(self.claimed, other.claimed),
            documents=_add(self.documents, other.documents),
            unigram=self.unigram + other.unigram,
            **{name: getattr(self, name) + getattr(other, name) for name in NUMBERS},
        )


def check_shard(folder: AnyPath, number: int, held_out: AnyPath | None = None) -> Findings:
    """Read shard `number` of the set in `folder` in both ways and check each block of it.

    With `held_out`, a set that must share no document with this one (law E1), its blocks of the
    same stretch of the seal order are read too: a document's first window has the same key in both.
    A shard of an object store is copied to this machine first. Memory holds a few blocks.
    """
    opened = ShardSet.open(folder)
    try:
        entry = opened.entry(number)
        with _local(folder / entry.name) as path:
            found = _check_file(opened, number, entry, path)
            if not found.broken:
                found.broken += _check_between(opened, number, path, entry, held_out)
    except DataError as error:
        found = Findings(broken=[str(error)])
    finally:
        opened.close()
    return found


@contextmanager
def _local(path: AnyPath) -> Iterator[Path]:
    """The file, or a copy of it on this machine while it is needed; DataError if it is not there.

    webdataset reads files of this machine.
    """
    if isinstance(path, Path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        try:
            with path.open("rb") as source, copy.open("wb") as target:
                while data := source.read(COPY_BYTES):
                    target.write(data)
        except OSError as error:
            raise DataError(f"{path}: cannot be opened ({error})") from None
        yield copy


def _check_file(opened: ShardSet, number: int, entry: ShardEntry, path: Path) -> Findings:
    """Check one shard by itself; `path` may be a copy of it."""
    manifest, named = opened.manifest, opened.folder / entry.name
    found = Findings()
    if entry.name != f"{number:06d}.tar":
        return Findings(broken=[f"{named}: the table must name {number:06d}.tar here"])
    try:
        shard = Shard(path, entry)
    except DataError as error:
        return Findings(broken=[str(error).replace(str(path), str(named))])
    before: UInt64[np.ndarray, 3] | None = None
    for index, block_entry in enumerate(shard.index):
        where = f"{named}, block {block_entry.key}"
        try:
            block = shard.read_block(index)
        except DataError as error:
            found.broken.append(str(error).replace(str(path), str(named)))
            continue
        tell(bytes=block_entry.bytes)
        found += _check_block(block, manifest, where)
        found.broken += _check_place(manifest, number, index, block_entry.key, block, where)
        order, before = _check_order(block, manifest, before, where)
        found.broken += order
    if sha256(path) != entry.sha256:
        found.broken.append(f"{named}: its SHA-256 is not the one in the table")
    counts = (len(shard.index), found.windows, found.tokens)
    if not found.broken and counts != (entry.blocks, entry.windows, entry.tokens):
        found.broken.append(f"{named}: holds other counts than the table says")
    if not found.broken:
        found.broken += _check_plain_reading(path, named, shard)
    shard.close()
    return found


def _check_block(block: Block, manifest: Manifest, where: str) -> Findings:
    if not _fits_together(block):
        return Findings(broken=[f"{where}: the lengths of its fields do not fit together"])
    start = block.token_offset.astype(np.int64)
    lengths = np.diff(block.window_ptr.astype(np.int64))
    last = (block.flags & LAST_OF_DOCUMENT) > 0
    before_gap = (block.flags & BEFORE_GAP) > 0
    first = block.window_number == 0
    new = start + block.repeated
    gap = np.zeros_like(new) if block.gap is None else block.gap.astype(np.int64)
    rules = {
        "a window is empty or too long": (lengths < 1)
        | (lengths > manifest.max_seq_len - NUM_SPECIAL_POSITIONS),
        "a repeated head leaves nothing new": block.repeated >= lengths,
        "a document's first window does not start at its start": first & (new != gap),
        "a document's last window ends inside a sentence": last
        & ~before_gap
        & ((block.flags & ENDS_ON_SENTENCE) == 0),
        "a repeated head stands behind a gap": (gap > 0) & (block.repeated > 0),
        "a gap follows in a set without gaps": before_gap & (block.gap is None),
    }
    broken = [
        f"{where}, window {int(np.flatnonzero(bad)[0])}: {rule}"
        for rule, bad in rules.items()
        if bad.any()
    ]
    broken += _check_tokens(block, manifest, where) + _check_sentences(block, lengths, where)
    numbers = block.window_number.astype(np.uint64)
    stop = (start + lengths).astype(np.uint64)
    claimed = (block.document_id, numbers, (new - gap).astype(np.uint64), gap > 0)
    promised = (block.document_id, numbers + np.uint64(1), stop, before_gap)
    return Findings(
        broken,
        windows=block.num_rows,
        tokens=len(block.tokens),
        repeated=int(block.repeated.sum()),
        left_out=int(gap.sum()),
        tails=int((last & before_gap).sum()),
        firsts=int(first.sum()),
        lasts=int(last.sum()),
        tag=int(block.tag is not None),
        gap=int(block.gap is not None),
        promised=_multiset_hash(*(part[~last] for part in promised)),
        claimed=_multiset_hash(*(part[~first] for part in claimed)),
        documents=_multiset_hash(block.document_id[first]),
        unigram=count_tokens(block, manifest.vocab_size) if not broken else 0,
    )


def _fits_together(block: Block) -> bool:
    """Whether every field has the length that the pointers and the number of rows say."""
    rows, total = block.num_rows, len(block.tokens)
    pointers = (block.window_ptr, block.sentence_ptr)
    sizes = [len(getattr(block, name)) for name in ROW_LONG]
    sizes += [rows if block.gap is None else len(block.gap)]
    sizes += [len(pointer) - 1 for pointer in pointers]
    totals = [int(block.window_ptr[-1]), len(block.word_start)]
    totals += [total if block.tag is None else len(block.tag)]
    return rows > 0 and set(sizes) == {rows} and set(totals) == {total}


def _check_tokens(block: Block, manifest: Manifest, where: str) -> list[str]:
    never = [token for name, token in manifest.special_ids.items() if name != "[UNK]"]
    allowed = np.ones(int(block.tokens.max(initial=0)) + 1, dtype=np.bool_)
    allowed[manifest.vocab_size :] = False
    allowed[[token for token in never if token < len(allowed)]] = False
    wrong = ~allowed[block.tokens]
    if not wrong.any():
        return []
    place = int(np.flatnonzero(wrong)[0])
    return [f"{where}, token {place}: id {block.tokens[place]} cannot come from text"]


def _check_sentences(block: Block, lengths: Int64[np.ndarray, "rows"], where: str) -> list[str]:
    """Sentence starts ascend inside each window, from 0 to under its length."""
    ptr = block.sentence_ptr.astype(np.int64)
    if (np.diff(ptr) < 1).any() or ptr[-1] != len(block.sentence_start):
        return [f"{where}: a window has no sentence start"]
    starts = block.sentence_start.astype(np.int64)
    ascends = np.diff(starts) > 0
    ascends[ptr[1:-1] - 1] = True  # from one window to the next
    inside = starts < np.repeat(lengths, np.diff(ptr))
    if (starts[ptr[:-1]] != 0).any() or not ascends.all() or not inside.all():
        return [f"{where}: sentence starts do not ascend from 0 inside a window"]
    return []


def _check_place(
    manifest: Manifest, shard: int, index: int, key: str, block: Block, where: str
) -> list[str]:
    number = shard * manifest.blocks_per_shard + index
    short = manifest.num_windows - number * ROWS_PER_BLOCK
    if int(key) != number or block.num_rows != min(ROWS_PER_BLOCK, short):
        return [f"{where}: must be block {number} with {min(ROWS_PER_BLOCK, short)} windows"]
    return []


def _keys(block: Block, manifest: Manifest) -> UInt64[np.ndarray, "rows 3"]:
    """What the windows are sorted by: seal key, document, window number."""
    keys = seal_keys(block, manifest.provenance["config"]["shards"]["seed"])
    return np.stack([keys, block.document_id, block.window_number.astype(np.uint64)], axis=1)


def _check_order(
    block: Block, manifest: Manifest, before: UInt64[np.ndarray, "3"] | None, where: str
) -> tuple[list[str], UInt64[np.ndarray, "3"]]:
    """Windows ascend strictly by (seal key, document, number): so none is there twice."""
    rows = _keys(block, manifest)
    chained = rows if before is None else np.concatenate([before[None], rows])
    upper, lower = chained[:-1], chained[1:]
    equal = upper == lower
    above = upper > lower  # [rows, 3], to be read from left to right
    wrong = above[:, 0] | (
        equal[:, 0] & (above[:, 1] | (equal[:, 1] & (above[:, 2] | equal[:, 2])))
    )
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        reason = "is there twice" if equal[at].all() else "is out of order"
        return [f"{where}: window {lower[at, 2]} of document {lower[at, 1]} {reason}"], rows[-1]
    return [], rows[-1]


def _check_plain_reading(path: Path, named: AnyPath, shard: Shard) -> list[str]:
    """Whether plain webdataset, told nothing of our index, reads the same blocks."""
    from mlmdist.data.streaming import stream_blocks  # imports torch: only here

    number = 0
    try:
        for key, streamed in stream_blocks([path]):
            if number == len(shard.index) or key != shard.index[number].key:
                return [f"{named}: plain webdataset reads a block {key} that is not in the index"]
            block = shard.read_block(number)
            for name in FIELD_NAMES:
                if not np.array_equal(getattr(block, name), getattr(streamed, name)):
                    return [f"{named}, block {key}: plain webdataset reads another {name}"]
            number += 1
    except DataError as error:
        return [str(error).replace(str(path), str(named))]
    if number != len(shard.index):
        return [f"{named}: plain webdataset reads {number} of {len(shard.index)} blocks"]
    return []


def _check_between(
    opened: ShardSet, number: int, path: Path, entry: ShardEntry, held_out: AnyPath | None
) -> list[str]:
    """Whether the next shard goes on behind this one, and the held-out set shares no document."""
    manifest = opened.manifest
    shard = Shard(path, entry)
    try:
        last = _keys(shard.read_block(entry.blocks - 1), manifest)[-1]
        if number + 1 < manifest.num_shards:
            block = opened.read_block((number + 1) * manifest.blocks_per_shard)
            where = f"{opened.folder}/{number + 1:06d}.tar, first block"
            if broken := _check_order(block, manifest, last, where)[0]:
                return broken
        return [] if held_out is None else _shared(opened.folder, shard, manifest, held_out)
    finally:
        shard.close()


def _shared(folder: AnyPath, shard: Shard, manifest: Manifest, held_out: AnyPath) -> list[str]:
    """Documents of the shard that are held out too (law E1), by a merge of the two seal orders."""
    other = ShardSet.open(held_out)
    try:
        number = -1
        block: Block | None = None
        for index in range(len(shard.index)):
            mine = shard.read_block(index)
            keys = _keys(mine, manifest)[:, 0]
            if block is None:
                number = _block_of(other, int(keys[0]))
                block = other.read_block(number)
            ids = mine.document_id[mine.window_number == 0]
            while True:
                both = np.intersect1d(ids, block.document_id[block.window_number == 0])
                if both.size:
                    return [f"{folder}: document {both[0]} is held out too (law E1)"]
                ends = number + 1 == other.manifest.num_blocks
                if ends or _keys(block, other.manifest)[-1, 0] > keys[-1]:
                    break
                number += 1
                block = other.read_block(number)
    finally:
        other.close()
    return []


def _block_of(opened: ShardSet, key: int) -> int:
    """The last block of a set that begins before `key`, or the first of all."""
    low, high = 0, opened.manifest.num_blocks
    while high - low > 1:
        middle = (low + high) // 2
        if int(_keys(opened.read_block(middle), opened.manifest)[0, 0]) < key:
            low = middle
        else:
            high = middle
    return low


def _multiset_hash(*parts: np.ndarray) -> tuple[int, int]:
    """Sums of hashes of rows, each of one number of every part; unsigned, or truth values."""
    sums: list[int] = []
    for purpose in ("verify.first", "verify.second"):
        state = hash64(purpose)
        for part in parts:
            state = absorb_array(state, part.astype(np.uint64))
        sums.append(int(np.sum(state)))
    return sums[0], sums[1]


def _add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return (one[0] + other[0]) & MASK64, (one[1] + other[1]) & MASK64
