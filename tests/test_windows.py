"""Windows, cut of many documents at once, are those of a plain walk through each of them."""

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.blocks import (
    BEFORE_GAP,
    ENDS_ON_SENTENCE,
    FORCED_CUT,
    LAST_OF_DOCUMENT,
    STARTS_ON_SENTENCE,
)
from mlmdist.windows import Cut, Text, cut, place


class Window(NamedTuple):
    start: int
    stop: int
    repeated: int


def walk(
    num_tokens: int, starts: list[int], words: np.ndarray, capacity: int, overlap: int
) -> list[Window]:
    """The rule of `cut`, one window after another."""
    ends = [*starts[1:], num_tokens]
    windows: list[Window] = []
    new = 0
    while new < num_tokens:
        next_end = ends[bisect_right(ends, new)]
        word = np.flatnonzero(words[new + 1 : new + capacity + 1])
        piece = next_end - new
        if piece > capacity:
            piece = 1 + int(word[0]) if word.size else capacity
        start = new
        if new in starts:
            start = starts[bisect_left(starts, new - min(overlap, capacity - piece))]
        stop = max((e for e in ends if new < e <= start + capacity), default=0)
        if not stop:
            inside = np.flatnonzero(words[new + 1 : start + capacity + 1])
            stop = new + 1 + int(inside[-1]) if inside.size else start + capacity
        windows.append(Window(start, stop, new - start))
        new = stop
    return windows


Document = tuple[int, list[int], np.ndarray]


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """(tokens, sentence starts, word starts); empty now and then."""
    sentences = draw(st.lists(st.integers(1, 40), max_size=12))
    starts = [0, *accumulate(sentences)]
    size = starts[-1] // 8 + 1
    bits = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype=np.uint8)
    word_starts = np.unpackbits(bits)[: starts[-1]].astype(np.bool_)
    word_starts[starts[:-1]] = True
    return starts[-1], starts[:-1], word_starts


def text_of(parts: list[Document]) -> Text:
    bounds = np.array([0, *accumulate(total for total, _, _ in parts)])
    starts = [
        base + s for base, (_, own, _) in zip(bounds.tolist(), parts, strict=False) for s in own
    ]
    words = np.concatenate([words for _, _, words in parts])
    return Text(bounds, np.array(starts, dtype=np.int64), words)


def windows_of(windows: Cut) -> list[Window]:
    parts = (windows.start.tolist(), windows.stop.tolist(), windows.repeated.tolist())
    return [Window(*row) for row in zip(*parts, strict=True)]


def whole(text: Text, capacity: int, overlap: int) -> Cut:
    return cut(text, text.bounds[:-1], text.bounds[1:], capacity, overlap)


def one(
    num_tokens: int, starts: list[int], words: np.ndarray, capacity: int, overlap: int
) -> list[Window]:
    return windows_of(whole(text_of([(num_tokens, starts, words)]), capacity, overlap))


