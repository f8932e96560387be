"""The best way to cut each word by a unigram model, and by how much it leads: many words at once.

A word's ways are paths from its first place to its last, one edge a piece that stands there. The
best sum and the second best of the paths to a place follow from those of the places before it, for
all words of a batch in one go: words stand side by side, the longest first, so that those that have
a place p at all are the first ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int32, Int64

CODE_BITS = 21  # of a Unicode code point
NO_CODE = (1 << CODE_BITS) - 1  # no code point
NOWHERE = -1
PLACES_AT_ONCE = 1 << 15  # characters of words, so that their sums stay in the processor's cache
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio (Knuth, TAOCP 3, 6.4)


@dataclass(frozen=True)
class Ways:
    """The best way to cut each word; word i has `counts[i]` tokens."""

    tokens: Int32[np.ndarray, "total"]
    counts: Int64[np.ndarray, "words"]
    gap: Float64[np.ndarray, "words"]
    """How much higher its sum of scores is than the second way's; infinite if there is none."""


class PieceTrie:
    """The pieces of a vocabulary by their characters, for many places of a text at once."""

    def __init__(self, pieces: Mapping[str, int]) -> None:
        """`pieces` gives each piece's token; none is empty."""
        children: dict[tuple[int, str], int] = {}
        ends: dict[int, int] = {}
        for piece, token in pieces.items():
            node = 0
            for character in piece:
                node = children.setdefault((node, character), len(children) + 1)
            ends[node] = token
        self.depth = max(map(len, pieces), default=0)
        keys = [node << CODE_BITS | ord(character) for node, character in children]
        self.token = np.full(len(children) + 2, NOWHERE, dtype=np.int32)
        # The last one is where NOWHERE leads.
        self.token[list(ends)] = list(ends.values())
        self._fill(np.array(keys, dtype=np.int64), np.arange(1, len(keys) + 1))

    def _fill(self, keys: Int64[np.ndarray, "keys"], nodes: Int64[np.ndarray, "keys"]) -> None:
        """Put the keys in a table of open addresses, a quarter full at most."""
        bits = max(4, (4 * len(keys)).bit_length())
        self.shift, self.last = np.uint64(64 - bits), (1 << bits) - 1
        self.keys = np.full(1 << bits, NOWHERE, dtype=np.int64)
        self.nodes = np.full(1 << bits, NOWHERE, dtype=np.int64)
        slot = self._slot(keys)
        while len(keys):
            free = self.keys[slot] == NOWHERE
            self.keys[slot[free]] = keys[free]  # of several keys for one slot the last has it
            placed = self.keys[slot] == keys
            self.nodes[slot[placed]] = nodes[placed]
            keys, nodes, slot = keys[~placed], nodes[~placed], (slot[~placed] + 1) & self.last

    def _slot(self, keys: Int64[np.ndarray, "keys"]) -> Int64[np.ndarray, "keys"]:
        return (keys.astype(np.uint64) * _MULTIPLIER >> self.shift).astype(np.int64)

    def step(
        self, nodes: Int64[np.ndarray, "places"], codes: Int64[np.ndarray, "places"]
    ) -> Int64[np.ndarray, "places"]:
        """The nodes that the characters lead to; NOWHERE where no piece goes on so."""
        keys = nodes << CODE_BITS | codes
        slot = self._slot(keys)
        reached, there = self.nodes[slot], self.keys[slot]
        other = np.flatnonzero((there != keys) & (there != NOWHERE))
        while len(other):
            slot[other] = (slot[other] + 1) & self.last
            there = self.keys[slot[other]]
            reached[other] = np.where(there == keys[other], self.nodes[slot[other]], NOWHERE)
            other = other[(there != keys[other]) & (there != NOWHERE)]
        return reached


def best_ways(
    trie: PieceTrie, scores: Float64[np.ndarray, "ids"], unknown: int, words: Sequence[str]
) -> Ways:
    """The words' best ways; an empty word has no tokens and no second way.

    A character that is no piece is one edge of the token `unknown`, which has a score too. Raises
    UnicodeError for a lone surrogate.
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    order = np.argsort(-lengths, kind="stable")
    made: list[Ways] = []
    first = 0
    while first < len(words) or not made:
        longest = int(lengths[order[first : first + 1]].max(initial=1))
        chosen = order[first : first + 1 + PLACES_AT_ONCE // longest]
        numbers: list[int] = chosen.tolist()
        batch = _Batch(trie, scores, unknown, [words[number] for number in numbers])
        made.append(batch.ways())
        first += len(chosen)
    return _in_order(order, made)


def _in_order(order: Int64[np.ndarray, "words"], made: Sequence[Ways]) -> Ways:
    """The ways of words that were made in another order: that of number `order[i]` as the i-th."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    sizes = np.concatenate([ways.counts for ways in made])
    first, counts = (np.cumsum(sizes) - sizes)[back], sizes[back]
    places = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return Ways(
        np.concatenate([ways.tokens for ways in made])[places],
        counts,
        np.concatenate([ways.gap for ways in made])[back],
    )


