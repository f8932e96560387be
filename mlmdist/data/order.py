"""The order of an epoch: position -> window, pure, in constant time and memory (laws O1, S3).

A cell is 16 consecutive positions of an epoch. Full cells are dealt to the lanes in turn, so that
every lane reads its own part of the epoch from front to back; a keyed permutation lays the set's
blocks into the epoch's slots, and rows are permuted inside groups of neighbouring slots:

    position --lanes--> place --rows of its group--> place --slots--> block, row

`kind: global` permutes all windows at once instead. Integers only, so every machine agrees.
"""

import numpy as np
from jaxtyping import Int64, UInt64

from mlmdist.blocks import ROWS_PER_BLOCK
from mlmdist.config import data as config
from mlmdist.errors import DataError
from mlmdist.rng import absorb_array, hash64, permute, purpose_key, unpermute

ORDER_VERSION = 1
CELL_ROWS = 16


class Order:
    """The order of the windows of one shard set, for every epoch."""

    def __init__(self, num_windows: int, fingerprint: str, seed: int, order: config.Order) -> None:
        """`fingerprint` is the set's content fingerprint; raises DataError for an empty set."""
        if num_windows < 1:
            raise DataError("the shard set holds 0 windows; at least 1 is needed to read from it")
        self.num_windows, self.kind, self.num_lanes = num_windows, order.kind, order.lanes
        self.num_blocks = -(-num_windows // ROWS_PER_BLOCK)
        self.shortage = self.num_blocks * ROWS_PER_BLOCK - num_windows  # of the last block
        self.num_full_cells = num_windows // CELL_ROWS
        self.num_cells = -(-num_windows // CELL_ROWS)
        self.num_groups = -(-self.num_blocks // order.group_blocks)
        self.keys = (purpose_key(fingerprint), seed)

    def windows(
        self, epoch: int, positions: UInt64[np.ndarray, "n"]
    ) -> tuple[Int64[np.ndarray, "n"], Int64[np.ndarray, "n"]]:
        """(block number, row in the block) of each position of an epoch.

        Positions are below `num_windows`; over all of them each window comes once (law O1).
        """
        if self.kind == "global":
            key = hash64("order global", *self.keys, epoch)
            places = permute(positions, self.num_windows, key).astype(np.int64)
            return places // ROWS_PER_BLOCK, places % ROWS_PER_BLOCK
        key = hash64("order blocks", *self.keys, epoch)
        last = np.array([self.num_blocks - 1], dtype=np.uint64)
        short_slot = int(unpermute(last, self.num_blocks, key)[0])
        places = self._mixed(epoch, self._lane_places(positions.astype(np.int64)), short_slot)
        slots = self._slots(places, short_slot)
        blocks = permute(slots.astype(np.uint64), self.num_blocks, key).astype(np.int64)
        return blocks, places - self._slot_starts(slots, short_slot)

    def lanes(self, cells: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
        """The lane that reads each cell of an epoch; the short cell at the end is the last's."""
        return np.where(cells < self.num_full_cells, cells % self.num_lanes, self.num_lanes - 1)

    def cell_rows(self, cells: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
        """Rows of each cell of an epoch: 16, or fewer in the last."""
        return np.minimum(CELL_ROWS, self.num_windows - cells * CELL_ROWS)

    def _lane_places(self, positions: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
        """Where a position's row is read in the epoch laid out from front to back."""
        cells, rows = np.divmod(positions, CELL_ROWS)
        steps, lanes = np.divmod(cells, self.num_lanes)
        length, longer = divmod(self.num_full_cells, self.num_lanes)
        first_cells = lanes * length + np.minimum(lanes, longer)
        full = cells < self.num_full_cells
        return np.where(full, (first_cells + steps) * CELL_ROWS + rows, positions)

    def _mixed(
        self, epoch: int, places: Int64[np.ndarray, "n"], short_slot: int
    ) -> Int64[np.ndarray, "n"]:
        """Places after the rows of each group are permuted among themselves."""
        length, longer = divmod(self.num_blocks, self.num_groups)
        slots = self._slots(places, short_slot)
        boundary = longer * (length + 1)  # slots in the longer groups
        groups = np.where(
            slots < boundary, slots // (length + 1), longer + (slots - boundary) // length
        )
        first_slots = groups * length + np.minimum(groups, longer)
        starts = self._slot_starts(first_slots, short_slot)
        ends = self._slot_starts(first_slots + length + (groups < longer), short_slot)
        state = hash64("order rows", *self.keys, epoch)
        moved = permute(
            (places - starts).astype(np.uint64),
            (ends - starts).astype(np.uint64),
            absorb_array(state, groups.astype(np.uint64)),
            max_size=(length + (longer > 0)) * ROWS_PER_BLOCK,
        )
        return starts + moved.astype(np.int64)

    def _slots(self, places: Int64[np.ndarray, "n"], short_slot: int) -> Int64[np.ndarray, "n"]:
        """The slot that holds each place: those after the short block begin earlier."""
        end_of_short = (short_slot + 1) * ROWS_PER_BLOCK - self.shortage
        return (places + np.where(places >= end_of_short, self.shortage, 0)) // ROWS_PER_BLOCK

    def _slot_starts(
        self, slots: Int64[np.ndarray, "n"], short_slot: int
    ) -> Int64[np.ndarray, "n"]:
        """The first place of each slot."""
        return slots * ROWS_PER_BLOCK - np.where(slots > short_slot, self.shortage, 0)
