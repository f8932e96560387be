"""Held-out data: each window once, with fixed order, pairs and masks (law E1)."""

from collections.abc import Iterator

from mlmdist.config import data as config
from mlmdist.data.batch import StepBatch
from mlmdist.data.loader import assembler, orders_of
from mlmdist.data.lookahead import lookahead
from mlmdist.data.mixture import Cells, Mixture
from mlmdist.data.prefetch import Prefetcher
from mlmdist.data.sequence import batch_cells, num_micro_batches, share
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import Vocabulary

HELD_OUT_SEED = 0x48454C444F5554  # of its own: no setting of a run changes what it is measured by


class HeldOut:
    """A fixed list of StepBatches; iterating yields this rank's part of each, as often as asked.

    Epoch 0, token masks at 15 %, the pairs of the run's task. The last batch may be short.
    Sums over all ranks are the same at any world size.
    """

    def __init__(
        self,
        data: config.Data,
        *,
        shards: ShardSet,
        vocabulary: Vocabulary,
        global_batch: int,
        micro_batch: int,
        rank: int,
        world_size: int,
    ) -> None:
        self.global_batch, self.micro_batch = global_batch, micro_batch
        self.rank, self.world_size = rank, world_size
        self.depth, self.fetching_threads = data.prefetch_batches, data.cache.threads
        order, sets = config.Order(), (shards,)
        self.assembler = assembler(
            data,
            order,
            config.Mask(),
            sets,
            Mixture(orders_of(order, sets, HELD_OUT_SEED)),
            vocabulary,
            seed=HELD_OUT_SEED,
            ranks=world_size,
        )
        self.num_windows = shards.manifest.num_windows

    def __len__(self) -> int:
        return -(-self.num_windows // self.global_batch)

    def __iter__(self) -> Iterator[StepBatch]:
        with Prefetcher(self._steps(), self.depth) as steps:
            yield from steps

    def _steps(self) -> Iterator[StepBatch]:
        made_by, numbers = self.assembler, range(len(self))
        coming = ((number, self._share(number)) for number in numbers)
        with lookahead(made_by.reader, made_by.mixture, coming, self.fetching_threads) as ahead:
            for number in numbers:
                ahead.reached(number)
                hands = num_micro_batches(self._rows(number), self.micro_batch, self.world_size)
                yield from made_by.steps([number], [self._share(number)], [hands])

    def _rows(self, number: int) -> int:
        """Rows of batch `number`, of all ranks."""
        return min(self.global_batch, self.num_windows - number * self.global_batch)

    def _share(self, number: int) -> Cells:
        """What this rank makes of batch `number`."""
        first = number * self.global_batch
        cells = batch_cells(self.assembler.mixture, first, self._rows(number))
        return share(cells, self.rank, self.world_size)
