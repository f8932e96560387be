"""How fast batches are made, against WebDataset with Hugging Face's collator, on the same tokens.

    python -m tests.benchmarks.loader [--quick] [--corpus FILE] [--streaming PYTHON]

FILE is text, a document a line; the default is the sample that gensim ships. Every side makes its
batches in one main thread, in turn (A B B A), and medians are compared. PYTHON adds MosaicML
Streaming, in a process of its own: `.venv-streaming/bin/python`, which `make streaming-environment`
makes. The last line is one JSON object.
"""

import argparse
import gc
import itertools
import json
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import webdataset

from mlmdist.blocks import Block
from mlmdist.config import data as config
from mlmdist.data.loader import Loader
from mlmdist.data.order import Order
from mlmdist.data.sequence import Position
from mlmdist.manifest import Manifest
from mlmdist.rng import permute
from mlmdist.shards import ShardSet
from tests.benchmarks.corpus import Corpus, sample, write
from tests.benchmarks.mosaic import BATCH, Mosaic

SHUFFLE_BUFFER = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--corpus", type=Path, default=None)
    parser.add_argument("--streaming", type=Path, default=None, metavar="PYTHON")
    options = parser.parse_args()
    num_windows, rounds = (6000, 1) if options.quick else (20_000, 3)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        corpus = write(Path(folder), options.corpus or sample(), num_windows)
        mosaic = options.streaming and running.enter_context(
            Mosaic(options.streaming, corpus.mosaic)
        )
        check_same(corpus, mosaic)
        figures = speeds(corpus, mosaic, num_windows // BATCH - 2, rounds)
        figures |= seeks(corpus) | memory(corpus) | global_order(corpus)
    figures |= quality(1 << 16)
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


def loader(shards: Any, corpus: Corpus, **settings: Any) -> Loader:
    order = settings.pop("order", config.Order())
    arguments = {"position": Position(), "micro_batch": BATCH, "checked": True} | settings
    return Loader(
        config.Data(train=Path(), tokenizer=Path(), order=order), shards=(shards,),
        vocabulary=corpus.vocabulary, seed=0, global_batch=BATCH, rank=0, world_size=1,
        num_batches=1 << 40, **arguments,
    )  # fmt: skip


def windows_from_samples(corpus: Corpus) -> Iterator[np.ndarray]:
    dataset = webdataset.WebDataset(corpus.samples, shardshuffle=False, empty_check=False)  # pyright: ignore[reportAttributeAccessIssue]
    yield from (s["tokens.npy"] for s in dataset.shuffle(SHUFFLE_BUFFER).decode())


def windows_from_blocks(corpus: Corpus) -> Iterator[np.ndarray]:
    dataset = webdataset.WebDataset(corpus.blocks, shardshuffle=False, empty_check=False)  # pyright: ignore[reportAttributeAccessIssue]
    rows = (
        {"tokens": window}
        for block in dataset.decode()
        for window in np.split(block["tokens.npy"], block["window_ptr.npy"][1:-1])
    )
    yield from (row["tokens"] for row in webdataset.filters.shuffle(SHUFFLE_BUFFER)(rows))


def theirs(corpus: Corpus, windows: Iterator[np.ndarray]) -> Iterator[Any]:
    rows = ({"input_ids": [2, *window.tolist(), 3]} for window in windows)
    while batch := list(itertools.islice(rows, BATCH)):
        yield corpus.collate(batch)


def opened(corpus: Corpus) -> ShardSet:
    """The shard set, which is told the size of its vocabulary here."""
    shards = ShardSet.open(corpus.folder)
    shards.manifest = replace(shards.manifest, vocab_size=corpus.vocabulary.size)
    return shards


def check_same(corpus: Corpus, mosaic: Mosaic | None) -> None:
    """All ways read the same tokens in an epoch."""
    sums = [
        sum(int(window.astype(np.int64).sum()) for window in read(corpus))
        for read in (windows_from_samples, windows_from_blocks)
    ]
    if mosaic:
        sums.append(mosaic.token_sum())
    shards = opened(corpus)
    blocks = map(shards.read_block, range(shards.manifest.num_blocks))
    ours = sum(int(block.tokens.astype(np.int64).sum()) for block in blocks)
    assert sums == [ours] * len(sums), (sums, ours)


def speeds(
    corpus: Corpus, mosaic: Mosaic | None, num_batches: int, rounds: int
) -> dict[str, float]:
    """Rows a second of each side, and the ratios of their medians."""
    shards = opened(corpus)
    slow = max(2, num_batches // 4)
    sides: dict[str, Callable[[], float]] = {
        "ours": lambda: rate(loader(shards, corpus).batches(range(1 << 20)), num_batches),
        "webdataset samples": lambda: rate(theirs(corpus, windows_from_samples(corpus)), slow),
        "webdataset blocks": lambda: rate(theirs(corpus, windows_from_blocks(corpus)), slow),
    }
    if mosaic:
        sides["mosaicml streaming"] = lambda: mosaic.rate(num_batches)
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name in [*sides, *reversed(sides)]:  # A B C C B A
            rates[name].append(sides[name]())
    median = {name: statistics.median(found) for name, found in rates.items()}
    for name, value in median.items():
        print(f"{name:<22}{value:>12,.0f} rows/s")
    if not mosaic:
        print("mosaicml streaming    left out: make streaming-environment, then --streaming PYTHON")
    ratios = {
        f"vs_{name.replace(' ', '_')}": median["ours"] / value
        for name, value in median.items()
        if name != "ours"
    }
    return {**ratios, "rows_per_second": median["ours"]}


def rate(batches: Iterator[Any], num_batches: int) -> float:
    """Rows a second over so many batches behind the first."""
    next(batches)  # files are open, the shuffle buffer is full
    start = time.perf_counter()
    done = sum(1 for _ in itertools.islice(batches, num_batches))
    return done * BATCH / (time.perf_counter() - start)


def seeks(corpus: Corpus) -> dict[str, float]:
    """The longest of some times from a position to the first batch, blocks read from disk."""
    found = []
    for place in range(10):
        start = time.perf_counter()
        position = Position(batch=place, cursors=(place * 999_999_999_937,))
        loader(opened(corpus), corpus, position=position).batch(place)
        found.append(time.perf_counter() - start)
    print(f"seek to a batch       {max(found) * 1000:>12.1f} ms, median "
          f"{statistics.median(found) * 1000:.1f} ms")  # fmt: skip
    return {"seek_ms": max(found) * 1000}


class Synthetic:
    """A shard set of any size that has the same block everywhere."""

    def __init__(self, num_windows: int, block: Block, manifest: Manifest) -> None:
        blocks = -(-num_windows // 1024)
        self.manifest = replace(manifest, num_windows=num_windows, num_blocks=blocks)
        self.folder, self.block = Path("synthetic"), block

    def read_block(self, number: int) -> Block:
        return replace(self.block, tokens=self.block.tokens.copy())


def memory(corpus: Corpus) -> dict[str, float]:
    """Peak bytes of 20 batches out of 10^5 and of 10^9 windows."""
    shards = opened(corpus)
    block, peaks = shards.read_block(0), []
    for size in (10**5, 10**9):
        gc.collect()
        tracemalloc.start()
        one = loader(Synthetic(size, block, shards.manifest), corpus)
        for number in range(20):
            one.batch(number * 7919)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    low, high = (peak / 1e6 for peak in peaks)
    print(f"memory                {low:>12.1f} MB of 10^5 windows, {high:.1f} MB of 10^9")
    return {"memory_growth": peaks[1] / peaks[0]}


def global_order(corpus: Corpus) -> dict[str, float]:
    """What `order: global` costs where a set does not fit the blocks held: a block read a row."""
    shards = opened(corpus)
    rates = {}
    for name, order in (("windowed", config.Order()), ("global", config.Order(kind="global"))):
        one = loader(shards, corpus, order=order)
        one.assembler.reader.capacity = 17 if name == "windowed" else 1
        start = time.perf_counter()
        for number in range(4):
            one.batch(number)
        rates[name] = 4 * BATCH / (time.perf_counter() - start)
    times = []
    for number in range(20):
        start = time.perf_counter()
        shards.read_block(number % shards.manifest.num_blocks)
        times.append(time.perf_counter() - start)
    cost = statistics.median(times)
    print(f"a block read          {cost * 1e6:>12.0f} us, so global order makes at most "
          f"{1 / cost:,.0f} rows/s a rank beyond {256} blocks")  # fmt: skip
    return {"block_read_us": cost * 1e6}


def quality(num_windows: int) -> dict[str, float]:
    """How well an order mixes documents of three windows each."""
    places = np.arange(num_windows, dtype=np.uint64)
    document = permute(places, num_windows, 11).astype(np.int64) // 3  # windows lie at random
    figures = {}
    for name, order in (
        ("windowed", config.Order()), ("global", config.Order(kind="global")),
    ):  # fmt: skip
        blocks, rows = Order(num_windows, "x", 0, order).windows(0, places)
        found = document[blocks * 1024 + rows]
        batches = np.sort(found.reshape(-1, BATCH), axis=1)
        twins = np.mean((np.diff(batches, axis=1) == 0).any(axis=1))
        by_document = np.argsort(found, kind="stable")
        same = np.diff(found[by_document]) == 0
        distance = np.median(np.diff(by_document)[same]) / num_windows
        inside = [len(np.unique(part)) for part in (blocks.reshape(-1, BATCH))]
        print(
            f"{name:<10} batches with two windows of a document {twins:.2%}, median distance of a "
            f"document's neighbours {distance:.3f} epochs, blocks in a batch {np.mean(inside):.0f}"
        )
        figures |= {f"twins_{name}": twins, f"distance_{name}": distance}
    return figures


if __name__ == "__main__":
    sys.exit(main())
