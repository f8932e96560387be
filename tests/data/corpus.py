"""Random windows, and real shard sets of them, for the tests of this room."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mlmdist.blocks import ROWS_PER_BLOCK, Block, take
from mlmdist.data.reader import Windows
from mlmdist.data.runs import pointers
from mlmdist.files import write_bytes, write_json
from mlmdist.manifest import Manifest, fingerprint
from mlmdist.rng import hash64
from mlmdist.shard import ShardEntry, write_shard
from mlmdist.shards import ShardSet, table_line
from mlmdist.tokenizer import Vocabulary

VOCABULARY = Vocabulary(
    size=1000,
    pad_id=0,
    unk_id=1,
    cls_id=2,
    sep_id=3,
    mask_id=4,
    special_ids=(0, 1, 2, 3, 4),
    drawable=np.arange(20, 1000),  # 5 to 19 stand for byte pieces
)
CAPACITY = 61


def random_block(
    num_windows: int,
    seed: int = 0,
    *,
    capacity: int = CAPACITY,
    most_sentences: int = 8,
    windows_per_document: int = 3,
) -> Block:
    """Windows of 1 to `most_sentences` sentences; one token in 50 is [UNK], some are repeated."""
    draw = np.random.default_rng(seed)
    sentences = [_sentences(draw, capacity, most_sentences) for _ in range(num_windows)]
    total = sum(map(sum, sentences))
    tokens = draw.integers(5, VOCABULARY.size, total)
    tokens[draw.random(total) < 0.02] = VOCABULARY.unk_id
    return block_of(sentences, tokens, draw.random(total) < 0.6, windows_per_document)


def fixed_block(num_windows: int) -> Block:
    """Windows made without a random generator, whose numbers may change with NumPy: for goldens."""
    sentences = [
        [1 + hash64("length", w, s) % 14 for s in range(1 + hash64("count", w) % 5)]
        for w in range(num_windows)
    ]
    hashes = [hash64("token", place) for place in range(sum(map(sum, sentences)))]
    tokens = np.array([5 + value % 995 for value in hashes])
    return block_of(sentences, tokens, np.array([value >> 62 > 0 for value in hashes]), 3)


def block_of(
    sentences: list[list[int]], tokens: np.ndarray, word_start: np.ndarray, per_document: int
) -> Block:
    """Windows of these sentence lengths; the first third of each is a repeated head."""
    lengths = np.array([sum(window) for window in sentences])
    starts = [np.cumsum([0, *window[:-1]]) for window in sentences]
    flat_starts = np.concatenate(starts)
    ptr, sentence_ptr = pointers(lengths), pointers(np.array([len(s) for s in sentences]))
    inner = flat_starts > 0  # a window's first token may go on with a word that was cut
    word_start[(flat_starts + np.repeat(ptr[:-1], np.diff(sentence_ptr)))[inner]] = True
    number = np.arange(len(sentences))
    return Block(
        tokens=tokens.astype(np.uint16),
        window_ptr=ptr.astype(np.uint32),
        sentence_start=flat_starts.astype(np.uint16),
        sentence_ptr=sentence_ptr.astype(np.uint32),
        word_start=word_start,
        document_id=(number // per_document).astype(np.uint64) + np.uint64(1 << 40),
        token_offset=np.zeros(len(sentences), dtype=np.uint32),
        window_number=(number % per_document).astype(np.uint32),
        repeated=np.array([s[len(s) // 3] for s in starts], dtype=np.uint16),
        flags=np.zeros(len(sentences), dtype=np.uint8),
    )


def _sentences(draw: np.random.Generator, capacity: int, most: int) -> list[int]:
    """Sentence lengths of a window: most windows are nearly full, as those of long text are."""
    count = int(draw.integers(1, most + 1))
    lengths = np.maximum(1, draw.lognormal(2.2, 0.6, count)).astype(int).tolist()
    while len(lengths) > 1 and sum(lengths) > capacity:
        lengths.pop()
    return [min(lengths[0], capacity), *lengths[1:]]


def write_set(
    folder: Path,
    block: Block,
    *,
    capacity: int = CAPACITY,
    blocks_per_shard: int = 2,
    seed: int = 9,
) -> ShardSet:
    """The windows of `block`, shuffled, as a shard set on disk."""
    mixed = take(block, np.random.default_rng(seed).permutation(block.num_rows))
    rows = np.arange(block.num_rows)
    parts = [rows[i : i + ROWS_PER_BLOCK] for i in range(0, len(rows), ROWS_PER_BLOCK)]
    keyed = [(f"{number:06}", take(mixed, part)) for number, part in enumerate(parts)]
    entries = [
        write_shard(folder / f"{i // blocks_per_shard:06}.tar", keyed[i : i + blocks_per_shard])
        for i in range(0, len(keyed), blocks_per_shard)
    ]
    write_bytes(folder / "shards.jsonl", b"".join(map(table_line, entries)))
    write_json(folder / "manifest.json", asdict(_manifest(block, entries, capacity, len(keyed))))
    return ShardSet.open(folder)


def _manifest(block: Block, entries: list[ShardEntry], capacity: int, num_blocks: int) -> Manifest:
    counts: dict[str, Any] = {
        "num_documents": len(np.unique(block.document_id)),
        "num_windows": block.num_rows,
        "num_blocks": num_blocks,
        "num_shards": len(entries),
        "num_tokens": len(block.tokens),
        "num_repeated": int(block.repeated.sum()),
    }
    return Manifest(
        content_fingerprint=fingerprint("tokenizer", counts, [entry.sha256 for entry in entries]),
        tokenizer_hash="tokenizer",
        vocab_size=VOCABULARY.size,
        max_seq_len=capacity + 3,
        blocks_per_shard=entries[0].blocks if entries else 1,
        **counts,
    )


def windows_of(block: Block, epoch: int = 0) -> Windows:
    """The windows of a block, as a reader gives them."""
    return Windows(
        tokens=block.tokens.astype(np.int64),
        ptr=block.window_ptr.astype(np.int64),
        word_start=block.word_start,
        sentence_start=block.sentence_start.astype(np.int64),
        sentence_ptr=block.sentence_ptr.astype(np.int64),
        repeated=block.repeated.astype(np.int64),
        document_id=block.document_id,
        window_number=block.window_number.astype(np.uint64),
        corpus=np.zeros(block.num_rows, dtype=np.uint64),
        epoch=np.full(block.num_rows, epoch, dtype=np.uint64),
    )


def cell_ptr(num_windows: int) -> np.ndarray:
    """Cells of 16 windows, the last one short."""
    return np.append(np.arange(0, num_windows, 16), num_windows)
