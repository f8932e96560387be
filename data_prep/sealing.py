"""Sealing: from parts to the shards of a set, each a stretch of the order by seal key."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int64

from data_prep.parts import part_entry, read_report, seal_keys, side_path
from mlmdist.blocks import ROWS_PER_BLOCK, Block, concatenate, spans, take
from mlmdist.files import AnyPath, atomic_writer, write_json, write_text
from mlmdist.manifest import Manifest, fingerprint, manifest_checksum
from mlmdist.shard import Shard, ShardEntry, write_shard
from mlmdist.shards import table_line

BLOCK_DIGITS = 6


def plan_shards(sizes: dict[str, int], blocks_per_shard: int) -> list[tuple[list[str], int, int]]:
    """For each shard (buckets to read, windows to skip in them, windows to take)."""
    rows_per_shard = blocks_per_shard * ROWS_PER_BLOCK
    names = list(sizes)
    ends = np.cumsum(list(sizes.values()))
    total = int(ends[-1]) if names else 0
    plans: list[tuple[list[str], int, int]] = []
    for first in range(0, total, rows_per_shard):
        count = min(rows_per_shard, total - first)
        low = int(np.searchsorted(ends, first, "right"))
        high = int(np.searchsorted(ends, first + count, "left"))
        before = int(ends[low - 1]) if low else 0
        plans.append((names[low : high + 1], first - before, count))
    return plans


def seal_shard(
    parts: Sequence[AnyPath],
    length: int,
    side: str,
    plan: tuple[list[str], int, int],
    seed: int,
    first_block: int,
    vocab_size: int,
    target: AnyPath,
    report: AnyPath,
) -> None:
    """Write the shard `target` and, last, `report`: its table entry and token counts.

    Holds the windows of the buckets it reads, the shard's own and at most two more, in memory.
    """
    buckets, skip, count = plan
    found: dict[str, list[Block]] = {bucket: [] for bucket in buckets}
    for part in parts:
        for bucket, block in _read_buckets(part, length, side, found.keys()):
            found[bucket].append(block)
    block = concatenate([some for bucket in buckets for some in found.pop(bucket)])
    rows = _order(block, seed)[skip : skip + count]
    counted = Counted(np.zeros(vocab_size, dtype=np.int64))
    entry = write_shard(target, _blocks(block, rows, first_block, counted))
    described = {
        "entry": asdict(entry),
        "repeated": counted.repeated,
        "unigram": counted.unigram.tolist(),
    }
    write_text(report, json.dumps(described, sort_keys=True))  # indenting a long list is slow


@dataclass
class Counted:
    """What is counted of the blocks that go by."""

    unigram: Int64[np.ndarray, "ids"]
    repeated: int = 0


def count_tokens(block: Block, vocab_size: int) -> Int64[np.ndarray, "ids"]:
    """How often each id occurs in the block's windows, repeated heads left out."""
    starts = block.window_ptr[:-1].astype(np.int64)
    _, (heads,) = spans((block.tokens,), starts, starts + block.repeated)
    return np.bincount(block.tokens, minlength=vocab_size) - np.bincount(
        heads, minlength=vocab_size
    )


def _order(block: Block, seed: int) -> Int64[np.ndarray, "rows"]:
    """The windows by seal key; two of one key, by document and number."""
    keys = seal_keys(block, seed)
    order = np.argsort(keys)
    if (np.diff(keys[order]) == 0).any():
        return np.lexsort((block.window_number, block.document_id, keys))
    return order


def _read_buckets(
    part: AnyPath, length: int, side: str, buckets: Collection[str]
) -> Iterator[tuple[str, Block]]:
    entry = part_entry(read_report(part), length, side)
    if entry is None:
        return
    shard = Shard(side_path(part, length, side), entry)
    try:
        for number, block in enumerate(shard.index):
            if block.key in buckets:
                yield block.key, shard.read_block(number)
    finally:
        shard.close()


def _blocks(
    block: Block, rows: Int64[np.ndarray, "taken"], first_block: int, counted: Counted
) -> Iterator[tuple[str, Block]]:
    """The blocks of the windows `rows`, with their keys; each is counted as it goes by."""
    for number, first in enumerate(range(0, len(rows), ROWS_PER_BLOCK)):
        chosen = take(block, rows[first : first + ROWS_PER_BLOCK])
        counted.unigram += count_tokens(chosen, len(counted.unigram))
        counted.repeated += int(chosen.repeated.sum())
        yield f"{first_block + number:0{BLOCK_DIGITS}d}", chosen


def write_set(
    folder: AnyPath,
    reports: Sequence[AnyPath],
    *,
    documents: int,
    described: dict[str, Any],
) -> Manifest:
    """Write the table, the token counts and, last, the manifest of the shards in `folder`.

    `reports` are those of `seal_shard`, in the order of the shards.

    `described` holds the manifest's fields that are known before: tokenizer, lengths, balance.
    """
    totals = {"blocks": 0, "windows": 0, "tokens": 0, "repeated": 0}
    unigram = np.zeros(described["vocab_size"], dtype=np.uint64)
    checksums: list[str] = []
    with atomic_writer(folder / "shards.jsonl") as table:
        for path in reports:
            report = json.loads(path.read_bytes())
            entry = ShardEntry(**report["entry"])
            table.write(table_line(entry))
            checksums.append(entry.sha256)
            unigram += np.array(report["unigram"], dtype=np.uint64)
            sizes = {"repeated": report["repeated"]} | asdict(entry)
            totals = {key: total + sizes[key] for key, total in totals.items()}
    counts = totals | {"documents": documents, "shards": len(reports)}
    with atomic_writer(folder / "unigram.npy") as file:
        np.save(file, unigram)
    manifest = Manifest(
        content_fingerprint=fingerprint(described["tokenizer_hash"], counts, checksums),
        **{f"num_{key}": value for key, value in counts.items()},
        **described,
    )
    manifest = replace(manifest, checksum=manifest_checksum(manifest))
    write_json(folder / "manifest.json", asdict(manifest))
    return manifest
