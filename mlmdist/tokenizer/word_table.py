"""Numbers for words: a hash table that takes all words of a text at once.

A word is its UTF-8 bytes and their number in a row of 32 bytes, which are four 64-bit integers, so
looking one up compares integers and makes no string. Rows are compared whole: the table is exact,
whatever the hash is. A longer word has a serial number in its row's place.
"""

import numpy as np
from jaxtyping import Int64, UInt8, UInt64

ROW_BYTES = 32
SHORT_BYTES = ROW_BYTES - 1  # the last byte says how many there are
LONG = 255  # in that byte, of a word that is longer
MOST_FILLED = 0.5  # of the slots
WORDS_AT_ONCE = 1 << 15  # what is made of them stays in the processor's cache
SPACE = ord(" ")
EMPTY = -1

# Odd numbers with bits all over (the fractions of the golden ratio and others that hashes use).
FACTORS = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64
)
HALF = np.uint64(32)


class WordTable:
    """Words by number, from 0 on in the order in which they came first. It is for one thread."""

    def __init__(self) -> None:
        self.size = 0
        self.bits = 12
        self.slots = np.full(1 << self.bits, EMPTY, np.int32)  # of a word's hash: its number
        self.rows = np.zeros((1024, ROW_BYTES // 8), np.uint64)  # of a number; some to spare
        self.serials: dict[bytes, int] = {}  # of the long words
        self.long_bytes = 0
        """In these."""

    def __len__(self) -> int:
        return self.size

    def number(self, text: str) -> tuple[Int64[np.ndarray, "words"], str]:
        """The numbers of the words between the spaces of `text`; those that are new, spaced too.

        Raises UnicodeError for a lone surrogate.
        """
        data = text.encode()
        starts, lengths = _words(data)
        numbers = np.empty(len(starts), np.int64)
        new: list[np.ndarray] = []  # places of words, int64
        for first in range(0, len(starts), WORDS_AT_ONCE):
            some = slice(first, first + WORDS_AT_ONCE)
            numbers[some], places = self._number(data, starts[some], lengths[some])
            new.append(places + first)
        words = [_spaced(data, starts[some], lengths[some]) for some in new if len(some)]
        return numbers, b" ".join(words).decode()

    def _number(
        self, data: bytes, starts: Int64[np.ndarray, "words"], lengths: Int64[np.ndarray, "words"]
    ) -> tuple[Int64[np.ndarray, "words"], Int64[np.ndarray, "new"]]:
        """The numbers of some words, and which are the first ones that had none."""
        rows = _rows_of(data, starts, lengths)
        for place in np.flatnonzero(lengths > SHORT_BYTES).tolist():
            word = data[starts[place] : starts[place] + lengths[place]]
            if word not in self.serials:
                self.serials[word] = len(self.serials)
                self.long_bytes += len(word)
            rows[place] = 0
            rows[place, 0] = self.serials[word]
            rows[place].view(np.uint8)[-1] = LONG
        hashes = hash_rows(rows)
        numbers = self._find(rows, hashes)
        missing = np.flatnonzero(numbers < 0)
        if not len(missing):
            return numbers, missing
        first, which = _distinct(rows[missing], hashes[missing])
        numbers[missing] = self.size + which
        self._add(rows[missing[first]])
        return numbers, missing[first]

    def words(self, numbers: Int64[np.ndarray, "numbers"]) -> list[str]:
        """The words of these numbers."""
        long = list(self.serials)
        found = []
        for row in self.rows[numbers]:
            data = row.tobytes()
            is_long = data[-1] == LONG
            found.append((long[int(row[0])] if is_long else data[: data[-1]]).decode())
        return found

    def _find(
        self, rows: UInt64[np.ndarray, "words 4"], hashes: UInt64[np.ndarray, "words"]
    ) -> Int64[np.ndarray, "words"]:
        """The number of each word, EMPTY if it has none."""
        slots = self._slots_of(hashes)
        numbers = self.slots[slots].astype(np.int64)
        others = np.flatnonzero((numbers >= 0) & _differ(self.rows[numbers], rows))
        while len(others):  # another word is there: look into the next slot
            slots[others] = (slots[others] + 1) % len(self.slots)
            numbers[others] = found = self.slots[slots[others]]
            others = others[(found >= 0) & _differ(self.rows[found], rows[others])]
        return numbers

    def _add(self, rows: UInt64[np.ndarray, "new 4"]) -> None:
        """Give words that have none the next numbers."""
        first, self.size = self.size, self.size + len(rows)
        if self.size > len(self.rows):
            grown = np.zeros((2 * self.size, self.rows.shape[1]), np.uint64)
            grown[:first] = self.rows[:first]
            self.rows = grown
        self.rows[first : self.size] = rows
        if self.size > MOST_FILLED * len(self.slots):
            while self.size > MOST_FILLED * (1 << self.bits):
                self.bits += 2
            self.slots = np.full(1 << self.bits, EMPTY, np.int32)
            first = 0
        self._fill(np.arange(first, self.size))

    def _fill(self, numbers: Int64[np.ndarray, "numbers"]) -> None:
        """Put words that have a number into slots."""
        slots = self._slots_of(hash_rows(self.rows[numbers]))
        while len(numbers):
            free = self.slots[slots] == EMPTY
            self.slots[slots[free]] = numbers[free]  # of several for one slot, the last stays
            left = self.slots[slots] != numbers
            numbers, slots = numbers[left], (slots[left] + 1) % len(self.slots)

    def _slots_of(self, hashes: UInt64[np.ndarray, "words"]) -> Int64[np.ndarray, "words"]:
        return (hashes >> np.uint64(64 - self.bits)).astype(np.int64)


def hash_rows(rows: UInt64[np.ndarray, "words 4"]) -> UInt64[np.ndarray, "words"]:
    """A 64-bit hash of each row; its high bits depend on every bit of the row."""
    hashes = rows[:, 0] * FACTORS[0]
    for column in range(1, len(FACTORS)):
        hashes ^= hashes >> HALF
        hashes += rows[:, column]
        hashes *= FACTORS[column]
    hashes ^= hashes >> HALF
    hashes *= FACTORS[0]
    return hashes


def _words(data: bytes) -> tuple[Int64[np.ndarray, "words"], Int64[np.ndarray, "words"]]:
    """The byte at which each word starts, and its bytes."""
    spaces = np.flatnonzero(np.frombuffer(data, np.uint8) == SPACE)
    starts = np.append(0, spaces + 1)
    return starts, np.append(spaces, len(data)) - starts


def _spaced(
    data: bytes, starts: Int64[np.ndarray, "words"], lengths: Int64[np.ndarray, "words"]
) -> bytes:
    """The words with spaces between them."""
    number = np.repeat(np.arange(len(starts)), lengths)
    inside = np.arange(len(number)) - (np.cumsum(lengths) - lengths)[number]
    made = np.full(len(number) + len(starts) - 1, SPACE, np.uint8)
    made[np.arange(len(number)) + number] = np.frombuffer(data, np.uint8)[starts[number] + inside]
    return made.tobytes()


def _rows_of(
    data: bytes, starts: Int64[np.ndarray, "words"], lengths: Int64[np.ndarray, "words"]
) -> UInt64[np.ndarray, "words 4"]:
    """The rows of words; those of longer words say nothing."""
    first, stop = int(starts[0]), int(starts[-1])
    padded = data[first : stop + ROW_BYTES] + bytes(ROW_BYTES)
    every = np.ndarray((stop - first + 1,), f"V{ROW_BYTES}", padded, 0, (1,))  # from each byte on
    rows = every[starts - first].view(np.uint64).reshape(-1, ROW_BYTES // 8)
    lengths = np.minimum(lengths, SHORT_BYTES)
    rows &= _KEPT[lengths]
    rows.view(np.uint8)[:, -1] = lengths
    return rows


def _kept() -> UInt64[np.ndarray, "lengths 4"]:
    """The bits of a row that a word of so many bytes fills."""
    places: UInt8[np.ndarray, "1 bytes"] = np.arange(ROW_BYTES, dtype=np.uint8)[None]
    filled = places < np.arange(SHORT_BYTES + 1)[:, None]
    return np.where(filled, np.uint8(255), np.uint8(0)).view(np.uint64)


_KEPT = _kept()


def _differ(
    some: UInt64[np.ndarray, "words 4"], others: UInt64[np.ndarray, "words 4"]
) -> np.ndarray:
    """Whether two rows differ: bool [words]. `some` is overwritten."""
    some ^= others
    return (some[:, 0] | some[:, 1] | some[:, 2] | some[:, 3]) != 0


def _distinct(
    rows: UInt64[np.ndarray, "words 4"], hashes: UInt64[np.ndarray, "words"]
) -> tuple[Int64[np.ndarray, "new"], Int64[np.ndarray, "words"]]:
    """Where each word comes first, ascending, and which of these words every one is."""
    _, first, which = np.unique(hashes, return_index=True, return_inverse=True)
    if (rows[first][which] != rows).any():  # two words of one hash
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[which.ravel()]