@given(st.lists(documents(), min_size=1, max_size=3), st.integers(5, 60), st.data())
def test_w1_windows_are_those_of_a_walk_and_join_to_the_documents_tokens(
    parts: list[Document], capacity: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, capacity // 2))
    text = text_of(parts)
    windows = whole(text, capacity, overlap)
    expected = [
        Window(base + row.start, base + row.stop, row.repeated)
        for base, part in zip(text.bounds.tolist(), parts, strict=False)
        for row in walk(*part, capacity, overlap)
    ]
    assert windows_of(windows) == expected
    joined = [t for w in expected for t in range(w.start + w.repeated, w.stop)]
    assert joined == list(range(len(text.word_starts)))
    _check_places(text, windows)


def _check_places(text: Text, windows: Cut) -> None:
    """Documents, numbers, gaps and flags, each from its definition."""
    placed = place(text, windows)
    starts, total = set(text.sentence_starts.tolist()), len(text.word_starts)
    bounds = text.bounds.tolist()
    covered = {t for w in windows_of(windows) for t in range(w.start, w.stop)}
    seen: dict[int, int] = {}
    rows = windows_of(windows)
    for row, window in enumerate(rows):
        document = bisect_right(bounds, window.start) - 1
        assert placed.document[row] == document
        assert placed.number[row] == seen.setdefault(document, 0)
        seen[document] += 1
        flags = int(placed.flags[row])
        closes = row + 1 == len(rows) or rows[row + 1].start >= bounds[document + 1]
        assert bool(flags & LAST_OF_DOCUMENT) == closes
        assert bool(flags & STARTS_ON_SENTENCE) == (window.start in starts)
        ends_on = window.stop in starts | {total}
        assert bool(flags & ENDS_ON_SENTENCE) == ends_on
        assert bool(flags & FORCED_CUT) == (not ends_on and not text.word_starts[window.stop])
        behind = window.stop < bounds[document + 1] and window.stop not in covered
        assert bool(flags & BEFORE_GAP) == behind
        gap = 0
        while window.start - gap > bounds[document] and window.start - gap - 1 not in covered:
            gap += 1
        assert placed.gap[row] == gap


@given(st.lists(documents(), min_size=1, max_size=3), st.integers(5, 60), st.data())
def test_w1_stretches_are_cut_each_for_itself_and_their_gaps_are_counted(
    parts: list[Document], capacity: int, data: st.DataObject
) -> None:
    text = text_of(parts)
    overlap = data.draw(st.integers(0, capacity // 2))
    edges = [*text.sentence_starts.tolist(), len(text.word_starts)]
    bounds = text.bounds.tolist()
    some = sorted(data.draw(st.sets(st.sampled_from(edges), max_size=8)))
    stretches = [
        (low, high)
        for low, high in pairwise(some)
        if not any(low < bound < high for bound in bounds) and data.draw(st.booleans())
    ]
    firsts, lasts = np.array(stretches, dtype=np.int64).reshape(-1, 2).T
    windows = cut(text, firsts, lasts, capacity, overlap)
    new = [t for w in windows_of(windows) for t in range(w.start + w.repeated, w.stop)]
    assert new == [t for low, high in stretches for t in range(low, high)]
    for window in windows_of(windows):
        assert 0 < window.stop - window.start <= capacity
        assert any(low <= window.start and window.stop <= high for low, high in stretches)
    _check_places(text, windows)


def test_w1_the_head_is_the_longest_run_of_whole_sentences() -> None:
    # Sentences of 10 tokens; 35 fit: three sentences a window, 12 tokens of overlap are one.
    windows = one(60, [0, 10, 20, 30, 40, 50], np.ones(60, dtype=bool), 35, 12)
    assert windows == [(0, 30, 0), (20, 50, 10), (40, 60, 10)]


def test_w1_the_head_gives_way_to_a_sentence_that_fits_only_without_it() -> None:
    windows = one(50, [0, 10, 20], np.ones(50, dtype=bool), 30, 15)
    assert windows == [(0, 20, 0), (20, 50, 0)]


def test_w1_a_word_longer_than_a_window_is_cut_and_nothing_else_is() -> None:
    words = np.zeros(25, dtype=bool)
    words[[0, 3]] = True
    text = text_of([(25, [0], words)])
    windows = whole(text, 10, 0)
    assert [w[:2] for w in windows_of(windows)] == [(0, 3), (3, 13), (13, 23), (23, 25)]
    forced = (place(text, windows).flags & FORCED_CUT) > 0
    assert forced.tolist() == [False, True, True, False]


def test_w1_the_head_gives_way_to_a_word_that_fits_only_without_it() -> None:
    words = np.ones(320, dtype=bool)
    words[121:190] = False  # the third sentence starts with a word of 70 tokens
    text = text_of([(320, [0, 60, 120], words)])
    assert not (place(text, whole(text, 125, 62)).flags & FORCED_CUT).any()


def test_documents_without_tokens_have_no_windows() -> None:
    nothing = (0, [], np.zeros(0, dtype=bool))
    assert one(*nothing, 10, 0) == []
    text = text_of([nothing, (3, [0], np.ones(3, dtype=bool)), nothing, nothing])
    windows = whole(text, 10, 0)
    assert windows_of(windows) == [(0, 3, 0)]
    assert place(text, windows).document.tolist() == [1]


def test_w1_a_token_that_is_new_in_two_windows_is_a_bug() -> None:
    text = text_of([(20, [0, 10], np.ones(20, dtype=bool))])
    double = Cut(np.array([0, 5]), np.array([10, 20]), np.array([0, 0]))
    with pytest.raises(AssertionError, match="new in two windows"):
        place(text, double)
