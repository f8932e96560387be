"""The table of words: numbers as a dictionary gives them, whatever the words and the hash are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.tokenizer import word_table
from mlmdist.tokenizer.word_table import SHORT_BYTES, WordTable

LETTERS = st.sampled_from("ab\0\t\u00e9\u0416\u4e2d\U0001f600")
WORDS = st.text(LETTERS, max_size=4) | st.text(LETTERS, min_size=6, max_size=40)
TEXTS = st.lists(st.lists(WORDS, max_size=30).map(" ".join), max_size=4)


def assert_as_a_dictionary(texts: list[str]) -> None:
    table, known = WordTable(), dict[str, int]()
    for text in texts:
        before = len(known)
        expected = [known.setdefault(word, len(known)) for word in text.split(" ")]
        numbers, new = table.number(text)
        assert numbers.tolist() == expected
        assert new == " ".join(list(known)[before:])
    assert len(table) == len(known)
    assert table.words(np.arange(len(known))) == list(known)


@given(TEXTS)
def test_numbers_are_those_of_a_dictionary(texts: list[str]) -> None:
    assert_as_a_dictionary(texts)


@pytest.mark.parametrize("kept_bits", [0, 60, 0xF << 60])
def test_words_of_one_hash_are_told_apart(kept_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = word_table.hash_rows
    monkeypatch.setattr(word_table, "hash_rows", lambda rows: real(rows) & np.uint64(kept_bits))
    assert_as_a_dictionary([f"{n} {n + 1} {n} x{n}" for n in range(0, 300, 7)])
    assert_as_a_dictionary([" ".join(map(str, range(500))), " ".join(map(str, range(900)))])


def test_it_grows_and_finds_all_again() -> None:
    words = [f"word{number:x}" for number in range(50_000)]
    assert_as_a_dictionary([" ".join(words[:20_000]), " ".join(words), " ".join(words[::-1])])


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, SHORT_BYTES, SHORT_BYTES + 1, 400])
def test_words_that_differ_in_a_byte_anywhere_are_others(length: int) -> None:
    word = "a" * length
    others = [word[:place] + "b" + word[place + 1 :] for place in range(length)]
    assert_as_a_dictionary([" ".join([word, *others, word + "\0", word + "a"])])


def test_hashes_spread_over_the_high_bits() -> None:
    """Words that differ in one letter come into different slots nearly as often as random ones."""
    for place in range(SHORT_BYTES):
        table = WordTable()
        letters = "abcdefghijklmnopqrstuvwxyz0123456789"
        start, end = "x" * place, "x" * (SHORT_BYTES - 1 - place)
        table.number(" ".join(start + letter + end for letter in letters))
        slots = np.flatnonzero(table.slots >= 0)
        hashes = word_table.hash_rows(table.rows[: len(table)])
        assert len(set((hashes >> np.uint64(52)).tolist())) >= len(letters) - 3
        assert len(slots) == len(letters)


def test_a_lone_surrogate_is_refused_and_leaves_no_trace() -> None:
    table = WordTable()
    with pytest.raises(UnicodeError):
        table.number("one \ud800 two")
    assert len(table) == 0
    assert table.number("one two")[1] == "one two"
