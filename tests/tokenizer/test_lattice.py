"""The best ways to cut words and their leads are those that trying all ways finds."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlmdist.tokenizer import lattice as module
from mlmdist.tokenizer.lattice import Lattice
from mlmdist.tokenizer.piece_trie import PieceTrie

UNKNOWN = 1
UNKNOWN_SCORE = -25.0
LETTERS = "xyé😀"


def all_ways(word: str, pieces: dict[str, int]) -> Iterator[list[int]]:
    """Every way to cut a word; a letter that is no piece is one of its own."""
    if not word:
        yield []
    for size in range(1, len(word) + 1):
        token = pieces.get(word[:size], UNKNOWN if size == 1 else None)
        if token is not None:
            yield from ([token, *rest] for rest in all_ways(word[size:], pieces))


words = st.lists(st.text(LETTERS, max_size=7), max_size=12)
vocabularies = st.dictionaries(
    st.text(LETTERS, min_size=1, max_size=4), st.floats(-20, -0.5), max_size=20
)


@settings(max_examples=100)
@given(scored=vocabularies, words=words, places=st.sampled_from([1, 10, 1 << 14]))
def test_all_ways_of_all_words(scored: dict[str, float], words: list[str], places: int) -> None:
    pieces = {piece: number + 2 for number, piece in enumerate(scored)}
    scores = np.array([0.0, UNKNOWN_SCORE, *scored.values()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PLACES_AT_ONCE", places)
        made = Lattice(PieceTrie(pieces), scores, UNKNOWN).best_ways(words)
    before = 0
    for word, count, gap in zip(words, made.counts.tolist(), made.gap.tolist(), strict=True):
        ways = sorted(all_ways(word, pieces), key=lambda way: -scores[way].sum())
        tokens = made.tokens[before : before + count].tolist()
        before += count
        sums = [float(scores[way].sum()) for way in ways]
        assert gap == pytest.approx(sums[0] - sums[1] if len(ways) > 1 else np.inf, abs=1e-9)
        assert tokens == ways[0] or (tokens in ways and gap < 1e-9)


def test_no_words_and_no_pieces() -> None:
    scores = np.array([0.0, UNKNOWN_SCORE])
    assert len(Lattice(PieceTrie({}), scores, UNKNOWN).best_ways([]).tokens) == 0
    made = Lattice(PieceTrie({}), scores, UNKNOWN).best_ways(["xy", ""])
    assert (made.tokens.tolist(), made.counts.tolist()) == ([UNKNOWN, UNKNOWN], [2, 0])
    assert made.gap.tolist() == [np.inf, np.inf]


def test_a_lone_surrogate_is_refused() -> None:
    lattice = Lattice(PieceTrie({"x": 2}), np.array([0.0, -1.0, -1.0]), UNKNOWN)
    with pytest.raises(UnicodeError):
        lattice.best_ways(["x\ud800"])
