"""The training data of a rank: an endless sequence of global batches, cut for this rank.

    row -> cells of the batch -> this rank's share -> windows -> pairs -> stream -> masks

Every step is a pure function of (content fingerprints, seed, batch number), so a loader opened at a
position, at any world size, goes on as if it had never stopped (laws O2, O3).
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import UInt64

from mlmdist.config import data as config
from mlmdist.data.assembly import Assembler
from mlmdist.data.batch import StepBatch
from mlmdist.data.batch_size import BatchSize
from mlmdist.data.lookahead import lookahead
from mlmdist.data.masks import NO_WORDS
from mlmdist.data.mixture import Cells, Mixture, joined, parts_of
from mlmdist.data.order import Order
from mlmdist.data.pair_report import check_pairs
from mlmdist.data.prefetch import Prefetcher
from mlmdist.data.reader import Reader
from mlmdist.data.sequence import Position, batch_cells, num_micro_batches, share
from mlmdist.data.stand_in import StandIn
from mlmdist.data.worker import Task
from mlmdist.data.workers import Workers
from mlmdist.errors import ConfigError, DataError
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import NUM_SPECIAL_POSITIONS, Vocabulary

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 2048  # a rank makes so many at a time, whatever a batch holds
GLOBAL_BLOCKS = 256  # blocks held where rows come from anywhere


class Loader:
    """Iterating yields this rank's StepBatch of every batch from the position on.

    Batches are made ahead by a thread, or by processes behind it (`data.workers`); errors there are
    raised here. `close` stops them.
    """

    def __init__(
        self,
        data: config.Data,
        *,
        shards: tuple[ShardSet, ...],
        vocabulary: Vocabulary,
        seed: int,
        global_batch: int | BatchSize,
        micro_batch: int,
        rank: int,
        world_size: int,
        position: Position,
        num_batches: int,
        listed: UInt64[np.ndarray, "listed"] = NO_WORDS,
        alive: Callable[[], None] = lambda: None,
        checked: bool = False,
    ) -> None:
        """Batches `position.batch` to `num_batches - 1` follow.

        `shards` are those of the corpora, `listed` the `word_keys` of the mask's word list.
        `alive` is called at each block of the set that is read before the first batch; nothing is
        read before it if the data was `checked` by another loader of the run.
        Raises DataError for shards of another vocabulary or without windows, and ConfigError if
        under a fifth of the rows could get a pair label.
        """
        self.batch_size, self.micro_batch = BatchSize.of(global_batch), micro_batch
        self.rank, self.world_size = rank, world_size
        self.num_batches, self.depth = num_batches, data.prefetch_batches
        corpora = data.corpora
        parts = parts_of([corpus.weight for corpus in corpora], [corpus.name for corpus in corpora])
        orders = orders_of(data.order, shards, seed)
        mixture, self.position, self.row = entered(orders, parts, seed, position)
        self.assembler = assembler(
            data,
            data.order,
            data.mask,
            shards,
            mixture,
            vocabulary,
            seed=seed,
            ranks=world_size,
            listed=listed,
        )
        self.running: Prefetcher[StepBatch] | None = None
        self.num_workers, self.fetching_threads = data.workers, data.cache.threads
        self.arguments = {
            "data": data,
            "vocabulary": vocabulary,
            "seed": seed,
            "global_batch": self.batch_size,
            "micro_batch": micro_batch,
            "rank": rank,
            "world_size": world_size,
            "position": self.position,
            "num_batches": num_batches,
            "listed": listed,
        }
        if data.order.kind == "global" and not checked:
            _verify(self.assembler.reader, rank, world_size, alive)
        if not checked:
            check_pairs(self.assembler)

    def __iter__(self) -> Iterator[StepBatch]:
        self.close()
        self.running = Prefetcher(self._steps(), self.depth)
        return self.running

    def batch(self, number: int) -> StepBatch:
        """The part of batch `number` that is this rank's, made here and now."""
        return self._make([number])[0]

    def batches(self, numbers: range) -> Iterator[StepBatch]:
        """The parts of these batches, made some at a time: one at first, soon as many as pay."""
        coming = ((chunk[0], joined(self._shares(chunk))) for chunk in self._chunks(numbers))
        made_by = self.assembler
        with lookahead(made_by.reader, made_by.mixture, coming, self.fetching_threads) as ahead:
            for chunk in self._chunks(numbers):
                ahead.reached(chunk[0])
                yield from self._make(chunk)

    def _chunks(self, numbers: range) -> Iterator[list[int]]:
        done, size = 0, 1
        while done < len(numbers):
            yield list(numbers[done : done + size])
            done += size
            rows = -(-self.batch_size.rows(numbers[min(done, len(numbers) - 1)]) // self.world_size)
            size = min(2 * size, max(1, ROWS_AT_ONCE // rows))

    def _make(self, numbers: list[int]) -> list[StepBatch]:
        sizes = [self.batch_size.rows(number) for number in numbers]
        hands = [num_micro_batches(rows, self.micro_batch, self.world_size) for rows in sizes]
        return self.assembler.steps(numbers, self._shares(numbers), hands)

    def _shares(self, numbers: list[int]) -> list[Cells]:
        return [share(self.cells(number), self.rank, self.world_size) for number in numbers]

    def cells(self, number: int) -> Cells:
        """The cells of batch `number`, sorted by lane; raises DataError if they are not known."""
        row = self._row_of(number)
        if row < 0:
            raise DataError(
                f"batch {number} comes before other weights began to mix the corpora; give the "
                "config and a checkpoint of that part of the run"
            )
        return batch_cells(self.assembler.mixture, row, self.batch_size.rows(number))

    def position_after(self, batch_number: int) -> Position:
        """The position of a run that has done batch `batch_number` and all before it."""
        cursors = self.assembler.mixture.cursors(self._row_of(batch_number + 1))
        return replace(self.position, batch=batch_number + 1, cursors=cursors)

    def epochs_after(self, batch_number: int) -> tuple[float, ...]:
        """Epochs of each corpus that a run has read with batch `batch_number`."""
        cursors = self.position_after(batch_number).cursors
        orders = self.assembler.mixture.orders
        return tuple(rows / o.num_windows for rows, o in zip(cursors, orders, strict=True))

    def close(self) -> None:
        """Stop making batches ahead."""
        if self.running is not None:
            self.running.close()

    def _row_of(self, batch: int) -> int:
        """The row of the mixture at which a batch begins."""
        before = self.batch_size.rows_before(batch)
        return self.row + before - self.batch_size.rows_before(self.position.batch)

    def _steps(self) -> Iterator[StepBatch]:
        numbers = range(self.position.batch, self.num_batches)
        if not self.num_workers:
            return self.batches(numbers)
        folders = tuple(one.folder for one in self.assembler.reader.shard_sets)
        return iter(Workers(Task(self.arguments, folders, numbers), self.num_workers))


def orders_of(order: config.Order, shards: tuple[ShardSet, ...], seed: int) -> tuple[Order, ...]:
    """The order of each corpus."""
    manifests = [one.manifest for one in shards]
    return tuple(Order(m.num_windows, m.content_fingerprint, seed, order) for m in manifests)


def entered(
    orders: tuple[Order, ...], parts: tuple[int, ...], seed: int, position: Position
) -> tuple[Mixture, Position, int]:
    """The mixture at a position, that position with all corpora in it, and its row.

    Where the corpora do not stand as these weights would have it, because a user changed them,
    another mixture begins there: no window of an epoch is lost or repeated.
    """
    if max(len(position.cursors), len(position.begun)) > len(orders):
        raise ConfigError(
            f"data.train: {len(orders)} corpora, the checkpoint has read "
            f"{len(position.cursors)}; give the others too, new ones last"
        )
    cursors, begun = (
        (*part, *[0] * (len(orders) - len(part))) for part in (position.cursors, position.begun)
    )
    mixture, row = Mixture(orders, parts, seed=seed, begun=begun), sum(cursors) - sum(begun)
    position = replace(position, cursors=cursors)
    if row >= 0 and mixture.cursors(row) == cursors:
        return mixture, position, row
    log.info("other weights than before: the corpora are mixed anew from row %d on", sum(cursors))
    mixture = Mixture(orders, parts, seed=seed, begun=cursors)
    return mixture, replace(position, begun=cursors), 0


def assembler(
    data: config.Data,
    order: config.Order,
    mask: config.Mask,
    shards: tuple[ShardSet, ...],
    mixture: Mixture,
    vocabulary: Vocabulary,
    *,
    seed: int,
    ranks: int,
    listed: UInt64[np.ndarray, "listed"] = NO_WORDS,
) -> Assembler:
    """What makes the rows of shard sets; raises DataError if the vocabulary is not theirs."""
    for one in shards:
        if one.manifest.vocab_size != vocabulary.size:
            raise DataError(
                f"{one.folder}: made with a vocabulary of {one.manifest.vocab_size}; the tokenizer "
                f"has {vocabulary.size}: give the tokenizer the shards were made with"
            )
    lengths = np.array([one.manifest.max_seq_len for one in shards])
    skips = data.bad_blocks == "skip"
    tagged, most = bool(mask.tag_weights), data.bad_blocks_share
    stand_in = StandIn(vocabulary.unk_id, tagged, most) if skips else None
    return Assembler(
        mixture=mixture,
        reader=Reader(
            shards,
            _held_blocks(order, len(shards), ranks),
            stand_in,
        ),
        capacities=lengths - NUM_SPECIAL_POSITIONS,
        vocabulary=vocabulary,
        data=data,
        mask=mask,
        seed=seed,
        listed=listed,
    )


def _held_blocks(order: config.Order, num_corpora: int, ranks: int) -> int:
    """Blocks a rank needs at once: a group a lane that its share touches, and one on the way.

    Between several corpora the lanes of a share move to and fro by a cell, so it touches one more.
    """
    if order.kind == "global":
        return GLOBAL_BLOCKS
    lanes = min(order.lanes, -(-order.lanes // ranks) + (1 if num_corpora == 1 else 2))
    return (order.group_blocks + 1) * lanes * num_corpora


def _verify(reader: Reader, rank: int, world_size: int, alive: Callable[[], None]) -> None:
    """Read every block once, each rank its part, so that damage is found before the first step."""
    for corpus, one in enumerate(reader.shard_sets):
        for number in range(rank, one.manifest.num_blocks, world_size):
            reader.block(corpus, number)
            alive()
