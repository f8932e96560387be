"""The sequence of global batches: which cells a batch is made of, and which of them a rank makes.

A cursor counts the rows read of a corpus since the first epoch; a batch is the next rows from it,
across the end of an epoch if need be. Nothing here knows how the work is cut, but for `share`: the
sequence is the same for every world size, micro-batch and accumulation (laws O2, O3).
"""

import json
from dataclasses import asdict, dataclass, fields, replace

import numpy as np
from jaxtyping import Int64

from mlmdist.data.order import CELL_ROWS, Order
from mlmdist.data.runs import pointers
from mlmdist.errors import DataError


@dataclass(frozen=True)
class Position:
    """Where a run stands in its data: all that a resume needs, at any world size."""

    phase: int = 0
    batch: int = 0
    """Number of the next batch; it always advances, also past a batch that updated nothing."""

    cursors: tuple[int, ...] = (0,)
    """Rows read of each corpus."""

    skipped: tuple[int, ...] = ()
    """Numbers of the batches that updated nothing."""

    def to_json(self) -> dict[str, int | list[int]]:
        """The position as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_json(cls, values: dict[str, int | list[int]]) -> "Position":
        """The position that `to_json` gave; raises DataError if it is not one."""
        if set(values) != {field.name for field in fields(cls)}:
            raise DataError(
                f"position {json.dumps(values)}: must hold phase, batch, cursors and skipped; "
                "resume from another checkpoint"
            )
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})  # pyright: ignore[reportArgumentType]

    def after(self, num_batches: int, global_batch: int) -> "Position":
        """The position `num_batches` later."""
        return replace(
            self,
            batch=self.batch + num_batches,
            cursors=(self.cursors[0] + num_batches * global_batch,),
        )


@dataclass(frozen=True)
class Cells:
    """Cells, and the rows of each that are meant: [first, stop)."""

    corpus: Int64[np.ndarray, "cells"]
    epoch: Int64[np.ndarray, "cells"]
    number: Int64[np.ndarray, "cells"]
    """Of the epoch."""

    first: Int64[np.ndarray, "cells"]
    stop: Int64[np.ndarray, "cells"]


def batch_cells(order: Order, cursor: int, num_rows: int) -> Cells:
    """The cells of the `num_rows` rows from `cursor` on, sorted by the lane that reads them."""
    last = cursor + num_rows - 1
    every = np.arange(_cell_at(order, cursor), _cell_at(order, last) + 1)
    epoch, number = np.divmod(every, order.num_cells)
    start = epoch * order.num_windows + number * CELL_ROWS
    first = np.maximum(cursor - start, 0)
    stop = np.minimum(cursor + num_rows - start, order.cell_rows(number))
    by_lane = np.argsort(order.lanes(number), kind="stable")
    corpus = np.zeros_like(every)
    return Cells(*(part[by_lane] for part in (corpus, epoch, number, first, stop)))


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


def _cell_at(order: Order, row: int) -> int:
    """The cell, counted from the first epoch, that holds a row."""
    epoch, position = divmod(row, order.num_windows)
    return epoch * order.num_cells + position // CELL_ROWS
