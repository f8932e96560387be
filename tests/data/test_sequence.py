"""Laws O2 and O3: one sequence of batches for every world size, entered anywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.config import data as config
from mlmdist.data.batch_size import CELL, BatchSize, growing
from mlmdist.data.mixture import Cells, Mixture
from mlmdist.data.order import CELL_ROWS, Order
from mlmdist.data.sequence import Position, batch_cells, num_micro_batches, share
from mlmdist.errors import DataError

sizes = st.integers(1, 300)


def make(num_windows: int, lanes: int) -> Mixture:
    return Mixture([Order(num_windows, "content", 0, config.Order(lanes=lanes))])


def rows_of(cells: Cells) -> list[tuple[int, int]]:
    """(epoch, position) of each row meant, in order."""
    parts = zip(cells.epoch, cells.number, cells.first, cells.stop, strict=True)
    return [(int(e), int(n) * CELL_ROWS + r) for e, n, a, b in parts for r in range(a, b)]


@given(sizes, st.integers(1, 9), st.integers(0, 2000), sizes)
def test_o2_a_batch_is_the_next_rows_whatever_the_epoch(num_windows, lanes, cursor, batch):
    rows = rows_of(batch_cells(make(num_windows, lanes), cursor, batch))
    assert sorted(rows) == [divmod(row, num_windows) for row in range(cursor, cursor + batch)]


@given(sizes, st.integers(1, 9), st.integers(0, 2000), sizes, st.integers(1, 17))
def test_o2_the_ranks_together_make_the_batch(num_windows, lanes, cursor, batch, world_size):
    cells = batch_cells(make(num_windows, lanes), cursor, batch)
    shares = [rows_of(share(cells, rank, world_size)) for rank in range(world_size)]
    assert [row for part in shares for row in part] == rows_of(cells)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(1, 5), st.integers(1, 10), st.integers(0, 1000))
def test_a_batch_is_sorted_by_lane(lanes, batch_cells_count, cursor):
    mixture = make(10_000, lanes)
    cells = batch_cells(mixture, cursor, batch_cells_count * CELL_ROWS)
    assert (np.diff(mixture.lanes(cells)) >= 0).all()


@given(sizes, sizes, st.integers(1, 17))
def test_micro_batches_hold_the_largest_share(batch, micro_batch, world_size):
    number = num_micro_batches(batch, micro_batch, world_size)
    assert (number - 1) * micro_batch < -(-batch // world_size) <= number * micro_batch


stages = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 99)), min_size=1, max_size=4)


@given(stages)
def test_o3_rows_before_a_batch_are_those_of_the_batches_before(lengths):
    firsts = np.cumsum([0, *[length for length, _ in lengths[:-1]]]).tolist()
    size = BatchSize(list(zip(firsts, [rows for _, rows in lengths], strict=True)))
    walked = [0]
    for batch in range(100):
        walked.append(walked[-1] + size.rows(batch))
    assert [size.rows_before(batch) for batch in range(101)] == walked


@pytest.mark.parametrize("wrong", [[], [(1, 5)], [(0, 5), (0, 6)], [(0, 0)]])
def test_stages_that_are_no_batch_sizes_are_refused(wrong):
    with pytest.raises(ValueError, match="must begin with batch 0"):
        BatchSize(wrong)


def test_o3_a_position_survives_json():
    position = Position(1, 7, (3 << 40, 8), (2, 5), (1 << 40, 0))
    assert Position.from_json(position.to_json()) == position
    with pytest.raises(DataError, match="cursors"):
        Position.from_json({"batch": 3})


@given(stages, st.integers(1, 5000))
def test_o3_batches_for_rows_are_the_fewest_that_hold_them(lengths, rows):
    firsts = np.cumsum([0, *[length for length, _ in lengths[:-1]]]).tolist()
    sizes = BatchSize(list(zip(firsts, [size for _, size in lengths], strict=True)))
    number = sizes.batches_for(rows)
    assert sizes.rows_before(number - 1) < rows <= sizes.rows_before(number)


@given(st.integers(1, 500), st.integers(0, 500), st.integers(1, 300), st.integers(1, 12))
def test_growing_batches_never_shrink_and_end_at_their_full_size(first, more, steps, sizes):
    grown = growing(first, first + more, steps, sizes)
    rows = [grown.rows(number) for number in range(steps + 2)]
    assert rows == sorted(rows)
    assert rows[0] == first
    assert rows[steps] == rows[-1] == first + more
    assert all(size % CELL == 0 for size in set(rows[:steps]) - {first} if size > CELL)
