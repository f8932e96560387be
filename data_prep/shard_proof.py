"""Proof of one shard: read it in two ways, hold its blocks against the laws and in their order."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np
from jaxtyping import UInt64

from data_prep.block_proof import Findings, check_block
from data_prep.parts import seal_keys
from data_prep.progress import tell
from mlmdist.blocks import ROWS_PER_BLOCK, Block
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, sha256
from mlmdist.manifest import Manifest
from mlmdist.shard import Shard, ShardEntry
from mlmdist.shards import ShardSet

FIELD_NAMES = tuple(f.name for f in fields(Block))
COPY_BYTES = 1 << 20


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
        found += check_block(block, manifest, where)
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
