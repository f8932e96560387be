"""What test sets contain leaves the corpus (law E1): tables of their word runs, and who holds one.

A paragraph leaves if it shares RUN_WORDS words in a row with a text of a test set, as in Brown et
al. 2020, C, whatever the case and the marks between words, and also where the run goes on in the
next paragraph. A text of MIN_WORDS words or more, but fewer than that, counts where it stands as a
whole; a shorter one only where it is a whole paragraph. In scripts without spaces each character is
a word.

A table is one array of 64-bit hashes, at most 16 bytes a word of the test sets (6 on English
sentences): of each run or text, and of its first MIN_WORDS words, by which nearly all places of a
document are passed over. The four low bits of an entry say which it is. A process that looks into
a table keeps a filter besides, of 16 to 32 bytes an entry, 64 MiB at most.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Int64, UInt64

from data_prep.documents import Document
from data_prep.signatures import words_by_line
from mlmdist.rng import mix_array

RUN_WORDS = 13
MIN_WORDS = 5
BATCH_CHARACTERS = 100_000
"""Characters, or a little more, that are looked through together."""

_LENGTH = np.uint64(15)  # the bits of an entry that hold its number of words, or _BEGINNING
_BEGINNING = 15
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_MAX_FILTER_BITS = 26


def build_table(documents: Iterable[Document]) -> UInt64[np.ndarray, "entries"]:
    """The sorted, unique hashes of what must not be in the corpus, from a test set's documents.

    Each paragraph is a text of its own. Tables of several sets join by
    `np.unique(np.concatenate(...))`.
    """
    paragraphs = [text for document in documents for text in document.paragraphs]
    batches = _batches(paragraphs, overlapping=False)
    tables = [_entries(words) for _, words in batches]
    return np.unique(np.concatenate([np.empty(0, np.uint64), *tables]))


def excluded_paragraphs(document: Document, table: UInt64[np.ndarray, "entries"]) -> list[int]:
    """The paragraphs, by index ascending, that contain something of the table."""
    return excluded_in([document], table)[0]


def excluded_in(
    documents: Sequence[Document], table: UInt64[np.ndarray, "entries"]
) -> list[list[int]]:
    """`excluded_paragraphs` of each document; many at once take less time."""
    paragraphs = [text for document in documents for text in document.paragraphs]
    owners = np.repeat(np.arange(len(documents)), [len(each.paragraphs) for each in documents])
    excluded = np.zeros(len(paragraphs), np.bool_)
    if table.size and paragraphs:
        filter_ = _filter(table)
        for first, words in _batches(paragraphs):
            for start, stop in _found(words, filter_):
                start, stop = start + first, stop + first
                if owners[start] == owners[stop]:
                    excluded[start : stop + 1] = True
    bounds = np.searchsorted(owners, np.arange(len(documents) + 1))
    return [
        np.flatnonzero(excluded[bounds[n] : bounds[n + 1]]).tolist() for n in range(len(documents))
    ]


def without_excluded(
    documents: Sequence[Document], table: UInt64[np.ndarray, "runs"], min_characters: int
) -> list[tuple[Document | None, int]]:
    """Each document without its excluded paragraphs, and the number of characters that left.

    None where nothing, or fewer than `min_characters`, would be left: then all characters left.
    A document without excluded paragraphs stays as it is, however short.
    """
    found = excluded_in(documents, table)
    return [
        _without(document, set(excluded), min_characters)
        for document, excluded in zip(documents, found, strict=True)
    ]


def _without(
    document: Document, excluded: set[int], min_characters: int
) -> tuple[Document | None, int]:
    if not excluded:
        return document, 0
    kept = tuple(text for number, text in enumerate(document.paragraphs) if number not in excluded)
    rest = replace(document, paragraphs=kept)
    if not kept or rest.num_characters < min_characters:
        return None, document.num_characters
    return rest, document.num_characters - rest.num_characters


@dataclass(frozen=True)
class _Words:
    """The words of some paragraphs."""

    sums: UInt64[np.ndarray, "words_plus_1"]
    """The sum of all word hashes before each place, each times a power of its place, mod 2**64."""

    lines: Int64[np.ndarray, "words"]
    """The paragraph of each word."""

    firsts: Int64[np.ndarray, "paragraphs"]
    counts: Int64[np.ndarray, "paragraphs"]
    """The first word and the number of words of each paragraph that has words."""

    @classmethod
    def of(cls, paragraphs: Sequence[str]) -> "_Words":
        words, lines = words_by_line("\n".join(paragraphs))
        sums = np.zeros(words.size + 1, np.uint64)
        np.cumsum(words * _powers(_BASE, words.size), out=sums[1:])
        firsts = np.flatnonzero(np.diff(lines, prepend=-1))
        return cls(sums, lines, firsts, np.diff(firsts, append=len(lines)))

    def runs(
        self,
        starts: Int64[np.ndarray, "runs"],
        lengths: Int64[np.ndarray, "runs"] | int,
        *,
        beginnings: bool = False,
    ) -> UInt64[np.ndarray, "runs"]:
        """The entry of each run of words, the same wherever it stands."""
        inverse = _powers(_INVERSE, len(self.sums))
        hashes = mix_array((self.sums[starts + lengths] - self.sums[starts]) * inverse[starts])
        kinds = np.asarray(_BEGINNING if beginnings else lengths).astype(np.uint64)
        return hashes & ~_LENGTH | kinds


def _entries(words: _Words) -> UInt64[np.ndarray, "entries"]:
    """The entries of paragraphs of a test set."""
    lengths = np.minimum(words.counts, RUN_WORDS)
    num_runs = words.counts - lengths + 1
    inside = np.arange(num_runs.sum()) - np.repeat(np.cumsum(num_runs) - num_runs, num_runs)
    starts = np.repeat(words.firsts, num_runs) + inside
    lengths = np.repeat(lengths, num_runs)
    runs = words.runs(starts, lengths)
    beginnings = words.runs(starts[lengths >= MIN_WORDS], MIN_WORDS, beginnings=True)
    return np.concatenate([runs, beginnings])


def _batches(
    paragraphs: Sequence[str], *, overlapping: bool = True
) -> Iterator[tuple[int, _Words]]:
    """Paragraphs in batches, each with the number of its first.

    Overlapping ones have the last RUN_WORDS - 1 words of a batch in the next one too.
    """
    start = stop = 0
    while stop < len(paragraphs):
        size = sum(map(len, paragraphs[start:stop]))
        first = True
        while stop < len(paragraphs) and (first or size < BATCH_CHARACTERS):
            size += len(paragraphs[stop])
            stop += 1
            first = False
        words = _Words.of(paragraphs[start:stop])
        yield start, words
        again = words.lines[-(RUN_WORDS - 1) :]
        start = start + int(again[0]) if overlapping and len(again) else stop


def _found(words: _Words, filter_: "_Filter") -> Iterator[tuple[int, int]]:
    """First and last paragraph of each run of words that is in the table."""
    num_words = len(words.lines)
    places = np.arange(max(num_words - MIN_WORDS + 1, 0))
    places = places[filter_.holds(words.runs(places, MIN_WORDS, beginnings=True))]
    short = words.counts < MIN_WORDS
    lengths = np.arange(MIN_WORDS, RUN_WORDS + 1)
    starts = np.concatenate([words.firsts[short], np.repeat(places, len(lengths))])
    lengths = np.concatenate([words.counts[short], np.tile(lengths, len(places))])
    inside = starts + lengths <= num_words
    starts, lengths = starts[inside], lengths[inside]
    hits = filter_.holds(words.runs(starts, lengths))
    first, last = words.lines[starts[hits]], words.lines[starts[hits] + lengths[hits] - 1]
    yield from zip(first.tolist(), last.tolist(), strict=True)


@dataclass(frozen=True)
class _Filter:
    """A table, and what tells quickly that something is not in it."""

    table: UInt64[np.ndarray, "entries"]
    slots: Bool[np.ndarray, "slots"]
    shift: np.uint64

    def holds(self, entries: UInt64[np.ndarray, "some"]) -> Bool[np.ndarray, "some"]:
        """Whether each entry is in the table."""
        found = self.slots[entries >> self.shift]
        some = np.flatnonzero(found)
        places = np.minimum(self.table.searchsorted(entries[some]), len(self.table) - 1)
        found[some] = self.table[places] == entries[some]
        return found


_last: list[_Filter] = []


def _filter(table: UInt64[np.ndarray, "entries"]) -> _Filter:
    """The filter of a table; that of the last one is kept."""
    if not _last or _last[0].table is not table:
        bits = min(len(table).bit_length() + 4, _MAX_FILTER_BITS)
        shift = np.uint64(64 - bits)
        slots = np.zeros(1 << bits, np.bool_)
        slots[table >> shift] = True
        _last[:] = [_Filter(table, slots, shift)]
    return _last[0]


def _powers(base: int, count: int) -> UInt64[np.ndarray, "count"]:
    """The first powers of `base` modulo 2**64, from 1 on."""
    return _many_powers(base, max(1 << 15, 1 << count.bit_length()))[:count]


@lru_cache(maxsize=4)
def _many_powers(base: int, count: int) -> UInt64[np.ndarray, "count"]:
    factors = np.full(count, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)
