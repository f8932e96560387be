"""The best way to cut each word by a unigram model, and by how much it leads: many words at once.

A word's ways are paths from its first place to its last, one edge a piece that stands there. The
best sum and the second best of the paths to a place follow from those of the places before it, for
all words of a batch in one go: words stand side by side, the longest first, so that those that have
a place p at all are the first ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int32, Int64

from mlmdist.tokenizer.piece_trie import NO_LETTER, NO_TOKEN, NOWHERE, ROOT, PieceTrie

PLACES_AT_ONCE = 1 << 15  # characters of words, so that their sums stay in the processor's cache
SPARSE = 0.25  # of the places: where fewer begin a longer piece, they are looked at by themselves


@dataclass(frozen=True)
class Ways:
    """The best way to cut each word; word i has `counts[i]` tokens."""

    tokens: Int32[np.ndarray, "total"]
    counts: Int64[np.ndarray, "words"]
    gap: Float64[np.ndarray, "words"]
    """How much higher its sum of scores is than the second way's; infinite if there is none."""


class Lattice:
    """The pieces of a unigram model and their scores, ready for words."""

    def __init__(self, trie: PieceTrie, scores: Float64[np.ndarray, "ids"], unknown: int) -> None:
        """A character that is no piece is one edge of the token `unknown`, which has a score."""
        self.trie, self.unknown, self.unknown_score = trie, unknown, float(scores[unknown])
        some = trie.token != NO_TOKEN
        self.score = np.full(len(trie.token), -np.inf)  # of each node's piece
        self.score[some] = scores[trie.token[some]]

    def best_ways(self, words: Sequence[str]) -> Ways:
        """The words' best ways; an empty word has no tokens and no second way.

        Raises UnicodeError for a lone surrogate.
        """
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        order = np.argsort(-lengths, kind="stable")
        made: list[Ways] = []
        first = 0
        while first < len(words) or not made:
            longest = int(lengths[order[first : first + 1]].max(initial=1))
            chosen = order[first : first + 1 + PLACES_AT_ONCE // longest]
            numbers: list[int] = chosen.tolist()
            made.append(_Batch(self, [words[number] for number in numbers]).ways())
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

    def __init__(self, lattice: Lattice, words: Sequence[str]) -> None:
        self.lattice = lattice
        self.lengths = np.fromiter(map(len, words), np.int64, len(words))
        self.width, self.height = len(words), int(self.lengths.max(initial=0))
        self.letters = self._side_by_side(words)
        self.nodes: list[np.ndarray] = []
        """Where the characters from each place on lead, one of them, two, ... [places]"""

        self.scores: list[np.ndarray] = []
        """Of the pieces there; minus infinity for none. [height width]"""

        self._find()

    def _side_by_side(self, words: Sequence[str]) -> Int32[np.ndarray, "places"]:
        """The letter at each place, and NO_LETTER behind the words' ends."""
        trie = self.lattice.trie
        codes = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32)
        rows = self.height + min(self.height, trie.depth) + 1
        made = np.full(rows * self.width, NO_LETTER, dtype=np.int32)
        word = np.repeat(np.arange(self.width), self.lengths)
        inside = np.arange(len(codes)) - (np.cumsum(self.lengths) - self.lengths)[word]
        made[inside * self.width + word] = trie.letter_of[codes]
        return made

    def _find(self) -> None:
        """Find all pieces at all places."""
        trie = self.lattice.trie
        num_places = self.height * self.width
        node = np.full(num_places, ROOT, dtype=np.int32)
        num_alive = num_places
        while not self.nodes or num_alive > SPARSE * num_places:
            first = len(self.nodes) * self.width
            node = trie.step(node, self.letters[first : first + num_places])
            self._keep(node, self.lattice.score[node])
            num_alive = np.count_nonzero(node != NOWHERE)
        start = np.flatnonzero(node != NOWHERE)
        node = node[start]
        while len(start):
            node = trie.step(node, self.letters[start + len(self.nodes) * self.width])
            alive = node != NOWHERE
            start, node = start[alive], node[alive]
            nodes = np.full(num_places, NOWHERE, dtype=np.int32)
            nodes[start] = node
            scores = np.full(num_places, -np.inf)
            scores[start] = self.lattice.score[node]
            self._keep(nodes, scores)
        single = self.scores[0]
        single[single == -np.inf] = self.lattice.unknown_score

    def _keep(self, nodes: Int32[np.ndarray, "places"], scores: np.ndarray) -> None:
        self.nodes.append(nodes)
        self.scores.append(scores.reshape(self.height, self.width))

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
        present = np.searchsorted(-self.lengths, -np.arange(self.height + 1), "right").tolist()
        begins = [np.any(scores > -np.inf, axis=1).tolist() for scores in self.scores]
        for place in range(1, self.height + 1):
            words = slice(present[place])
            here, next_best, last = best[place, words], second[place, words], size_of[place, words]
            for size, scores in enumerate(self.scores[:place], start=1):
                before = place - size
                if not begins[size - 1][before]:
                    continue
                edge = scores[before, words]
                reached = best[before, words] + edge
                np.copyto(last, size, where=reached > here)
                other = second[before, words] + edge
                np.maximum(next_best, other, out=next_best)
                np.minimum(here, reached, out=other)
                np.maximum(next_best, other, out=next_best)
                np.maximum(here, reached, out=here)
        return best.ravel(), second.ravel(), size_of.ravel()

    def _trace(
        self, size_of: np.ndarray, ends: Int64[np.ndarray, "words"]
    ) -> tuple[Int32[np.ndarray, "total"], Int64[np.ndarray, "words"]]:
        """The tokens of the best paths, and how many a word has."""
        counts = np.zeros(self.width, dtype=np.int64)
        word = np.flatnonzero(self.lengths)
        nodes = np.array(self.nodes)
        at = ends[word]
        steps: list[tuple[np.ndarray, np.ndarray]] = []
        while len(at):
            size = size_of[at].astype(np.int64)
            at = at - size * self.width
            steps.append((word, nodes[size - 1, at]))
            counts[word] += 1
            on = at >= self.width
            word, at = word[on], at[on]
        tokens = np.empty(int(counts.sum()), dtype=np.int32)
        stops = np.cumsum(counts)
        for number, (word, node) in enumerate(steps):
            tokens[stops[word] - 1 - number] = self.lattice.trie.token[node]
        tokens[tokens == NO_TOKEN] = self.lattice.unknown
        return tokens, counts
