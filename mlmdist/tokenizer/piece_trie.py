"""The pieces of a vocabulary by their characters, for many places of a text at once.

The trie is a double array (Aoe 1989, "An efficient digital search algorithm by using a double-array
structure", IEEE Transactions on Software Engineering 15): a node is a slot, and the child of node n
by letter c is slot base[n] + c, if that slot's parent is n. So a step is two look-ups in arrays
that the processor's cache holds, whatever the vocabulary.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Int32, Int64

ROOT, NOWHERE = 0, 1  # nodes; nothing leads away from NOWHERE
NOBODY = -1  # the parent of slots that are no node
NO_LETTER = 0  # of a character that no piece holds
NO_TOKEN = -1
NUM_CODE_POINTS = 0x110000
_MULTIPLIER = 0x9E3779B97F4A7C15  # 2**64 / golden ratio (Knuth, TAOCP 3, 6.4)
_BITS_A_PAIR = 16  # of the table of pairs: one in so many other pairs is taken for one


class PieceTrie:
    """Steps from piece to longer piece, many at once."""

    base: Int32[np.ndarray, "nodes"]
    parent: Int32[np.ndarray, "nodes"]
    token: Int32[np.ndarray, "nodes"]
    """Of the piece that ends at each node; NO_TOKEN for none."""

    def __init__(self, pieces: Mapping[str, int]) -> None:
        """`pieces` gives each piece's token; none is empty."""
        self.lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        codes = np.frombuffer("".join(pieces).encode("utf-32-le"), dtype=np.uint32)
        alphabet, letters = np.unique(codes, return_inverse=True)
        letters += 1
        self.depth, self.num_letters = int(self.lengths.max(initial=0)), len(alphabet) + 1
        self.letter_of = np.full(NUM_CODE_POINTS, NO_LETTER, dtype=np.int32)
        self.letter_of[alphabet] = np.arange(1, self.num_letters)
        last, children = self._grow(letters)
        self._lay(*children)
        self.token = np.full(len(self.parent), NO_TOKEN, dtype=np.int32)
        self.token[self.slot[last]] = list(pieces.values())
        self._note_pairs(letters)

    def _grow(
        self, letters: Int64[np.ndarray, "total"]
    ) -> tuple[Int64[np.ndarray, "pieces"], tuple[np.ndarray, np.ndarray]]:
        """Number the nodes, all of a depth after those above: the root is 0.

        Returns the node at which each piece ends, and the parent and letter of nodes 1, 2, ...:
        parents ascend.
        """
        node = np.zeros(len(self.lengths), dtype=np.int64)
        first = np.cumsum(self.lengths) - self.lengths
        parents, by = [node[:0]], [node[:0]]
        num_nodes = 1
        for depth in range(self.depth):
            on = np.flatnonzero(self.lengths > depth)
            keys = node[on] * self.num_letters + letters[first[on] + depth]
            distinct, which = np.unique(keys, return_inverse=True)
            node[on] = num_nodes + which
            num_nodes += len(distinct)
            parents.append(distinct // self.num_letters)
            by.append(distinct % self.num_letters)
        return node, (np.concatenate(parents), np.concatenate(by))

    def _lay(self, parents: Int64[np.ndarray, "n"], letters: Int64[np.ndarray, "n"]) -> None:
        """Find a base for every node so that no two children share a slot."""
        num_nodes = len(parents) + 1
        span = 2 * num_nodes
        taken = bytearray(1 + span + self.num_letters)
        base = np.zeros(num_nodes, dtype=np.int64)
        nodes, first, counts = np.unique(parents, return_index=True, return_counts=True)
        several = np.flatnonzero(counts > 1)
        for place in several[np.argsort(-counts[several], kind="stable")].tolist():
            family = letters[first[place] : first[place] + counts[place]].tolist()
            at = place * _MULTIPLIER % span  # anywhere: in a dense stretch many would be tried
            while any(taken[1 + at + letter] for letter in family):
                at = (at + 1) % span
            for letter in family:
                taken[1 + at + letter] = True
            base[nodes[place]] = 1 + at
        single = np.flatnonzero(counts == 1)
        free = np.flatnonzero(np.frombuffer(taken, np.bool_)[self.num_letters :] == 0)
        base[nodes[single]] = self.num_letters + free[: len(single)] - letters[first[single]]
        self.slot = np.append(ROOT, base[parents] + letters)
        self.base = np.zeros(len(taken), dtype=np.int32)
        self.base[self.slot] = base
        self.parent = np.full(len(taken), NOBODY, dtype=np.int32)
        self.parent[self.slot[1:]] = self.slot[parents]

    def _note_pairs(self, letters: Int64[np.ndarray, "total"]) -> None:
        """Remember which letters stand side by side in a piece."""
        inner = np.ones(len(letters), dtype=np.bool_)
        inner[np.cumsum(self.lengths) - 1] = False
        pairs = np.unique(self._pair(letters)[inner[:-1]])
        bits = max(4, (_BITS_A_PAIR * len(pairs)).bit_length())
        self.shift = np.uint64(64 - bits)
        self.pairs = np.zeros(1 << bits, dtype=np.bool_)
        self.pairs[self._pair_slot(pairs)] = True

    def _pair(self, letters: np.ndarray) -> Int64[np.ndarray, "pairs"]:
        return letters[:-1].astype(np.int64) * self.num_letters + letters[1:]

    def _pair_slot(self, pairs: Int64[np.ndarray, "pairs"]) -> Int64[np.ndarray, "pairs"]:
        return (pairs.view(np.uint64) * np.uint64(_MULTIPLIER) >> self.shift).view(np.int64)

    def may_join(self, letters: Int32[np.ndarray, "places"]) -> Bool[np.ndarray, "places_less_1"]:
        """Whether a piece may hold a letter and the next one side by side.

        A few pairs that no piece holds are taken for one that does; never the other way round.
        """
        return self.pairs[self._pair_slot(self._pair(letters))]

    def step(
        self, nodes: Int32[np.ndarray, "places"], letters: Int32[np.ndarray, "places"]
    ) -> Int32[np.ndarray, "places"]:
        """The nodes that the letters lead to; NOWHERE where no piece goes on so."""
        reached = self.base[nodes]
        reached += letters
        reached[self.parent[reached] != nodes] = NOWHERE
        return reached
