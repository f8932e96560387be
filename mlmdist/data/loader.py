"""The training data of a rank: an endless sequence of global batches, cut for this rank.

    cursor -> cells of the batch -> this rank's share -> windows -> pairs -> stream -> masks

Every step is a pure function of (content fingerprint, seed, batch number), so a loader opened at a
position, at any world size, goes on as if it had never stopped (laws O2, O3).
"""

import logging
from collections.abc import Callable, Iterator

import numpy as np

from mlmdist.config import pretrain as config
from mlmdist.data.assembly import Assembler
from mlmdist.data.batch import StepBatch
from mlmdist.data.order import Order
from mlmdist.data.pairs import UNLABELLED
from mlmdist.data.prefetch import Prefetcher
from mlmdist.data.reader import Reader
from mlmdist.data.sequence import Position, batch_cells, num_micro_batches, share
from mlmdist.errors import ConfigError, DataError
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import Vocabulary

log = logging.getLogger(__name__)

MIN_LABELLED_SHARE = 0.2
CHECKED_ROWS = 1024
GLOBAL_BLOCKS = 256  # blocks held where rows come from anywhere


class Loader:
    """Iterating yields this rank's StepBatch of every batch from the position on.

    Batches are made ahead by a thread; errors in it are raised here. `close` stops it.
    """

    def __init__(
        self,
        data: config.Data,
        *,
        shards: ShardSet,
        vocabulary: Vocabulary,
        seed: int,
        global_batch: int,
        micro_batch: int,
        rank: int,
        world_size: int,
        position: Position,
        num_batches: int,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        """Batches `position.batch` to `num_batches - 1` follow.

        `alive` is called at each block of the set that is read before the first batch.
        Raises DataError for shards of another vocabulary or without windows, and ConfigError if
        under a fifth of the rows could get a pair label.
        """
        self.global_batch, self.rank, self.world_size = global_batch, rank, world_size
        self.position, self.num_batches = position, num_batches
        self.depth = data.prefetch_batches
        self.num_micro_batches = num_micro_batches(global_batch, micro_batch, world_size)
        self.assembler = assembler(
            data, data.order, data.mask, shards, vocabulary, seed=seed, world_size=world_size
        )
        self.running: Prefetcher[StepBatch] | None = None
        if data.order.kind == "global":
            _verify(shards, rank, world_size, alive)
        _check_labels(self.assembler)

    def __iter__(self) -> Iterator[StepBatch]:
        self.close()
        self.running = Prefetcher(self._steps(), self.depth)
        return self.running

    def position_after(self, batch_number: int) -> Position:
        """The position of a run that has done batch `batch_number` and all before it."""
        return self.position.after(batch_number + 1 - self.position.batch, self.global_batch)

    def close(self) -> None:
        """Stop making batches ahead."""
        if self.running is not None:
            self.running.close()

    def _steps(self) -> Iterator[StepBatch]:
        for number in range(self.position.batch, self.num_batches):
            cursor = self.position_after(number - 1).cursors[0]
            cells = batch_cells(self.assembler.order, cursor, self.global_batch)
            mine = share(cells, self.rank, self.world_size)
            yield self.assembler.step(number, mine, self.num_micro_batches)


def assembler(
    data: config.Data,
    order: config.Order,
    mask: config.Mask,
    shards: ShardSet,
    vocabulary: Vocabulary,
    *,
    seed: int,
    world_size: int,
) -> Assembler:
    """What makes the rows of a shard set; raises DataError if the vocabulary is not the set's."""
    manifest = shards.manifest
    if manifest.vocab_size != vocabulary.size:
        raise DataError(
            f"{shards.folder}: made with a vocabulary of {manifest.vocab_size}; the tokenizer has "
            f"{vocabulary.size}: give the tokenizer the shards were made with"
        )
    return Assembler(
        shards=shards,
        order=Order(manifest.num_windows, manifest.content_fingerprint, seed, order),
        reader=Reader((shards,), _held_blocks(order, world_size)),
        vocabulary=vocabulary,
        data=data,
        mask=mask,
        seed=seed,
    )


def labelled_share(assembler: Assembler) -> float:
    """The share of rows with a pair label among the first of epoch 0.

    These are a fair sample, since the windows of a set lie in random order.
    """
    rows = min(CHECKED_ROWS, assembler.order.num_windows)
    _, spans = assembler.pairs(batch_cells(assembler.order, 0, rows))
    return float(np.mean(spans.labels[:rows] != UNLABELLED))


def _check_labels(assembler: Assembler) -> None:
    if assembler.data.pair == "none":
        return
    found = labelled_share(assembler)
    if found < MIN_LABELLED_SHARE:
        kind = assembler.data.pair
        others = "sop | none" if kind == "nsp" else "none"
        raise ConfigError(
            f"data.pair={kind}: only {found:.0%} of the rows can get a label; at least "
            f"{MIN_LABELLED_SHARE:.0%} must; use data.pair={others}"
        )
    log.info("pairs: %.0f %% of the rows are labelled", 100 * found)


def _held_blocks(order: config.Order, world_size: int) -> int:
    """Blocks a rank needs at once: a group a lane that its share touches, and one on the way."""
    if order.kind == "global":
        return GLOBAL_BLOCKS
    lanes = min(order.lanes, -(-order.lanes // world_size) + 1)
    return (order.group_blocks + 1) * lanes


def _verify(shards: ShardSet, rank: int, world_size: int, alive: Callable[[], None]) -> None:
    """Read every block once, each rank its part, so that damage is found before the first step."""
    for number in range(rank, shards.manifest.num_blocks, world_size):
        shards.read_block(number)
        alive()
