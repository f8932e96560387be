"""The best ways to cut words and their leads are those that trying all ways finds."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlmdist.tokenizer import lattice
from mlmdist.tokenizer.lattice import NOWHERE, PieceTrie, best_ways

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
        patch.setattr(lattice, "PLACES_AT_ONCE", places)
        made = best_ways(PieceTrie(pieces), scores, UNKNOWN, words)
    before = 0
    for word, count, gap in zip(words, made.counts.tolist(), made.gap.tolist(), strict=True):
        ways = sorted(all_ways(word, pieces), key=lambda way: -scores[way].sum())
        tokens = made.tokens[before : before + count].tolist()
        before += count
        sums = [float(scores[way].sum()) for way in ways]
        assert gap == pytest.approx(sums[0] - sums[1] if len(ways) > 1 else np.inf, abs=1e-9)
        assert tokens == ways[0] or (tokens in ways and gap < 1e-9)


def test_a_trie_finds_its_pieces_and_nothing_else() -> None:
    """Thousands of keys in one table: many of them meet another one in their slot."""
    draw = np.random.default_rng(0)
    some = {
        "".join(draw.choice(list("abcdefgh"), size)) for size in range(1, 7) for _ in range(900)
    }
    pieces = {piece: number for number, piece in enumerate(sorted(some))}
    prefixes = {piece[:size] for piece in pieces for size in range(len(piece) + 1)}
    trie = PieceTrie(pieces)
    for size in range(1, 8):
        tried = ["".join(draw.choice(list("abcdefghi"), size)) for _ in range(2000)]
        node = np.zeros(len(tried), dtype=np.int64)
        for column in range(size):
            codes = np.array([ord(text[column]) for text in tried])
            alive = node != NOWHERE
            node[alive] = trie.step(node[alive], codes[alive])
        assert (node != NOWHERE).tolist() == [text in prefixes for text in tried]
        assert trie.token[node].tolist() == [pieces.get(text, NOWHERE) for text in tried]


def test_no_words_and_no_pieces() -> None:
    scores = np.array([0.0, UNKNOWN_SCORE])
    assert len(best_ways(PieceTrie({}), scores, UNKNOWN, []).tokens) == 0
    made = best_ways(PieceTrie({}), scores, UNKNOWN, ["xy", ""])
    assert (made.tokens.tolist(), made.counts.tolist()) == ([UNKNOWN, UNKNOWN], [2, 0])
    assert made.gap.tolist() == [np.inf, np.inf]


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UnicodeError):
        best_ways(PieceTrie({"x": 2}), np.array([0.0, -1.0, -1.0]), UNKNOWN, ["x\ud800"])
