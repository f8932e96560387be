"""Several corpora as one sequence of rows, by weight; its order is closed arithmetic (law O3).

The unit is a cell: 16 rows of one corpus, so a pair never crosses corpora. Weights become numbers
of units of every round of 4,096. In a round, a keyed permutation says which corpus each unit comes
from; every corpus is read on from its own cursor, in its own order, through its own epochs:

    row --binary search--> round --table of the round--> unit --> corpus, epoch, cell

Rows before a round are a sum over the corpora, so any row of 10^12 is found without counting. With
one corpus the sequence is that corpus's order, row by row.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Int64

from mlmdist.data.order import CELL_ROWS, Order
from mlmdist.data.runs import ranges
from mlmdist.errors import ConfigError
from mlmdist.rng import hash64, permute

MIXTURE_VERSION = 1
ROUND_UNITS = 4096
MAX_WEIGHT_ERROR = 0.03
HELD_ROUNDS = 4


@dataclass(frozen=True)
class Cells:
    """Cells, and the rows of each that are meant: [first, stop)."""

    corpus: Int64[np.ndarray, "cells"]
    epoch: Int64[np.ndarray, "cells"]
    number: Int64[np.ndarray, "cells"]
    """Of the epoch."""

    first: Int64[np.ndarray, "cells"]
    stop: Int64[np.ndarray, "cells"]

    def take(self, cells: Int64[np.ndarray, "taken"]) -> "Cells":
        """These cells, in this order."""
        parts = (self.corpus, self.epoch, self.number, self.first, self.stop)
        return Cells(*(part[cells] for part in parts))


def joined(parts: Sequence[Cells]) -> Cells:
    """All these cells, end to end."""
    names = [field.name for field in fields(Cells)]
    return Cells(**{name: np.concatenate([getattr(one, name) for one in parts]) for name in names})


@dataclass(frozen=True)
class Round:
    """The units of a round of `ROUND_UNITS`."""

    corpus: Int64[np.ndarray, "units"]
    unit: Int64[np.ndarray, "units"]
    """Of its corpus, counted from where the mixture began."""

    before: Int64[np.ndarray, "units_plus_1"]
    """Rows of the mixture before each unit, and before the next round."""


def parts_of(weights: Sequence[float], names: Sequence[str]) -> tuple[int, ...]:
    """Units a round of each corpus, in proportion to the weights; they add up to `ROUND_UNITS`.

    Raises ConfigError if that is over 3 % off a weight: a corpus too rare to be dealt.
    """
    wanted = [ROUND_UNITS * weight / sum(weights) for weight in weights]
    parts = [int(want) for want in wanted]
    by_rest = sorted(range(len(parts)), key=lambda c: (parts[c] - wanted[c], c))
    for corpus in by_rest[: ROUND_UNITS - sum(parts)]:
        parts[corpus] += 1
    for name, part, want in zip(names, parts, wanted, strict=True):
        if abs(part - want) > MAX_WEIGHT_ERROR * want:
            nearest = max(1, part) / ROUND_UNITS
            raise ConfigError(
                f"data.train: the weight of {name} is {want / ROUND_UNITS:.4%} of all; weights are "
                f"dealt in steps of 1/{ROUND_UNITS} and must come within {MAX_WEIGHT_ERROR:.0%}: "
                f"give it {nearest:.4%}, or leave it out"
            )
    return tuple(parts)


class Mixture:
    """Rows of several corpora; row 0 is the first after `begun` rows of each were read."""

    def __init__(
        self,
        orders: Sequence[Order],
        parts: Sequence[int] = (ROUND_UNITS,),
        *,
        seed: int = 0,
        begun: Sequence[int] | None = None,
    ) -> None:
        """`parts` are units a round of each corpus, `begun` rows read of each before row 0."""
        assert sum(parts) == ROUND_UNITS, f"{parts} do not make a round"
        assert len(parts) == len(orders), f"{len(parts)} parts, {len(orders)} corpora"
        self.orders, self.parts, self.seed = tuple(orders), tuple(parts), seed
        self.begun = tuple(begun or [0] * len(orders))
        self.first_cells = [_cell_at(*pair) for pair in zip(self.orders, self.begun, strict=True)]
        self.held: OrderedDict[int, Round] = OrderedDict()

    def cells(self, row: int, num_rows: int) -> Cells:
        """The cells of the rows [row, row + num_rows), in the order of the sequence."""
        corpora, units, befores = [], [], []
        number, first = self._find(row)
        found = 0
        while found < num_rows:
            one = self._round(number)
            stop = int(np.searchsorted(one.before, row + num_rows, "left"))
            here = slice(first, min(stop, ROUND_UNITS))
            corpora.append(one.corpus[here])
            units.append(one.unit[here])
            befores.append(one.before[here])
            found = int(one.before[here.stop]) - row
            number, first = number + 1, 0
        return self._cells(row, num_rows, *map(np.concatenate, (corpora, units, befores)))

    def cursors(self, row: int) -> tuple[int, ...]:
        """Rows read of each corpus once `row` rows of the mixture are read."""
        number, unit = self._find(row)
        one = self._round(number)
        before = np.bincount(one.corpus[:unit], minlength=len(self.orders)).tolist()
        rows = [
            begun + self._rows_of(c, number * self.parts[c] + before[c])
            for c, begun in enumerate(self.begun)
        ]
        rows[int(one.corpus[unit])] += row - int(one.before[unit])
        return tuple(rows)

    def cell_rows(self, cells: Cells) -> Int64[np.ndarray, "cells"]:
        """Rows of each cell: 16, or fewer in the last of an epoch."""
        sizes = np.zeros(len(cells.number), dtype=np.int64)
        for corpus, order in enumerate(self.orders):
            here = cells.corpus == corpus
            sizes[here] = order.cell_rows(cells.number[here])
        return sizes

    def lanes(self, cells: Cells) -> Int64[np.ndarray, "cells"]:
        """The lane, of its own corpus, that reads each cell."""
        lanes = np.zeros(len(cells.number), dtype=np.int64)
        for corpus, order in enumerate(self.orders):
            here = cells.corpus == corpus
            lanes[here] = order.lanes(cells.number[here])
        return lanes

    def places(
        self, cells: Cells, sizes: Int64[np.ndarray, "cells"]
    ) -> tuple[Int64[np.ndarray, "rows"], Int64[np.ndarray, "rows"]]:
        """(block, row in the block) of every row of whole cells, which have `sizes` rows."""
        positions = ranges(cells.number * CELL_ROWS, sizes).astype(np.uint64)
        corpus, epoch = np.repeat(cells.corpus, sizes), np.repeat(cells.epoch, sizes)
        blocks, rows = np.zeros((2, len(positions)), dtype=np.int64)
        for one, number in np.unique(np.stack([cells.corpus, cells.epoch]), axis=1).T.tolist():
            here = (corpus == one) & (epoch == number)
            blocks[here], rows[here] = self.orders[one].windows(number, positions[here])
        return blocks, rows

    def _cells(
        self,
        row: int,
        num_rows: int,
        corpus: Int64[np.ndarray, "cells"],
        unit: Int64[np.ndarray, "cells"],
        before: Int64[np.ndarray, "cells"],
    ) -> Cells:
        """Cells of these units of the corpora, cut to the rows that are meant."""
        num_cells = np.array([order.num_cells for order in self.orders])[corpus]
        epoch, number = np.divmod(np.array(self.first_cells)[corpus] + unit, num_cells)
        done = np.where(unit == 0, np.array(self._offsets())[corpus], 0)
        cells = Cells(corpus, epoch, number, done, done)
        first = done + np.maximum(row - before, 0)
        stop = np.minimum(done + row + num_rows - before, self.cell_rows(cells))
        return Cells(corpus, epoch, number, first, stop)

    def _offsets(self) -> list[int]:
        """Rows already read of the cell at which each corpus begins."""
        return [
            begun - _rows_before(order, cell)
            for order, begun, cell in zip(self.orders, self.begun, self.first_cells, strict=True)
        ]

    def _find(self, row: int) -> tuple[int, int]:
        """(round, unit of it) that holds a row; rounds before it are counted, not walked."""
        low = row // (CELL_ROWS * ROUND_UNITS)  # no unit has more rows than 16
        high = low + 1
        while self._rows_before(high) <= row:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._rows_before(middle) <= row else (low, middle)
        return low, int(np.searchsorted(self._round(low).before, row, "right")) - 1

    def _rows_before(self, number: int) -> int:
        """Rows of the mixture before a round."""
        return sum(self._rows_of(c, number * part) for c, part in enumerate(self.parts))

    def _rows_of(self, corpus: int, units: int) -> int:
        """Rows in the first `units` units of a corpus: the first may be short, as may its last."""
        last = _rows_before(self.orders[corpus], self.first_cells[corpus] + units)
        return max(0, last - self.begun[corpus])

    def _round(self, number: int) -> Round:
        found = self.held.get(number)
        if found is None:
            found = self.held[number] = self._make_round(number)
            while len(self.held) > HELD_ROUNDS:
                self.held.popitem(last=False)
        return found

    def _make_round(self, number: int) -> Round:
        places = np.arange(ROUND_UNITS, dtype=np.uint64)
        slots = permute(places, ROUND_UNITS, hash64("mixture units", self.seed, number))
        corpus = np.searchsorted(np.cumsum(self.parts), slots.astype(np.int64), "right")
        unit = np.zeros(ROUND_UNITS, dtype=np.int64)
        sizes = np.zeros(ROUND_UNITS, dtype=np.int64)
        for one, (order, part) in enumerate(zip(self.orders, self.parts, strict=True)):
            here = np.flatnonzero(corpus == one)
            unit[here] = number * part + np.arange(part)
            sizes[here] = order.cell_rows((self.first_cells[one] + unit[here]) % order.num_cells)
            if number == 0 and part:
                sizes[here[0]] -= self._offsets()[one]
        before = np.full(ROUND_UNITS + 1, self._rows_before(number))
        before[1:] += np.cumsum(sizes)
        return Round(corpus, unit, before)


def _rows_before(order: Order, cell: int) -> int:
    """Rows of a corpus before a cell, both counted from its first epoch."""
    epoch, number = divmod(cell, order.num_cells)
    return epoch * order.num_windows + number * CELL_ROWS


def _cell_at(order: Order, row: int) -> int:
    """The cell, counted from the first epoch, that holds a row of a corpus."""
    epoch, position = divmod(row, order.num_windows)
    return epoch * order.num_cells + position // CELL_ROWS
