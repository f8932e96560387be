"""Held-out data: each window once, with fixed order, pairs and masks (law E1)."""

from collections.abc import Iterator

from mlmdist.config import pretrain as config
from mlmdist.data.batch import StepBatch
from mlmdist.data.loader import assembler
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
        self.assembler = assembler(
            data,
            config.Order(),
            config.Mask(),
            shards,
            vocabulary,
            seed=HELD_OUT_SEED,
            world_size=world_size,
        )

    def __len__(self) -> int:
        return -(-self.assembler.order.num_windows // self.global_batch)

    def __iter__(self) -> Iterator[StepBatch]:
        with Prefetcher(self._steps(), self.depth) as steps:
            yield from steps

    def _steps(self) -> Iterator[StepBatch]:
        order = self.assembler.order
        for number in range(len(self)):
            cursor = number * self.global_batch
            rows = min(self.global_batch, order.num_windows - cursor)
            mine = share(batch_cells(order, cursor, rows), self.rank, self.world_size)
            micro_batches = num_micro_batches(rows, self.micro_batch, self.world_size)
            yield self.assembler.step(number, mine, micro_batches)
