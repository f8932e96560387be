"""The interface of every tokenizer, and the fast way to encode that all kinds share.

Text is cut at its spaces, and each word's tokens are remembered (mlmdist/tokenizer/memo.py). A text
in which a word's tokens might depend on the words around it, and a text with few spaces, is encoded
as a whole. So the ids are those of the whole text, whatever the memo holds.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64

from mlmdist.tokenizer.memo import WordMemo, WordTokens
from mlmdist.tokenizer.text import in_word
from mlmdist.tokenizer.vocabulary import Encoded, Vocabulary

BATCH_CHARS = 1 << 21  # of text that is in words at once
LONGEST_CHARS = 1 << 20
"""Longer texts are cut, so that memory and time stay bounded; see `Tokenizer.encode_with_ends`."""

LOOK_AHEAD_CHARS = 256  # that a token must see behind it, where a long text is cut inside a word
MAX_MEAN_WORD = 16  # characters; a text of longer words has no spaces between its words

TextTokens = tuple[np.ndarray, np.ndarray]
"""A text's tokens, and the characters that each covers: int32 [tokens] both."""


class Tokenizer(ABC):
    """Text to ids and back, and what the ids are. It is for one thread.

    No text, whatever it holds, is ever read as a special token (law W3).
    """

    kind: str
    """`sentencepiece` or `wordpiece`."""

    pieces: list[str]
    """What each id stands for, as the vocabulary writes it."""

    def __init__(self) -> None:
        self.memo = WordMemo()

    @cached_property
    @abstractmethod
    def hash(self) -> str:
        """SHA-256 over all that decides which ids a text gets."""

    @cached_property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """Size, special ids and the ids of ordinary pieces."""

    @abstractmethod
    def normalize(self, text: str) -> str:
        """The text that tokens and their ends refer to: no space at its ends, none doubled."""

    def normalize_all(self, texts: Sequence[str]) -> list[str]:
        """Each text normalised; a kind may have a faster way for many."""
        return list(map(self.normalize, texts))

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str:
        """The text of ids; special tokens by their names."""

    @cached_property
    @abstractmethod
    def continues(self) -> Bool[np.ndarray, "ids"]:
        """Whether a piece goes on without a space after the piece before it."""

    @cached_property
    @abstractmethod
    def surfaces(self) -> list[str]:
        """The characters that each piece shows, without marks of spaces or of word parts.

        Empty where they are not known: special tokens and single bytes.
        """

    @cached_property
    @abstractmethod
    def scores(self) -> Float64[np.ndarray, "ids"]:
        """A number for each piece, higher for more frequent ones."""

    @abstractmethod
    def _encode_words(self, words: str) -> WordTokens:
        """The tokens of each word in a text where a space stands before it.

        `words` has spaces between them.
        """

    @abstractmethod
    def _encode_stretch(self, text: str, *, opens: bool) -> TextTokens:
        """The tokens of a text, or of a stretch of one that goes on without a space."""

    @cached_property
    @abstractmethod
    def _splits_at_spaces(self) -> bool:
        """Whether a text's tokens may be those of its words, so that these are remembered."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without special tokens; texts are normalised first."""
        encoded = self.encode_with_ends(self.normalize_all(texts))
        return [encoded.tokens[a:b].tolist() for a, b in pairwise(encoded.ptr.tolist())]

    def encode_with_ends(self, texts: Sequence[str]) -> Encoded:
        """Tokens of normalised texts and the character at which each token ends.

        Every character belongs to exactly one token: the last token of a text ends where the text
        does. A text of more than LONGEST_CHARS is encoded in stretches that end before a space, or,
        where there is none, between two tokens.
        """
        made = [self._encode_batch(batch) for batch in _batches(texts)]
        counts = np.concatenate([np.zeros(1, dtype=np.int64), *(part[2] for part in made)])
        tokens = _end_to_end([part[0] for part in made])
        chars = _end_to_end([part[1] for part in made])
        del made
        total = sum(map(len, texts))
        fits = total < 1 << 31
        char_end = np.cumsum(chars, out=chars) if fits else np.cumsum(chars, dtype=np.int64)
        assert not len(tokens) or char_end[-1] == total, "tokens do not cover their text"
        return Encoded(tokens, char_end, np.cumsum(counts))

    def _encode_batch(
        self, texts: list[str]
    ) -> tuple[Int32[np.ndarray, "total"], Int32[np.ndarray, "total"], Int64[np.ndarray, "texts"]]:
        """Tokens, characters a token, and tokens a text."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        spaces = np.array([text.count(" ") for text in texts], dtype=np.int64)
        by_words = self._splits_at_spaces & has_words(lengths, spaces) & (lengths <= LONGEST_CHARS)
        others = np.flatnonzero(~by_words).tolist()
        whole = {number: self._encode_whole(texts[number]) for number in others}
        if len(whole) == len(texts):
            return _splice(texts, whole)
        in_words = ["" if number in whole else text for number, text in enumerate(texts)]
        numbers = self.memo.number(" ".join(in_words), self._encode_words)
        found = self.memo.find(numbers)
        num_words = spaces + 1
        num_words[list(whole)] = 1
        first_words = np.cumsum(num_words) - num_words
        weight = np.add.reduceat(found.weight, first_words)
        reach = np.minimum.reduceat(found.reach, first_words)
        counts = np.add.reduceat(found.counts, first_words, dtype=np.int64)
        starts = np.cumsum(counts) - counts
        found.chars[starts[counts > 0]] -= 1  # no space stands before the first word
        for number in np.flatnonzero(weight > reach).tolist():
            whole[number] = self._encode_whole(texts[number])
        if not whole:
            return found.tokens, found.chars, counts
        return _splice(texts, whole, found.tokens, found.chars, counts)

    def _encode_whole(self, text: str) -> TextTokens:
        """The tokens of a text of any length."""
        if len(text) <= LONGEST_CHARS:
            return self._encode_stretch(text, opens=True)
        tokens, chars = np.empty(0, np.int32), np.empty(0, np.int32)
        for some_tokens, some_chars in self._encode_stretches(text):
            start, stop = len(tokens), len(tokens) + len(some_tokens)
            for array, some in ((tokens, some_tokens), (chars, some_chars)):
                array.resize(stop, refcheck=False)  # in its place: it may be large
                array[start:] = some
        return tokens, chars

    def _encode_stretches(self, text: str) -> Iterator[TextTokens]:
        """The tokens of a long text, stretch after stretch."""
        start = 0
        while start < len(text):
            stop = start + LONGEST_CHARS
            space = text.rfind(" ", start + 1, stop + 1) if stop < len(text) else len(text)
            opens = start == 0 or text[start] == " "
            begin = start + (opens and start > 0)
            stretch = text[begin : space if space > 0 else stop]
            tokens, chars = self._encode_stretch(stretch, opens=opens)
            if begin > start and len(chars):
                chars[0] += 1
            if space < 0:
                kept = _settled(chars)
                tokens, chars = tokens[:kept], chars[:kept]
            yield tokens, chars
            assert len(chars), "an empty stretch: the text is not normalised"
            start += int(chars.sum())

    def word_starts(
        self, tokens: Int32[np.ndarray, "total"], ptr: Int64[np.ndarray, "texts_plus_1"]
    ) -> Bool[np.ndarray, "total"]:
        """Whether each token starts a word.

        A word starts after a space, where letters or digits meet anything else, and at every piece
        of a script without spaces.
        """
        glued = np.zeros(len(tokens), dtype=np.bool_)
        opens, closes = self._word_edges
        glued[1:] = closes[tokens[:-1]] & opens[tokens[1:]]
        starts = ~glued
        starts[ptr[:-1][np.diff(ptr) > 0]] = True
        return starts

    @cached_property
    def _word_edges(self) -> tuple[Bool[np.ndarray, "ids"], Bool[np.ndarray, "ids"]]:
        """(can continue a word, can be continued) a piece.

        Pieces that stand for characters not known here do both, where they may continue at all:
        they are kept with their neighbours.
        """
        opens = np.array([not text or in_word(text[0]) for text in self.surfaces])
        closes = np.array([not text or in_word(text[-1]) for text in self.surfaces])
        return opens & self.continues, closes

    @cached_property
    def is_word(self) -> Bool[np.ndarray, "ids"]:
        """Whether a piece can be a whole word of two letters or more."""
        surfaces = zip(self.surfaces, self.continues.tolist(), strict=True)
        return np.array([len(s) > 1 and s.isalpha() and not inner for s, inner in surfaces])


def has_words(num_chars: Any, num_spaces: Any) -> Any:
    """Whether a text of so many characters, or each of an array, has spaces between its words."""
    return num_chars <= MAX_MEAN_WORD * (num_spaces + 1)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts in runs of about BATCH_CHARS characters."""
    batch: list[str] = []
    chars = 0
    for text in texts:
        batch.append(text)
        chars += len(text)
        if chars >= BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def _splice(
    texts: list[str],
    whole: dict[int, TextTokens],
    tokens: Int32[np.ndarray, "total"] | None = None,
    chars: Int32[np.ndarray, "total"] | None = None,
    counts: Int64[np.ndarray, "texts"] | None = None,
) -> tuple[Int32[np.ndarray, "all"], Int32[np.ndarray, "all"], Int64[np.ndarray, "texts"]]:
    """The tokens of all texts, those of `whole` in the place of what was found for them."""
    if tokens is None or chars is None or counts is None:
        tokens = chars = np.zeros(0, dtype=np.int32)
        counts = np.zeros(len(texts), dtype=np.int64)
    stops = np.cumsum(counts)
    runs: list[TextTokens] = []
    begin = 0
    for number in sorted(whole):
        stop = int(stops[number] - counts[number])
        runs += [(tokens[begin:stop], chars[begin:stop]), whole[number]]
        begin = int(stops[number])
        counts[number] = len(whole[number][0])
    runs.append((tokens[begin:], chars[begin:]))
    all_tokens, all_chars = zip(*runs, strict=True)
    return _end_to_end(all_tokens), _end_to_end(all_chars), counts


def _end_to_end(parts: Sequence[Int32[np.ndarray, "_"]]) -> Int32[np.ndarray, "total"]:
    """The parts joined; a part that is all of it is not copied."""
    some = [part for part in parts if len(part)]
    return some[0] if len(some) == 1 else np.concatenate([np.zeros(0, np.int32), *some])


def _settled(chars: Int32[np.ndarray, "total"]) -> int:
    """How many tokens of a stretch that was cut inside a word are kept.

    Those near the cut might be others if the text behind it were seen; they are encoded again.
    """
    ends = np.cumsum(chars)
    behind = int(np.searchsorted(ends, ends[-1] - LOOK_AHEAD_CHARS, "right"))
    if not behind:
        return 1
    # The bytes of a character are tokens of no characters but for the last: they stay together.
    return int(np.searchsorted(ends, ends[behind - 1], "left")) + 1
