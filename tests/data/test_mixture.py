"""Laws O1, O2, O3 and S3 for several corpora: dealt by weight, each read through its own epochs."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mlmdist.config import data as config
from mlmdist.data.mixture import (
    MIXTURE_VERSION,
    ROUND_UNITS,
    Cells,
    Mixture,
    parts_of,
)
from mlmdist.data.order import CELL_ROWS, Order
from mlmdist.data.sequence import batch_cells
from mlmdist.errors import ConfigError
from mlmdist.rng import hash64, permute

corpora = st.lists(st.tuples(st.integers(1, 200), st.integers(1, 9)), min_size=1, max_size=4)


def make(sizes: list[int], weights: list[int], *, begun=None, lanes: int = 1, seed: int = 0):
    orders = [Order(size, f"{i}", 0, config.Order(lanes=lanes)) for i, size in enumerate(sizes)]
    names = [str(i) for i in range(len(sizes))]
    return Mixture(orders, parts_of(weights, names), seed=seed, begun=begun)


def rows_of(mixture: Mixture, cells: Cells) -> list[tuple[int, int]]:
    """(corpus, row of the corpus through all its epochs) of each row meant, in order."""
    parts = (cells.corpus, cells.epoch, cells.number, cells.first, cells.stop)
    return [
        (c, e * mixture.orders[c].num_windows + n * CELL_ROWS + row)
        for c, e, n, first, stop in zip(*(part.tolist() for part in parts), strict=True)
        for row in range(first, stop)
    ]


def reference(sizes: list[int], parts: list[int], begun: list[int], seed: int, num_rows: int):
    """The rule, unit by unit: which corpus is dealt, and the rest of the cell it stands in."""
    ends = np.cumsum(parts)
    cursors = list(begun)
    found: list[tuple[int, int]] = []
    unit = 0
    while len(found) < num_rows:
        number, place = divmod(unit, ROUND_UNITS)
        key = hash64("mixture units", seed, number)
        slot = int(permute(np.array([place], dtype=np.uint64), ROUND_UNITS, key)[0])
        corpus = int(np.searchsorted(ends, slot, "right"))
        epoch, position = divmod(cursors[corpus], sizes[corpus])
        stop = min(sizes[corpus], (position // CELL_ROWS + 1) * CELL_ROWS)
        found += [(corpus, epoch * sizes[corpus] + row) for row in range(position, stop)]
        cursors[corpus] += stop - position
        unit += 1
    return found[:num_rows]


@settings(max_examples=15)
@given(corpora, st.data())
@pytest.mark.slow
def test_the_sequence_follows_the_rule_unit_by_unit(listed, data):
    sizes, weights = (list(part) for part in zip(*listed, strict=True))
    begun = data.draw(st.lists(st.integers(0, 500), min_size=len(sizes), max_size=len(sizes)))
    seed = data.draw(st.integers())
    mixture = make(sizes, weights, begun=begun, seed=seed)
    expected = reference(sizes, list(mixture.parts), begun, seed, 3000)
    assert rows_of(mixture, mixture.cells(0, 3000)) == expected
    row, count = data.draw(st.integers(0, 2900)), data.draw(st.integers(1, 100))
    assert rows_of(mixture, mixture.cells(row, count)) == expected[row : row + count]
    read = [sum(corpus == c for corpus, _ in expected[:row]) for c in range(len(sizes))]
    assert mixture.cursors(row) == tuple(np.add(begun, read))


@settings(max_examples=25)
@given(corpora, st.integers(0, 10**14), st.integers(1, 2000))
@example([(1, 1), (199, 3)], 16 * ROUND_UNITS - 1, 40)
def test_o1_each_corpus_is_read_on_without_gap_or_repeat(listed, row, count):
    sizes, weights = (list(part) for part in zip(*listed, strict=True))
    mixture = make(sizes, weights)
    before, after = mixture.cursors(row), mixture.cursors(row + count)
    assert (sum(before), sum(after)) == (row, row + count)
    rows = rows_of(mixture, mixture.cells(row, count))
    for corpus, (first, last) in enumerate(zip(before, after, strict=True)):
        assert [r for c, r in rows if c == corpus] == list(range(first, last))


@settings(max_examples=15)
@given(corpora, st.lists(st.integers(0, 5000), min_size=3, max_size=6), st.integers(1, 3))
def test_o3_the_batches_of_two_lives_are_those_of_one(listed, bounds, lanes):
    sizes, weights = (list(part) for part in zip(*listed, strict=True))
    bounds = sorted({*bounds, 0, 6000})
    lives = []
    for first, last in pairwise(bounds):
        life = make(sizes, weights, lanes=lanes)
        lives += rows_of(life, life.cells(first, last - first))
    straight = make(sizes, weights, lanes=lanes)
    assert lives == rows_of(straight, straight.cells(0, 6000))


def test_rows_come_by_weight():
    """In every round exactly, but for the short cells at the ends of epochs."""
    mixture = make([10**6, 10**6, 10**6], [6, 3, 1])
    cells = mixture.cells(0, 3 * CELL_ROWS * ROUND_UNITS)
    assert np.bincount(cells.corpus).tolist() == [3 * part for part in mixture.parts]
    assert mixture.parts == (2457, 1229, 410)
    for start in range(0, 3 * ROUND_UNITS, 1024):  # evenly spread, too
        share = np.mean(cells.corpus[start : start + 1024] == 0)
        assert abs(share - 0.6) < 4 * np.sqrt(0.24 / 1024)


def test_one_corpus_is_read_in_its_own_order():
    mixture = make([1000], [5])
    cells = mixture.cells(3, 2500)
    assert (cells.epoch * 63 + cells.number).tolist() == list(range(len(cells.number)))


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8))
def test_parts_make_a_round_and_are_near_the_weights(weights):
    names = [str(i) for i in range(len(weights))]
    wanted = np.array(weights) / sum(weights) * ROUND_UNITS
    try:
        parts = parts_of(weights, names)
    except ConfigError:
        assert wanted.min() < 1 / 0.03
    else:
        assert sum(parts) == ROUND_UNITS
        assert (np.abs(parts - wanted) <= 0.03 * wanted + 1e-9).all()


def test_a_weight_too_small_is_refused_with_the_way_out():
    with pytest.raises(ConfigError, match=r"weight of rare is 0\.0100% .* give it 0\.0244%, or le"):
        parts_of([9999, 1], ["wiki", "rare"])


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_batch_is_sorted_by_the_lanes_of_its_corpora(lanes):
    mixture = make([700, 300], [2, 1], lanes=lanes)
    cells = batch_cells(mixture, 41, 300)
    assert (np.diff(mixture.lanes(cells)) >= 0).all()
    assert sorted(rows_of(mixture, cells)) == sorted(rows_of(mixture, mixture.cells(41, 300)))


def test_s3_a_trillion_windows_cost_no_memory_and_no_walk():
    mixture = make([10**12 + 7, 3 * 10**11, 5], [80, 19, 1])
    tracemalloc.start()
    row = 5 * 10**12 + 3
    cells = mixture.cells(row, 512)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert int((cells.stop - cells.first).sum()) == 512
    assert sum(mixture.cursors(row)) == row
    assert peak < 1 << 20
    assert len(mixture.held) == 1


def test_golden_mixture_of_version_1():
    """Released: these numbers never change under this version."""
    assert MIXTURE_VERSION == 1
    mixture = make([100, 50, 21], [5, 2, 1], seed=5)
    cells = mixture.cells(200_000, 100)
    found = [part.tolist() for part in (cells.corpus, cells.epoch, cells.number)]
    assert found == GOLDEN
    assert mixture.cursors(200_000) == GOLDEN_CURSORS


GOLDEN = [[0, 0, 0, 0, 1, 0, 0], [1335, 1335, 1335, 1335, 936, 1335, 1335], [0, 1, 2, 3, 0, 4, 5]]
GOLDEN_CURSORS = (133502, 46800, 19698)
