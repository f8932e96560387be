"""A part: what one task makes of one file of documents, windows laid in buckets of the seal key.

The seal key puts the windows of a set in an order that no worker count or completion order can
change: a hash of (seed, document, window number). A part is a tar of one block a bucket, so that
sealing a stretch of the order reads just its buckets from every part.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt64

from data_prep.config import Prep
from data_prep.documents import Document, held_out_side, read_documents
from data_prep.encoding import encode_documents
from mlmdist.blocks import Block, concatenate, take
from mlmdist.files import write_json
from mlmdist.rng import absorb_array, hash64
from mlmdist.shards import ShardEntry, write_shard
from mlmdist.tokenizer import Tokenizer

BATCH_CHARS = 2_000_000
SIDES = ("train", "held_out")


def seal_keys(block: Block, seed: int) -> UInt64[np.ndarray, "rows"]:
    """The 64-bit number by which the windows of a set are sorted."""
    document = absorb_array(hash64("seal", seed), block.document_id)
    return absorb_array(document, block.window_number.astype(np.uint64))


def buckets_of(block: Block, seed: int, num_buckets: int) -> UInt64[np.ndarray, "rows"]:
    """The bucket of each window: the top bits of its key; `num_buckets` is a power of two."""
    bits = num_buckets.bit_length() - 1
    keys = seal_keys(block, seed)
    return keys >> np.uint64(64 - bits) if bits else np.zeros_like(keys)


def write_part(
    documents: Path, tokenizer: Path, config: Prep, num_buckets: int, target: Path
) -> dict[str, Any]:
    """Encode a file of documents; write the part's tars and, last, its report, which it returns.

    The report says for each side the tar's entry, documents, tokens and windows of each bucket.
    """
    model = Tokenizer.load(tokenizer)
    blocks: dict[str, list[Block]] = {side: [] for side in SIDES}
    counts = {side: {"documents": 0, "tokens_in": 0, "tokens": 0, "repeated": 0} for side in SIDES}
    for batch in _batches(read_documents(documents)):
        for side in SIDES:
            chosen = [document for document in batch if _side(document, config) == side]
            if chosen:
                block, tokens_in = encode_documents(chosen, model, config.windows)
                blocks[side].append(block)
                counts[side]["documents"] += len(np.unique(block.document_id))
                counts[side]["tokens_in"] += tokens_in
                counts[side]["tokens"] += len(block.tokens)
                counts[side]["repeated"] += int(block.repeated.sum())
    report: dict[str, Any] = {}
    for side, made in blocks.items():
        report[side] = counts[side] | _write_side(made, config, num_buckets, target, side)
    write_json(report_path(target), report)
    return report


def side_path(part: Path, side: str) -> Path:
    """The tar of one side of a part."""
    return part.with_name(f"{part.name}.{side}.tar")


def report_path(part: Path) -> Path:
    """What says that a part is whole, and what is in it."""
    return part.with_name(f"{part.name}.json")


def read_report(part: Path) -> dict[str, Any]:
    """The report of a part that is there."""
    return json.loads(report_path(part).read_bytes())


def _side(document: Document, config: Prep) -> str:
    held_out = held_out_side(document.group, config.held_out.share, config.held_out.seed)
    return "held_out" if held_out else "train"


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Documents in runs of about BATCH_CHARS characters, so that lists of ids stay small."""
    batch: list[Document] = []
    chars = 0
    for document in documents:
        batch.append(document)
        chars += document.num_characters
        if chars >= BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def _write_side(
    made: list[Block], config: Prep, num_buckets: int, target: Path, side: str
) -> dict[str, Any]:
    """Write one side's windows by bucket; its tar's entry and the windows of each bucket."""
    if not made:
        return {"entry": None, "buckets": {}}
    block = concatenate(made)
    buckets = buckets_of(block, config.shards.seed, num_buckets)
    present, sizes = np.unique(buckets, return_counts=True)
    path = side_path(target, side)
    entry = write_shard(
        path, ((f"{b:06d}", take(block, np.flatnonzero(buckets == b))) for b in present)
    )
    rows = {f"{bucket:06d}": int(size) for bucket, size in zip(present, sizes, strict=True)}
    return {"entry": asdict(entry), "buckets": rows}


def part_entry(report: dict[str, Any], side: str) -> ShardEntry | None:
    """The tar entry of a side in a part's report; None if the part has no window of that side."""
    entry = report[side]["entry"]
    return ShardEntry(**entry) if entry else None
