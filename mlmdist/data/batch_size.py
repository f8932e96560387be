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
