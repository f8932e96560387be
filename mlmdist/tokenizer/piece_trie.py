"""The pieces of a vocabulary by their characters, for many places of a text at once.

The trie is a double array (Aoe 1989, "An efficient digital search algorithm by using a double-array
structure", IEEE Transactions on Software Engineering 15): a node is a slot, and the child of node n
by letter c is slot base[n] + c, if that slot's parent is n. So a step is two look-ups in arrays
that the processor's cache holds for a vocabulary of the usual size: 16 bytes a node or a few more.
"""

from collections.abc import Mapping
from itertools import count

import numpy as np
from jaxtyping import Bool, Int32, Int64

ROOT, NOWHERE = 0, 1  # nodes; nothing leads away from NOWHERE
NOBODY = -1  # the parent of slots that are no node
NO_LETTER = 0  # of a character that no piece holds
NO_TOKEN = -1
NUM_CODE_POINTS = 0x110000
_MULTIPLIER = 0x9E3779B97F4A7C15  # 2**64 / golden ratio (Knuth, TAOCP 3, 6.4)
_BITS_A_PAIR = 16  # of the table of pairs: at most one in so many others is taken for a pair
_MOST_TRIES = 100  # to find a place in a table; then the table grows


class PieceTrie:
    """Steps from piece to longer piece, many at once."""

    letter_of: Int32[np.ndarray, "codes"]
    """The letter of each code point; NO_LETTER for those that no piece holds."""

    depth: int
    """Letters of the longest piece."""

    token: Int32[np.ndarray, "nodes"]
    """Of the piece that ends at each node; NO_TOKEN for none."""

    def __init__(self, pieces: Mapping[str, int]) -> None:
        """`pieces` gives each piece's token; none is empty."""
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        codes = np.frombuffer("".join(pieces).encode("utf-32-le"), dtype=np.uint32)
        alphabet, letters = np.unique(codes, return_inverse=True)
        letters += 1
        self.depth, self._num_letters = int(lengths.max(initial=0)), len(alphabet) + 1
        self.letter_of = np.full(NUM_CODE_POINTS, NO_LETTER, dtype=np.int32)
        self.letter_of[alphabet] = np.arange(1, self._num_letters)
        last, parents, by = self._grow(letters, lengths)
        slots = self._lay(parents, by)
        self.token = np.full(len(self._parent), NO_TOKEN, dtype=np.int32)
        self.token[slots[last]] = list(pieces.values())
        self._note_pairs(letters, lengths)

    def _grow(
        self, letters: Int64[np.ndarray, "total"], lengths: Int64[np.ndarray, "pieces"]
    ) -> tuple[
        Int64[np.ndarray, "pieces"], Int64[np.ndarray, "children"], Int64[np.ndarray, "children"]
    ]:
        """Number the nodes, all of a depth after those above: the root is 0.

        Returns the node at which each piece ends, and the parent and the letter of nodes 1, 2, ...:
        parents ascend.
        """
        node = np.zeros(len(lengths), dtype=np.int64)
        first = np.cumsum(lengths) - lengths
        parents, by = [node[:0]], [node[:0]]
        num_nodes = 1
        for depth in range(self.depth):
            on = np.flatnonzero(lengths > depth)
            keys = node[on] * self._num_letters + letters[first[on] + depth]
            distinct, which = np.unique(keys, return_inverse=True)
            node[on] = num_nodes + which
            num_nodes += len(distinct)
            parents.append(distinct // self._num_letters)
            by.append(distinct % self._num_letters)
        return node, np.concatenate(parents), np.concatenate(by)

    def _lay(
        self, parents: Int64[np.ndarray, "children"], letters: Int64[np.ndarray, "children"]
    ) -> Int64[np.ndarray, "nodes"]:
        """Find a base for every node so that no two children share a slot; the nodes' slots."""
        base = np.zeros(len(parents) + 1, dtype=np.int64)
        nodes, first, counts = np.unique(parents, return_index=True, return_counts=True)
        several, single = np.flatnonzero(counts > 1), np.flatnonzero(counts == 1)
        table = _Slots(2 * len(base), self._num_letters)
        for place in several[np.argsort(-counts[several], kind="stable")].tolist():
            family = letters[first[place] : first[place] + counts[place]].tolist()
            base[nodes[place]] = table.place(family, place)
        # A single child may be anywhere that any letter reaches.
        filled = table.filled
        free = self._num_letters + np.flatnonzero(~filled[self._num_letters :])
        base[nodes[single]] = free[: len(single)] - letters[first[single]]
        slots = np.append(ROOT, base[parents] + letters)
        self._base = np.zeros(len(filled), dtype=np.int32)
        self._base[slots] = base
        self._parent = np.full(len(filled), NOBODY, dtype=np.int32)
        self._parent[slots[1:]] = slots[parents]
        return slots

    def _note_pairs(
        self, letters: Int64[np.ndarray, "total"], lengths: Int64[np.ndarray, "pieces"]
    ) -> None:
        """Remember which letters stand side by side in a piece."""
        inner = np.ones(len(letters), dtype=np.bool_)
        inner[np.cumsum(lengths) - 1] = False
        pairs = np.unique(self._pair(letters)[inner[:-1]])
        bits = max(4, (_BITS_A_PAIR * len(pairs)).bit_length())
        self._shift = np.uint64(64 - bits)
        self._pairs = np.zeros(1 << bits, dtype=np.bool_)
        self._pairs[self._pair_slot(pairs)] = True

    def _pair(self, letters: np.ndarray) -> Int64[np.ndarray, "pairs"]:
        return letters[:-1].astype(np.int64) * self._num_letters + letters[1:]

    def _pair_slot(self, pairs: Int64[np.ndarray, "pairs"]) -> Int64[np.ndarray, "pairs"]:
        return (pairs.view(np.uint64) * np.uint64(_MULTIPLIER) >> self._shift).view(np.int64)

    def may_join(self, letters: Int32[np.ndarray, "places"]) -> Bool[np.ndarray, "places_less_1"]:
        """Whether a piece may hold a letter and the next one side by side.

        A few pairs that no piece holds are taken for one that does; never the other way round.
        """
        return self._pairs[self._pair_slot(self._pair(letters))]

    def step(
        self, nodes: Int32[np.ndarray, "places"], letters: Int32[np.ndarray, "places"]
    ) -> Int32[np.ndarray, "places"]:
        """The nodes that the letters lead to; NOWHERE where no piece goes on so."""
        reached = self._base[nodes]
        reached += letters
        reached[self._parent[reached] != nodes] = NOWHERE
        return reached


class _Slots:
    """Which slots are taken while a trie is laid; there are more of them when it gets tight."""

    def __init__(self, span: int, num_letters: int) -> None:
        self.span = span  # bases that are tried
        self.taken = bytearray(1 + span + num_letters)

    def place(self, family: list[int], number: int) -> int:
        """A base from which the slots of all the family's letters are free; they are taken then.

        The search begins anywhere, by `number`: in a dense stretch many bases would be tried.
        """
        base = number * _MULTIPLIER % self.span
        for tries in count(1):
            if not any(self.taken[1 + base + letter] for letter in family):
                break
            base = (base + 1) % self.span
            if tries % _MOST_TRIES == 0:
                base = self.span
                self.taken.extend(bytes(self.span))
                self.span *= 2
        for letter in family:
            self.taken[1 + base + letter] = True
        return 1 + base

    @property
    def filled(self) -> Bool[np.ndarray, "slots"]:
        return np.frombuffer(bytes(self.taken), np.bool_)
