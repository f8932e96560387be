"""Law P3: what stands where in a row, and which segment it belongs to."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.data.batch import filler, lay_out
from mlmdist.data.pairs import UNLABELLED, pair
from tests.data.corpus import CAPACITY, VOCABULARY, cell_ptr, random_block, windows_of


@given(
    st.builds(random_block, st.integers(1, 40), st.integers(0, 10_000)),
    st.sampled_from(["nsp", "sop", "none"]),
)
def test_p3_rows_are_cls_a_sep_b_sep_with_segments_0_and_1(block, kind):
    windows = windows_of(block)
    spans = pair(kind, windows, cell_ptr(block.num_rows), 0, CAPACITY)
    stream = lay_out(windows, spans, VOCABULARY)
    for row in range(block.num_rows):
        first = text(windows, spans, "first", row)
        second = text(windows, spans, "second", row)
        expected = [VOCABULARY.cls_id, *first, VOCABULARY.sep_id]
        segments = [0] * len(expected)
        if second:
            expected += [*second, VOCABULARY.sep_id]
            segments += [1] * (len(second) + 1)
        here = slice(*stream.ptr[row : row + 2])
        assert stream.tokens[here].tolist() == expected
        assert stream.segments[here].tolist() == segments
        assert stream.positions[here].tolist() == list(range(len(expected)))
    assert stream.ptr[-1] == len(stream.tokens)


def text(windows, spans, part, row) -> list[int]:
    window = getattr(spans, f"{part}_window")[row]
    if window < 0:
        return []
    start, stop = (getattr(spans, f"{part}_{end}")[row] for end in ("start", "stop"))
    return windows.tokens[windows.ptr[window] + start : windows.ptr[window] + stop].tolist()


def test_a_filler_row_weighs_nothing():
    row = filler(VOCABULARY)
    assert row.tokens.tolist() == [VOCABULARY.cls_id, VOCABULARY.sep_id]
    assert row.weights.tolist() == [0]
    assert row.pair_labels.tolist() == [UNLABELLED]
    assert np.diff(row.cu_lengths).tolist() == [2]
    assert len(row.labels) == len(row.masked_index) == 0
