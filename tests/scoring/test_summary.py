"""The summary says what the run's files hold, and its blanks are what it claims."""

import numpy as np
import torch

from mlmdist.data.unigram import cross_entropy
from mlmdist.scoring.blanks import Blank, _different, _unconvincing


def blank(word: str, probability: float, rank: int = 1, sentence: str = "a [MASK] b") -> Blank:
    return Blank(sentence, word, probability, rank, 0.01)


def test_first_answers_come_first_then_the_largest_gain() -> None:
    blanks = [blank("x", 0.9, 2), blank("y", 0.05, 1), blank("z", 0.2, 1), blank("w", 0.001, 300)]
    ordered = sorted(blanks, key=_unconvincing)
    assert [each.word for each in ordered] == ["z", "y", "x", "w"]


def test_blanks_are_different_words_in_different_sentences() -> None:
    same_word = [blank("the", 0.5), blank("The", 0.4, sentence="c [MASK]")]
    same_sentence = [blank("b", 0.3, sentence="a [MASK] c"), blank("c", 0.2, sentence="a b [MASK]")]
    chosen = _different([*same_word, *same_sentence], 3)
    assert [each.word for each in chosen] == ["the", "b"]


def test_the_unigram_cross_entropy_is_that_of_laplace_counts() -> None:
    train, held_out = np.array([0, 3, 1]), np.array([1, 2, 0])
    expected = -(np.log(1 / 7) + 2 * np.log(4 / 7)) / 3
    assert cross_entropy(train, held_out) == np.float64(expected)
    uniform = cross_entropy(np.zeros(50, dtype=np.int64), np.arange(50))
    torch.testing.assert_close(uniform, float(np.log(50)))
