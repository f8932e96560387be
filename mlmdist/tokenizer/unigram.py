"""The words of a unigram model by themselves, and in which texts they are cut so.

A text's best way is the words' best ways end to end, for no piece holds a space anywhere but at its
front; but SentencePiece adds up from the text's start in 32 bits, so a word with two ways of nearly
the same sum may be cut otherwise after a long text than alone. With u = 2**-24, n additions in the
word and every sum below M, the sum of a way is off by at most n u M, and rounding keeps the order
of sums, so that the way chosen is one of the highest rounded sum. So a word is safe in texts of
total score up to S while the gap between its two best ways is over 2 n u (S + n max|score|); twice
that is asked here, and four times of the part that does not grow with the text, for the sums of the
two best ways are rounded too.

A word is cut in units: between two letters that no piece holds side by side every way has a cut,
so a word's ways are those of its units end to end, its best is their best ones, and the gap between
its two best is the smallest of theirs. Units come again far oftener than words, so they are
remembered.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, Integer, UInt32

from mlmdist.tokenizer.lattice import Lattice
from mlmdist.tokenizer.memo import ALONE, MAX_WORD_CHARS, Found, WordMemo, WordTokens
from mlmdist.tokenizer.piece_trie import PieceTrie
from mlmdist.tokenizer.text import SPACE

ROUNDING = 2.0**-24  # of one addition in 32 bits, relative
MAX_UNITS = 1 << 18  # remembered, of at most about 200 bytes each: 50 MB
UNKNOWN_PENALTY = 10.0  # SentencePiece's, for an unknown character, below the worst piece

_Cut = tuple[Int32[np.ndarray, "found"], Int32[np.ndarray, "found"], Int64[np.ndarray, "words"]]
_Spelled = tuple[
    Int32[np.ndarray, "total"], Integer[np.ndarray, "total"], Int64[np.ndarray, "words"]
]
"""Tokens, characters a token, tokens a word: before and after unknown characters are spelled."""


class UnigramWords:
    """The pieces of a unigram model, ready to cut many words at once."""

    def __init__(
        self,
        pieces: Sequence[str],
        scores: Float64[np.ndarray, "ids"],
        ordinary: Bool[np.ndarray, "ids"],
        unknown: int,
        bytes_: Int32[np.ndarray, "256"] | None,
    ) -> None:
        """`ordinary` are the pieces that text is cut into.

        A character that is none is the token `unknown`, or its bytes, whose tokens are `bytes_`.
        """
        self.unknown, self.bytes = unknown, bytes_
        tokens = np.flatnonzero(ordinary).tolist()
        self.trie = PieceTrie({pieces[token]: token for token in tokens})
        lowest = np.float32(scores[ordinary].min(initial=0)) - np.float32(UNKNOWN_PENALTY)
        self.scores = np.where(ordinary, scores, float(lowest))
        self.lattice = Lattice(self.trie, self.scores, unknown)
        self.chars = np.array([len(piece) for piece in pieces], dtype=np.int64)
        self.chars[unknown] = 1
        self.starts_word = np.array([piece.startswith(SPACE) for piece in pieces])
        self.units = WordMemo(MAX_UNITS)

    def encode(self, words: str) -> WordTokens:
        """The tokens of each word in a text where a space stands before it.

        `words` has spaces between them; an empty or a long one has no tokens. Raises UnicodeError
        for a lone surrogate.
        """
        codes = np.frombuffer(f" {words}".encode("utf-32-le"), dtype=np.uint32)
        first = np.flatnonzero(codes == ord(" "))
        lengths = np.diff(first, append=len(codes))  # of the words, the space in front counted
        kept = (lengths > 1) & (lengths <= MAX_WORD_CHARS + 1)
        some = np.flatnonzero(kept)
        counts = np.zeros(len(lengths), dtype=np.int64)
        weight, reach = np.zeros(len(lengths)), np.full(len(lengths), ALONE)
        if not len(some):
            none = np.zeros(0, dtype=np.int32)
            return WordTokens(none, none.astype(np.uint8), counts, weight, reach)
        codes, lengths = codes[np.repeat(kept, lengths)], lengths[some]
        codes[codes == ord(" ")] = ord(SPACE)
        found, first_unit = self._in_units(codes, np.cumsum(lengths) - lengths)
        counts[some] = np.add.reduceat(found.counts, first_unit, dtype=np.int64)
        weight[some] = np.add.reduceat(found.weight, first_unit)
        reach[some] = self._reach(lengths, np.minimum.reduceat(found.reach, first_unit))
        first_token = found.tokens[(np.cumsum(counts) - counts)[some]]
        reach[some[~self.starts_word[first_token]]] = ALONE
        spell = self._join_unknown if self.bytes is None else self._spell_unknown
        tokens, chars, counts = spell((found.tokens, found.chars, counts), codes)
        return WordTokens(tokens, chars.astype(np.uint8), counts, weight, reach)

    def _in_units(
        self, codes: UInt32[np.ndarray, "chars"], word_starts: Int64[np.ndarray, "words"]
    ) -> tuple[Found, Int64[np.ndarray, "words"]]:
        """The tokens of the words' units and each word's first unit; gaps stand for reaches."""
        starts = np.append(True, ~self.trie.may_join(self.trie.letter_of[codes]))
        starts[word_starts] = True
        unit = np.cumsum(starts) - 1
        spaced = np.full(len(codes) + unit[-1], ord(" "), dtype=np.uint32)
        spaced[np.arange(len(codes)) + unit] = codes
        numbers = self.units.number(spaced.tobytes().decode("utf-32-le"), self._cut)
        return self.units.find(numbers), unit[word_starts]

    def _cut(self, units: str) -> WordTokens:
        """The best way of each unit; gaps stand for reaches."""
        ways = self.lattice.best_ways(units.split(" "))
        unit = np.repeat(np.arange(len(ways.counts)), ways.counts)
        weight = np.bincount(unit, np.abs(self.scores[ways.tokens]), minlength=len(ways.counts))
        chars = self.chars[ways.tokens].astype(np.uint8)
        return WordTokens(ways.tokens, chars, ways.counts, weight.astype(np.float64), ways.gap)

    def _reach(
        self, additions: Int64[np.ndarray, "words"], gap: Float64[np.ndarray, "words"]
    ) -> Float64[np.ndarray, "words"]:
        """The heaviest text in which rounding cannot bring the second way in front of the best.

        `additions` are a way's at most: a word's characters and the space in front.
        """
        return gap / (4 * additions * ROUNDING) - 4 * additions * np.abs(self.scores).max()

    def _join_unknown(self, made: _Cut, _: UInt32[np.ndarray, "chars"]) -> _Spelled:
        """Unknown characters side by side are one token."""
        tokens, chars, counts = made
        again = np.zeros(len(tokens) + 1, dtype=np.bool_)
        unknown = tokens == self.unknown
        again[1:-1] = unknown[1:] & unknown[:-1]
        starts = np.cumsum(counts) - counts
        again[starts] = False
        kept = np.flatnonzero(~again[:-1])
        if len(kept) == len(tokens):
            return made
        word_of = np.repeat(np.arange(len(counts)), counts)[kept]
        return (
            tokens[kept],
            np.add.reduceat(chars, kept),
            np.bincount(word_of, minlength=len(counts)),
        )

    def _spell_unknown(self, made: _Cut, codes: UInt32[np.ndarray, "chars"]) -> _Spelled:
        """Unknown characters in their bytes, of which the last one covers the character."""
        tokens, chars, counts = made
        unknown = np.flatnonzero(tokens == self.unknown)
        if not len(unknown):
            return made
        places = (np.cumsum(chars) - chars)[unknown]
        spelled = [chr(code).encode() for code in codes[places].tolist()]
        sizes = np.ones(len(tokens), dtype=np.int64)
        sizes[unknown] = [len(each) for each in spelled]
        last = np.cumsum(sizes) - 1
        all_tokens = np.repeat(tokens, sizes)
        covered = np.zeros(len(all_tokens), dtype=np.int64)
        covered[last] = chars
        assert self.bytes is not None
        values = np.frombuffer(b"".join(spelled), dtype=np.uint8)
        all_tokens[np.repeat(tokens == self.unknown, sizes)] = self.bytes[values]
        word_of = np.repeat(np.arange(len(counts)), counts)
        counts = np.bincount(word_of, sizes, minlength=len(counts)).astype(np.int64)
        return all_tokens, covered, counts
