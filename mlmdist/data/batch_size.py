"""The size of a global batch as a function of its number; the rows before it in closed form."""

from collections.abc import Sequence
from itertools import pairwise


class BatchSize:
    """Rows of each global batch: constant, or another number from given batches on.

    The cost of every question grows with the number of stages, not with that of batches.
    """

    def __init__(self, stages: Sequence[tuple[int, int]]) -> None:
        """`stages` are (first batch, rows a batch), the first from batch 0, ascending."""
        firsts = [first for first, _ in stages]
        ascending = all(before < after for before, after in pairwise(firsts))
        if not firsts or firsts[0] != 0 or not ascending or min(rows for _, rows in stages) < 1:
            raise ValueError(
                f"stages {list(stages)}: must begin with batch 0, ascend, and hold at least 1 row"
            )
        self.stages = tuple(stages)

    @classmethod
    def of(cls, rows: "int | BatchSize") -> "BatchSize":
        """`rows` itself, or batches that all have so many rows."""
        return rows if isinstance(rows, BatchSize) else cls([(0, rows)])

    def rows(self, batch: int) -> int:
        """Rows of batch number `batch`."""
        return next(rows for first, rows in reversed(self.stages) if first <= batch)

    def rows_before(self, batch: int) -> int:
        """Rows of all batches before number `batch`."""
        ends = [first for first, _ in self.stages[1:]] + [batch]
        return sum(
            max(0, min(end, batch) - first) * rows
            for (first, rows), end in zip(self.stages, ends, strict=True)
        )

    def batches_for(self, rows: int) -> int:
        """The fewest batches, from the first on, that hold at least `rows` rows."""
        ends = [first for first, _ in self.stages[1:]] + [None]
        for (first, size), end in zip(self.stages, ends, strict=True):
            batch = first + max(0, -(-(rows - self.rows_before(first)) // size))
            if end is None or batch <= end:
                return batch
        raise AssertionError("the last stage has no end")


CELL = 16  # batches of whole cells leave none of their rows without its partner


def growing(first: int, last: int, num_batches: int, num_sizes: int) -> BatchSize:
    """Batches of `first` rows that grow to `last` by number `num_batches`, in `num_sizes` sizes.

    Sizes on the way are near-equal steps, rounded down to whole cells where they hold one.
    """
    num_sizes = min(num_sizes, num_batches)
    stages: list[tuple[int, int]] = []
    for number in range(num_sizes + 1):
        rows = first + (last - first) * number // num_sizes
        rows = rows // CELL * CELL if CELL <= rows < last and number else rows
        if not stages or rows > stages[-1][1]:
            stages.append((num_batches * number // num_sizes, rows))
    return BatchSize(stages)
