"""The trie finds its pieces and the pairs in them, whatever the letters and however many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.tokenizer.piece_trie import NO_LETTER, NO_TOKEN, NOWHERE, ROOT, PieceTrie


def walk(trie: PieceTrie, texts: list[str]) -> np.ndarray:
    """The node to which each text leads, all of one length."""
    nodes = np.full(len(texts), ROOT, dtype=np.int32)
    for column in zip(*texts, strict=True):
        nodes = trie.step(nodes, trie.letter_of[[ord(letter) for letter in column]])
    return nodes


def assert_as_a_dictionary(pieces: dict[str, int], tried: list[str]) -> None:
    trie = PieceTrie(pieces)
    prefixes = {"", *(piece[:size] for piece in pieces for size in range(len(piece) + 1))}
    for size in range(max(map(len, tried), default=0) + 1):
        some = [text for text in tried if len(text) == size]
        nodes = walk(trie, some)
        assert (nodes != NOWHERE).tolist() == [text in prefixes for text in some]
        assert trie.token[nodes].tolist() == [pieces.get(text, NO_TOKEN) for text in some]


letters = st.sampled_from("ab\0é中😀")


@given(
    pieces=st.lists(st.text(letters, min_size=1, max_size=5), unique=True),
    tried=st.lists(st.text(letters, max_size=6)),
)
def test_it_finds_its_pieces_and_nothing_else(pieces: list[str], tried: list[str]) -> None:
    assert_as_a_dictionary({piece: n for n, piece in enumerate(pieces)}, tried + pieces)


@pytest.mark.parametrize("num_letters", [8, 300, 5000])
def test_thousands_of_pieces_of_few_and_of_many_letters(num_letters: int) -> None:
    """Many nodes want the same slots; of many letters, one node has thousands of children."""
    draw = np.random.default_rng(num_letters)
    alphabet = [chr(0x4E00 + number) for number in range(num_letters)]
    some = {"".join(draw.choice(alphabet, size)) for size in range(1, 7) for _ in range(900)}
    tried = ["".join(draw.choice([*alphabet, "?"], n)) for n in range(8) for _ in range(1000)]
    pieces = {piece: number for number, piece in enumerate(sorted(some))}
    assert_as_a_dictionary(pieces, [*tried, *some, *(piece + "?" for piece in some)])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("num_letters", "num_children"), [(32, 10), (64, 16), (128, 32), (600, 90)]
)
def test_families_that_hardly_fit_between_each_other(num_letters: int, num_children: int) -> None:
    """No base is free for the last ones until the table has grown."""
    draw = np.random.default_rng(0)
    alphabet = [chr(0x4E00 + number) for number in range(num_letters)]
    pairs = [a + b for a in alphabet for b in draw.choice(alphabet, num_children, replace=False)]
    pieces = {piece: number for number, piece in enumerate(alphabet + pairs)}
    assert_as_a_dictionary(pieces, [a + b for a in alphabet for b in alphabet[:200]])


@given(st.lists(st.text(letters, min_size=1, max_size=5)), st.text(letters, max_size=30))
def test_no_pair_of_a_piece_is_missed(pieces: list[str], text: str) -> None:
    trie = PieceTrie(dict.fromkeys(pieces, 0))
    told = trie.may_join(trie.letter_of[[ord(letter) for letter in text]])
    pairs = {piece[n : n + 2] for piece in pieces for n in range(len(piece) - 1)}
    joined = [text[n : n + 2] in pairs for n in range(len(text) - 1)]
    assert all(may for may, does in zip(told.tolist(), joined, strict=True) if does)


def test_few_other_pairs_are_taken_for_one() -> None:
    draw = np.random.default_rng(0)
    alphabet = [chr(0x4E00 + number) for number in range(400)]
    trie = PieceTrie({"".join(draw.choice(alphabet, 2)): 0 for _ in range(3000)})
    every = np.tile(np.arange(NO_LETTER, 401, dtype=np.int32), 401)
    other = np.repeat(np.arange(NO_LETTER, 401, dtype=np.int32), 401)
    told = trie.may_join(np.stack([other, every]).T.ravel())[::2]
    assert told.sum() < 3000 + len(told) / 8
