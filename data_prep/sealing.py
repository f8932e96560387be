"""Sealing: from parts to the shards of a set, each a stretch of the order by seal key."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from jaxtyping import Int64

from data_prep.parts import part_entry, read_report, seal_keys, side_path
from mlmdist.blocks import ROWS_PER_BLOCK, Block, concatenate, take
from mlmdist.files import AnyPath, atomic_writer, write_json
from mlmdist.shards import (
    Manifest,
    Shard,
    ShardEntry,
    fingerprint,
    manifest_checksum,
    table_line,
    write_shard,
)

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
    block = concatenate([_sorted(concatenate(found.pop(bucket)), seed) for bucket in buckets])
    rows = take(block, np.arange(skip, skip + count))
    entry = write_shard(target, _blocks(rows, first_block))
    unigram = count_tokens(rows, vocab_size)
    described = {
        "entry": asdict(entry),
        "repeated": int(rows.repeated.sum()),
        "unigram": unigram.tolist(),
    }
    write_json(report, described)


def count_tokens(block: Block, vocab_size: int) -> Int64[np.ndarray, "ids"]:
    """How often each id occurs in the block's windows, repeated heads left out."""
    lengths = np.diff(block.window_ptr.astype(np.int64))
    inside = np.arange(len(block.tokens)) - np.repeat(block.window_ptr[:-1], lengths)
    new = inside >= np.repeat(block.repeated, lengths)
    return np.bincount(block.tokens[new], minlength=vocab_size)


def _sorted(block: Block, seed: int) -> Block:
    keys = seal_keys(block, seed)
    return take(block, np.lexsort((block.window_number, block.document_id, keys)))


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


def _blocks(rows: Block, first_block: int) -> Iterator[tuple[str, Block]]:
    for number, first in enumerate(range(0, rows.num_rows, ROWS_PER_BLOCK)):
        chosen = np.arange(first, min(first + ROWS_PER_BLOCK, rows.num_rows))
        yield f"{first_block + number:0{BLOCK_DIGITS}d}", take(rows, chosen)


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
