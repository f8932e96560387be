from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.blocks import ENDS_ON_SENTENCE, FORCED_CUT, LAST_OF_DOCUMENT, STARTS_ON_SENTENCE
from mlmdist.windows import Window, cut


@st.composite
def documents(draw: st.DrawFn) -> tuple[int, list[int], np.ndarray]:
    """(tokens, sentence starts, word starts): sentence starts are word starts, as in text."""
    sentences = draw(st.lists(st.integers(1, 40), min_size=1, max_size=20))
    starts = np.cumsum([0, *sentences])
    words = draw(st.lists(st.booleans(), min_size=int(starts[-1]), max_size=int(starts[-1])))
    word_starts = np.array(words)
    word_starts[starts[:-1]] = True
    return int(starts[-1]), starts[:-1].tolist(), word_starts


@given(documents(), st.integers(5, 60), st.data())
def test_w1_windows_join_to_exactly_the_documents_tokens(
    document: tuple[int, list[int], np.ndarray], capacity: int, data: st.DataObject
) -> None:
    num_tokens, sentence_starts, word_starts = document
    overlap = data.draw(st.integers(0, capacity // 2))
    windows = cut(num_tokens, sentence_starts, word_starts, capacity, overlap)
    joined = [t for w in windows for t in range(w.start + w.repeated, w.stop)]
    assert joined == list(range(num_tokens))
    for window in windows:
        assert 0 < window.stop - window.start <= capacity
        assert window.repeated <= overlap
        assert window.start + window.repeated < window.stop
    _check_edges(windows, sentence_starts, word_starts, num_tokens, capacity)


def _check_edges(
    windows: list[Window],
    sentence_starts: Sequence[int],
    word_starts: np.ndarray,
    num_tokens: int,
    capacity: int,
) -> None:
    ends = {*sentence_starts[1:], num_tokens}
    for window in windows:
        new = window.start + window.repeated
        assert bool(window.flags & STARTS_ON_SENTENCE) == (window.start in sentence_starts)
        assert bool(window.flags & ENDS_ON_SENTENCE) == (window.stop in ends)
        assert bool(window.flags & LAST_OF_DOCUMENT) == (window.stop == num_tokens)
        fits = [e for e in ends if new < e <= window.start + capacity]
        assert not fits or window.stop == max(fits), "a sentence end fits and is not taken"
        inside_word = window.stop < num_tokens and not word_starts[window.stop]
        assert bool(window.flags & FORCED_CUT) == inside_word
        if inside_word:
            assert not word_starts[new + 1 : new + capacity + 1].any(), "the word fits a window"


def test_w1_the_head_is_the_longest_run_of_whole_sentences() -> None:
    # Sentences of 10 tokens; 35 fit: three sentences a window, 12 tokens of overlap are one.
    windows = cut(60, [0, 10, 20, 30, 40, 50], np.ones(60, dtype=bool), 35, 12)
    assert [(w.start, w.stop, w.repeated) for w in windows] == [
        (0, 30, 0), (20, 50, 10), (40, 60, 10),
    ]  # fmt: skip


def test_w1_the_head_gives_way_to_a_sentence_that_fits_only_without_it() -> None:
    windows = cut(50, [0, 10, 20], np.ones(50, dtype=bool), 30, 15)
    assert [(w.start, w.stop, w.repeated) for w in windows] == [(0, 20, 0), (20, 50, 0)]


def test_w1_a_word_longer_than_a_window_is_cut_and_nothing_else_is() -> None:
    word_starts = np.zeros(25, dtype=bool)
    word_starts[[0, 3]] = True
    windows = cut(25, [0], word_starts, 10, 0)
    assert [(w.start, w.stop) for w in windows] == [(0, 3), (3, 13), (13, 23), (23, 25)]
    assert [bool(w.flags & FORCED_CUT) for w in windows] == [False, True, True, False]


def test_w1_the_head_gives_way_to_a_word_that_fits_only_without_it() -> None:
    words = np.ones(320, dtype=bool)
    words[121:190] = False  # the third sentence starts with a word of 70 tokens
    windows = cut(320, [0, 60, 120], words, 125, 62)
    assert not any(window.flags & FORCED_CUT for window in windows)


def test_a_document_without_tokens_has_no_windows() -> None:
    assert cut(0, [], np.zeros(0, dtype=bool), 10, 0) == []
