"""What words become, remembered, so that a frequent word is cut into pieces once.

A memo only remembers: with any content, also none, the same texts give the same tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int32, Int64, UInt8

from mlmdist.tokenizer.word_table import WordTable

MAX_WORDS = 1 << 20
"""Words kept: at most about 200 bytes each, so 200 MB."""

MAX_LONG_BYTES = 1 << 25
"""Of words that are too long for a row of the table; they are kept beside it."""

MAX_WORD_CHARS = 64  # longer ones are rare, and no two alike
ALONE = -1.0
"""A reach that no text is within."""


@dataclass(frozen=True)
class WordTokens:
    """Words as tokens, end to end; word i has `counts[i]` of them."""

    tokens: Int32[np.ndarray, "total"]
    chars: UInt8[np.ndarray, "total"]
    """Characters that each token covers, the space in front of the word counted."""

    counts: Int64[np.ndarray, "words"]
    weight: Float64[np.ndarray, "words"]
    """What a word adds to the weight of its text."""

    reach: Float64[np.ndarray, "words"]
    """The heaviest text in which the word surely becomes these tokens; infinite if it always does,
    ALONE if this is not known of any text."""


@dataclass(frozen=True)
class Found:
    """The tokens of words looked up, end to end."""

    tokens: Int32[np.ndarray, "total"]
    chars: Int32[np.ndarray, "total"]
    counts: Int32[np.ndarray, "words"]
    weight: Float64[np.ndarray, "words"]
    reach: Float64[np.ndarray, "words"]


class WordMemo:
    """A bounded table of words and their tokens.

    When it is full, the words that came but once since it was full last are forgotten. It is for
    one thread.
    """

    def __init__(self, max_words: int = MAX_WORDS) -> None:
        self.max_words = max_words
        self.clear()

    def clear(self) -> None:
        """Forget every word but the empty one, which has no tokens."""
        self.first = _Column(np.int32)
        self.counts = _Column(np.int32)
        self.weight = _Column(np.float64)
        self.reach = _Column(np.float64)
        self.came_again = _Column(np.bool_)
        self.tokens = _Column(np.int32)
        self.chars = _Column(np.uint8)
        self.table = WordTable()  # last: columns without words harm nobody, should this be stopped
        none, one = np.zeros(0, dtype=np.int32), np.zeros(1)
        nothing = WordTokens(none, none.astype(np.uint8), one.astype(np.int64), one, one + np.inf)
        self.number("", lambda _: nothing)

    def number(self, text: str, encode: Callable[[str], WordTokens]) -> Int64[np.ndarray, "words"]:
        """The numbers of the words between the spaces of a text.

        `encode` gets those that are new, with spaces between them, to say what they become. Raises
        UnicodeError for a lone surrogate.
        """
        try:
            if len(self.table) > self.max_words or self.table.long_bytes > MAX_LONG_BYTES:
                self._forget()
            known = len(self.table)
            numbers, new = self.table.number(text)
            self.came_again.values[numbers[numbers < known]] = True
            if len(self.table) > known:
                self._learn(encode(new), len(self.table) - known)
        except BaseException:  # words have numbers and no tokens, or those of others
            self.clear()
            raise
        return numbers

    def _learn(self, made: WordTokens, num_words: int) -> None:
        """Remember the tokens of the words whose numbers come next."""
        assert len(made.counts) == num_words, "tokens of other words than the new ones"
        self.first.add(len(self.tokens) + np.cumsum(made.counts) - made.counts)
        self.counts.add(made.counts)
        self.weight.add(made.weight)
        self.reach.add(made.reach)
        self.came_again.add(np.zeros(len(made.counts), dtype=np.bool_))
        self.tokens.add(made.tokens)
        self.chars.add(made.chars)

    def find(self, numbers: Int64[np.ndarray, "words"]) -> Found:
        """What the words of these numbers become."""
        counts = self.counts.values[numbers]
        stops = np.cumsum(counts, dtype=np.int64)
        total = int(stops[-1]) if len(stops) else 0
        places = np.repeat(self.first.values[numbers] - (stops - counts), counts)
        places += np.arange(total)
        return Found(
            self.tokens.values[places],
            self.chars.values[places].astype(np.int32),
            counts,
            self.weight.values[numbers],
            self.reach.values[numbers],
        )

    def _forget(self) -> None:
        """Keep the words that came again, if that leaves room; else none."""
        kept = 1 + np.flatnonzero(self.came_again.filled[1:])  # the empty word stays anyway
        if len(kept) > self.max_words // 2 or self.table.long_bytes > MAX_LONG_BYTES:
            kept = kept[:0]
        words, found = self.table.words(kept), self.find(kept)
        self.clear()
        if words:
            again = WordTokens(
                found.tokens,
                found.chars.astype(np.uint8),
                found.counts.astype(np.int64),
                found.weight,
                found.reach,
            )
            self.number(" ".join(words), lambda _: again)


def short_words(words: str) -> list[str]:
    """The words between the spaces; in the place of those that are not remembered, empty ones."""
    return [word if len(word) <= MAX_WORD_CHARS else "" for word in words.split(" ")]


class _Column:
    """An array that grows at its end; `values` has room to spare, `filled` has not."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self.values: Any = np.zeros(1024, dtype=dtype)
        self.length = 0

    def __len__(self) -> int:
        return self.length

    @property
    def filled(self) -> np.ndarray:
        return self.values[: self.length]

    def add(self, more: np.ndarray) -> None:
        length = self.length + len(more)
        if length > len(self.values):
            grown = np.zeros(2 * length, dtype=self.values.dtype)
            grown[: self.length] = self.filled
            self.values = grown
        self.values[self.length : length] = more
        self.length = length
