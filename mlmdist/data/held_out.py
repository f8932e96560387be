"""Held-out data: each window once, with fixed order, pairs and masks (law E1)."""

from collections.abc import Iterator

from mlmdist.config import pretrain as config
from mlmdist.data.batch import StepBatch
from mlmdist.data.loader import assembler, orders_of
from mlmdist.data.mixture import Mixture
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
        self.depth = data.prefetch_batches
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
        mixture = self.assembler.mixture
        for number in range(len(self)):
            first = number * self.global_batch
            rows = min(self.global_batch, self.num_windows - first)
            mine = share(batch_cells(mixture, first, rows), self.rank, self.world_size)
            micro_batches = num_micro_batches(rows, self.micro_batch, self.world_size)
            yield from self.assembler.steps([number], [mine], [micro_batches])
