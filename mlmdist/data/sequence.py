"""The sequence of global batches: which cells a batch is made of, and which of them a rank makes.

Rows are counted through the whole mixture of corpora; a batch is the next rows, across the end of
an epoch if need be. Nothing here knows how the work is cut, but for `share`: the
sequence is the same for every world size, micro-batch and accumulation (laws O2, O3).
"""

import json
from dataclasses import asdict, dataclass, fields

import numpy as np

from mlmdist.data.mixture import Cells, Mixture
from mlmdist.data.runs import pointers
from mlmdist.errors import DataError


@dataclass(frozen=True)
class Position:
    """Where a run stands in its data: all that a resume needs, at any world size."""

    phase: int = 0
    batch: int = 0
    """Number of the next batch; it always advances, also past a batch that updated nothing."""

    cursors: tuple[int, ...] = (0,)
    """Rows read of each corpus; one that is not listed has not been read."""

    skipped: tuple[int, ...] = ()
    """Numbers of the batches that updated nothing."""

    begun: tuple[int, ...] = ()
    """Rows read of each corpus when this mixture of them began: other weights begin another."""

    def to_json(self) -> dict[str, int | list[int]]:
        """The position as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_json(cls, values: dict[str, int | list[int]]) -> "Position":
        """The position that `to_json` gave; raises DataError if it is not one."""
        names = {field.name for field in fields(cls)}
        if not names - {"begun"} <= set(values) <= names:
            raise DataError(
                f"position {json.dumps(values)}: must hold phase, batch, cursors and skipped; "
                "resume from another checkpoint"
            )
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})  # pyright: ignore[reportArgumentType]


def batch_cells(mixture: Mixture, row: int, num_rows: int) -> Cells:
    """The cells of the `num_rows` rows from `row` on, sorted by the lane that reads them.

    A cell's lane is that of its own corpus: whoever makes lane l reads that part of every corpus.
    """
    cells = mixture.cells(row, num_rows)
    return cells.take(np.argsort(mixture.lanes(cells), kind="stable"))


def share(cells: Cells, rank: int, world_size: int) -> Cells:
    """What a rank makes of a batch: a contiguous slice of its rows, near-equal between ranks.

    A cell that two slices touch stands in both, each with its own rows.
    """
    ends = pointers(cells.stop - cells.first)
    lowest, highest = (part * ends[-1] // world_size for part in (rank, rank + 1))
    first = cells.first + np.maximum(lowest - ends[:-1], 0)
    stop = cells.stop - np.maximum(ends[1:] - highest, 0)
    kept = first < stop
    return Cells(cells.corpus[kept], cells.epoch[kept], cells.number[kept], first[kept], stop[kept])


def num_micro_batches(global_batch: int, micro_batch: int, world_size: int) -> int:
    """Micro-batches a step: the same for every rank, enough for the rank with the most rows."""
    most_rows = -(-global_batch // world_size)
    return -(-most_rows // micro_batch)