class _Batch:
    """Words side by side, the longest first.

    Place p of word w is number p * words + w; p counts characters.
    """

    def __init__(
        self,
        trie: PieceTrie,
        scores: Float64[np.ndarray, "ids"],
        unknown: int,
        words: Sequence[str],
    ) -> None:
        self.trie, self.unknown = trie, unknown
        self.lengths = np.fromiter(map(len, words), np.int64, len(words))
        self.width, self.height = len(words), int(self.lengths.max(initial=0))
        self.codes = self._side_by_side(words)
        self.token: list[np.ndarray] = []
        """Of the piece of each size, from 1 on, at each place; NOWHERE for none. [places]"""

        self.score: list[np.ndarray] = []
        self._find(scores)

    def _side_by_side(self, words: Sequence[str]) -> Int64[np.ndarray, "places"]:
        """The code point at each place, and NO_CODE behind the words' ends."""
        codes = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32)
        made = np.full((self.height + self.trie.depth + 1) * self.width, NO_CODE, dtype=np.int64)
        word = np.repeat(np.arange(self.width), self.lengths)
        inside = np.arange(len(codes)) - (np.cumsum(self.lengths) - self.lengths)[word]
        made[inside * self.width + word] = codes
        return made

    def _find(self, scores: Float64[np.ndarray, "ids"]) -> None:
        """Find all pieces at all places."""
        places = self.height * self.width
        start = np.flatnonzero(self.codes[:places] != NO_CODE)
        node = np.zeros(len(start), dtype=np.int64)
        while len(start):
            size = len(self.token)
            node = self.trie.step(node, self.codes[start + size * self.width])
            token = self.trie.token[node]
            if size == 0:
                token[token == NOWHERE] = self.unknown
            there = token != NOWHERE
            self.token.append(np.full(places, NOWHERE, dtype=np.int32))
            self.token[size][start[there]] = token[there]
            score = np.full(places, -np.inf)
            score[start[there]] = scores[token[there]]
            self.score.append(score.reshape(self.height, self.width))
            alive = node != NOWHERE
            start, node = start[alive], node[alive]

    def ways(self) -> Ways:
        """The best ways, in the order of the words."""
        best, second, size = self._sums()
        ends = self.lengths * self.width + np.arange(self.width)
        tokens, counts = self._trace(size, ends)
        return Ways(tokens, counts, best[ends] - second[ends])

    def _sums(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The best and the second sum of the paths to each place, and the best's last size."""
        shape = self.height + 1, self.width
        best, second = np.full(shape, -np.inf), np.full(shape, -np.inf)
        size_of = np.zeros(shape, dtype=np.int16)
        best[0] = 0
        for place in range(1, self.height + 1):
            present = int(np.searchsorted(-self.lengths, -place, "right"))
            here, next_best = best[place, :present], second[place, :present]
            for size in range(1, min(place, len(self.score)) + 1):
                edge = self.score[size - 1][place - size, :present]
                reached = best[place - size, :present] + edge
                size_of[place, :present][reached > here] = size
                np.maximum(next_best, np.minimum(here, reached), out=next_best)
                np.maximum(here, reached, out=here)
                np.maximum(next_best, second[place - size, :present] + edge, out=next_best)
        return best.ravel(), second.ravel(), size_of.ravel()

    def _trace(
        self, size_of: np.ndarray, ends: Int64[np.ndarray, "words"]
    ) -> tuple[Int32[np.ndarray, "total"], Int64[np.ndarray, "words"]]:
        """The tokens of the best paths, and how many a word has."""
        counts = np.zeros(self.width, dtype=np.int64)
        word = np.flatnonzero(self.lengths)
        token = np.array(self.token)
        at = ends[word]
        steps: list[tuple[np.ndarray, np.ndarray]] = []
        while len(at):
            size = size_of[at].astype(np.int64)
            at = at - size * self.width
            steps.append((word, token[size - 1, at]))
            counts[word] += 1
            on = at >= self.width
            word, at = word[on], at[on]
        tokens = np.empty(int(counts.sum()), dtype=np.int32)
        stops = np.cumsum(counts)
        for number, (word, token) in enumerate(steps):
            tokens[stops[word] - 1 - number] = token
        return tokens, counts
