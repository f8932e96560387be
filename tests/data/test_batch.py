"""Law P3: what stands where in a row, and which segment it belongs to."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlmdist.config.data import Mask
from mlmdist.data.assembly import _cut, deal
from mlmdist.data.batch import filler, lay_out, pad
from mlmdist.data.masks import mask_stream
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


@given(st.lists(st.integers(0, 500), min_size=1, max_size=200), st.integers(1, 40))
def test_rows_are_dealt_to_micro_batches_of_like_counts_and_tokens(lengths, hands):
    lengths = np.array(lengths)
    order, bounds = deal(lengths, hands)
    assert sorted(order.tolist()) == list(range(len(lengths)))
    counts = np.diff(bounds)
    assert counts.max() - counts.min() <= 1
    dealt = [order[first:stop] for first, stop in pairwise(bounds.tolist())]
    assert all((np.diff(hand) > 0).all() for hand in dealt)
    full = [lengths[hand].sum() for hand in dealt if len(hand) == counts.max()]
    assert max(full) - min(full) <= lengths.max()


def test_dealing_evens_out_tokens():
    lengths = windows_of(random_block(256, 3)).lengths
    order, bounds = deal(lengths, 8)
    dealt = [lengths[order[first:stop]].sum() for first, stop in pairwise(bounds.tolist())]
    cut = [part.sum() for part in np.split(lengths, 8)]
    assert np.ptp(dealt) < np.ptp(cut) / 10


@settings(max_examples=20)
@given(st.builds(random_block, st.integers(1, 40), st.integers(0, 99)), st.integers(1, 5))
def test_padded_rows_hold_the_stream_and_padding_that_counts_nowhere(block, extra):
    windows = windows_of(block)
    spans = pair("nsp", windows, cell_ptr(block.num_rows), 0, CAPACITY)
    stream = lay_out(windows, spans, VOCABULARY)
    masked = mask_stream(stream, windows, Mask(), VOCABULARY, seed=0, rate=150_000)
    batch = _cut(stream, masked, spans, windows, 0, block.num_rows)
    longest = int(np.diff(batch.cu_lengths).max())
    padded = pad(batch, VOCABULARY.pad_id, longest + extra)
    assert pad(batch, VOCABULARY.pad_id).input_ids.shape == (block.num_rows, longest)
    inside = padded.attention_mask == 1
    assert (inside.sum(axis=1) == np.diff(batch.cu_lengths)).all()
    assert (padded.input_ids[inside] == batch.tokens).all()
    assert (padded.input_ids[~inside] == VOCABULARY.pad_id).all()
    assert (padded.token_type_ids[inside] == batch.segments).all()
    assert (
        np.flatnonzero(padded.labels[inside] != UNLABELLED).tolist() == batch.masked_index.tolist()
    )
    assert padded.labels[padded.labels != UNLABELLED].tolist() == batch.labels.tolist()
    assert (padded.labels[~inside] == UNLABELLED).all()
