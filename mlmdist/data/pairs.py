"""Pairs: where a window is cut in A and B, and whose B it gets (laws P1, P2, P4).

For next sentence prediction (Devlin et al. 2019, task 2) rows of a cell are first matched so that
both could take the other's B without loss: cuts that fit are found before a coin, independent of
all else, says whether the B's are swapped. So nothing is truncated, every token of both windows is
used once, and lengths tell next to nothing of the label. For sentence order prediction (Lan et al.
2020, section 3.1) a window is cut nearest its middle and a coin swaps its halves.
"""

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int64, UInt64

from mlmdist.data.order import CELL_ROWS
from mlmdist.data.reader import Windows
from mlmdist.data.runs import pointers, ranges
from mlmdist.rng import absorb_array, hash64

PAIR_VERSION = 1
UNLABELLED = -100
MAX_LENGTH_GAP = 32
OFFSET_BITS = 16  # a window's offsets are u16 on disk


@dataclass(frozen=True)
class Spans:
    """What each row is made of: tokens [start, stop) of a window, and of another or none (-1)."""

    first_window: Int64[np.ndarray, "rows"]
    first_start: Int64[np.ndarray, "rows"]
    first_stop: Int64[np.ndarray, "rows"]
    second_window: Int64[np.ndarray, "rows"]
    second_start: Int64[np.ndarray, "rows"]
    second_stop: Int64[np.ndarray, "rows"]
    labels: Int64[np.ndarray, "rows"]
    """0 true continuation or in order, 1 not, -100 no label."""

    @property
    def lengths(self) -> Int64[np.ndarray, "rows"]:
        """Tokens of each row, without special ones."""
        return self.first_stop - self.first_start + self.second_stop - self.second_start

    def take(self, rows: Int64[np.ndarray, "taken"]) -> "Spans":
        """These rows, in this order."""
        return Spans(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True)
class Cuts:
    """Offsets at which windows may be cut: every sentence start but the first, ascending."""

    offsets: Int64[np.ndarray, "cuts"]
    ptr: Int64[np.ndarray, "windows_plus_1"]
    counts: Int64[np.ndarray, "windows"]
    keys: Int64[np.ndarray, "cuts"]
    """window << 16 | offset: ascending over all windows, to be searched."""


def pair(
    kind: Literal["nsp", "sop", "none"],
    windows: Windows,
    cell_ptr: Int64[np.ndarray, "cells_plus_1"],
    seed: int,
    capacity: int | Int64[np.ndarray, "windows"],
) -> Spans:
    """One row per window; row r begins with the text of window r (or, for `sop`, may end with it).

    Cell c is windows `cell_ptr[c]` to `cell_ptr[c + 1]`, at most 16 of one corpus and epoch.
    `capacity` is the most tokens of A and B together, `max_seq_len - 3` of the window's corpus.
    """
    if kind == "none":
        return _uncut(windows)
    if kind == "sop":
        return _sentence_order(windows, seed)
    most = np.broadcast_to(np.int64(capacity), windows.lengths.shape)
    return _next_sentence(windows, cell_ptr, seed, most)


def _uncut(windows: Windows) -> Spans:
    nothing = np.zeros(len(windows.lengths), dtype=np.int64)
    rows = np.arange(len(nothing))
    return Spans(
        rows, nothing, windows.lengths, nothing - 1, nothing, nothing, nothing + UNLABELLED
    )


def _sentence_order(windows: Windows, seed: int) -> Spans:
    """Windows of two sentences or more, cut nearest the middle, the halves swapped by a coin."""
    lengths, rows = windows.lengths, np.arange(len(windows.lengths))
    cut = _middle_cuts(windows)
    two = cut > 0
    swapped = two & _coins(_window_keys("pair order coin", seed, windows))
    return Spans(
        first_window=rows,
        first_start=np.where(swapped, cut, 0),
        first_stop=np.where(two & ~swapped, cut, lengths),
        second_window=np.where(two, rows, -1),
        second_start=np.where(two & ~swapped, cut, 0),
        second_stop=np.where(two, np.where(swapped, cut, lengths), 0),
        labels=np.where(two, swapped.astype(np.int64), UNLABELLED),
    )


def _next_sentence(
    windows: Windows,
    cell_ptr: Int64[np.ndarray, "cells_plus_1"],
    seed: int,
    capacity: Int64[np.ndarray, "windows"],
) -> Spans:
    """Matched rows, swapped or not by a coin a match; the others cut anywhere, unlabelled."""
    lengths, rows = windows.lengths, np.arange(len(windows.lengths))
    cuts = _cuts(windows)
    partner, cut = _match(windows, cuts, cell_ptr, seed, capacity)
    matched = partner >= 0
    cut = np.where(matched, cut, _any_cuts(windows, cuts, seed))
    low, high = np.minimum(rows, partner), np.maximum(rows, partner)
    states = _window_keys("pair coin", seed, windows)
    swapped = matched & _coins(_match_keys(states, windows, low, high))
    second = np.where(swapped, partner, np.where(cut > 0, rows, -1))
    return Spans(
        first_window=rows,
        first_start=np.zeros_like(rows),
        first_stop=np.where(cut > 0, cut, lengths),
        second_window=second,
        second_start=np.where(second >= 0, cut[second], 0),
        second_stop=np.where(second >= 0, lengths[second], 0),
        labels=np.where(matched, swapped.astype(np.int64), UNLABELLED),
    )


def _match(
    windows: Windows,
    cuts: Cuts,
    cell_ptr: Int64[np.ndarray, "cells_plus_1"],
    seed: int,
    capacity: Int64[np.ndarray, "windows"],
) -> tuple[Int64[np.ndarray, "windows"], Int64[np.ndarray, "windows"]]:
    """(partner or -1, cut) of each window: rows r and r ^ d of a cell, for d ascending.

    For one d the pairs (r, r ^ d) have no row in common, so all are tried at once.
    """
    partner = np.full(len(windows.lengths), -1)
    cut = np.zeros_like(partner)
    grid = _cell_grid(cell_ptr)
    states = _window_keys("pair cuts", seed, windows)
    row = np.arange(CELL_ROWS)
    free = np.append(cuts.counts > 0, False)  # the last is what -1, no window, finds
    for distance in range(1, CELL_ROWS):
        lower = row[row < row ^ distance]
        low, high = grid[:, lower].ravel(), grid[:, lower ^ distance].ravel()
        both = np.flatnonzero(free[low] & free[high])
        low, high = low[both], high[both]
        others = windows.document_id[low] != windows.document_id[high]
        low, high = low[others], high[others]
        if low.size:
            keys = _match_keys(states, windows, low, high)
            low, high, low_cut, high_cut = _fitting_cuts(
                windows, cuts, low, high, keys, capacity[low]
            )
            partner[low], partner[high] = high, low
            cut[low], cut[high] = low_cut, high_cut
            free[low] = free[high] = False
    return partner, cut


def _fitting_cuts(
    windows: Windows,
    cuts: Cuts,
    low: Int64[np.ndarray, "pairs"],
    high: Int64[np.ndarray, "pairs"],
    keys: UInt64[np.ndarray, "pairs"],
    capacity: Int64[np.ndarray, "pairs"],
) -> tuple[Int64[np.ndarray, "fitting"], ...]:
    """(low, high, cut of low, cut of high) of the pairs with cuts that fit, picked by `keys`.

    Cuts fit if A of either with B of the other has at most `capacity` tokens and the B's differ by
    at most 32. All three say that the difference of the cuts lies in an interval, so the cuts of
    `high` that go with one cut of `low` are neighbours, found by binary search.
    """
    low_length, high_length = windows.lengths[low], windows.lengths[high]
    gap = low_length - high_length
    least = np.maximum(low_length - capacity, gap - MAX_LENGTH_GAP)
    most = np.minimum(capacity - high_length, gap + MAX_LENGTH_GAP)
    counts = cuts.counts[low]
    tried = ranges(cuts.ptr[low], counts)  # [tried]: every cut of every low row
    offset = cuts.offsets[tried]
    first, last = _between(
        cuts,
        np.repeat(high, counts),
        offset - np.repeat(most, counts),
        offset - np.repeat(least, counts),
    )
    before = pointers(np.maximum(last - first, 0))  # choices before each tried cut
    bounds = pointers(counts)
    choices = before[bounds[1:]] - before[bounds[:-1]]
    fits = choices > 0
    chosen = keys[fits] % choices[fits].astype(np.uint64)
    chosen = before[bounds[:-1]][fits] + chosen.astype(np.int64)
    place = np.searchsorted(before, chosen, "right") - 1
    high_cut = cuts.offsets[first[place] + chosen - before[place]]
    return low[fits], high[fits], offset[place], high_cut


def _between(
    cuts: Cuts,
    window: Int64[np.ndarray, "n"],
    least: Int64[np.ndarray, "n"],
    most: Int64[np.ndarray, "n"],
) -> tuple[Int64[np.ndarray, "n"], Int64[np.ndarray, "n"]]:
    """[first, last) of the window's cuts at offsets from `least` to `most`."""
    base, limit = window << OFFSET_BITS, (1 << OFFSET_BITS) - 1
    first = np.searchsorted(cuts.keys, base + np.clip(least, 0, limit), "left")
    last = np.searchsorted(cuts.keys, base + np.clip(most, 0, limit), "right")
    return first, last


def _cuts(windows: Windows) -> Cuts:
    starts = windows.sentence_start
    window = np.repeat(np.arange(len(windows.lengths)), windows.num_sentences)
    inner = np.ones(len(starts), dtype=np.bool_)
    inner[windows.sentence_ptr[:-1]] = False
    offsets, window = starts[inner], window[inner]
    counts = np.bincount(window, minlength=len(windows.lengths))
    return Cuts(offsets, pointers(counts), counts, window << OFFSET_BITS | offsets)


def _any_cuts(windows: Windows, cuts: Cuts, seed: int) -> Int64[np.ndarray, "windows"]:
    """A cut of each window, picked by hash; 0 where it has none."""
    picks = _window_keys("pair lone cut", seed, windows) % np.maximum(cuts.counts, 1).astype(
        np.uint64
    )
    padded = np.append(cuts.offsets, 0)
    some = np.minimum(cuts.ptr[:-1] + picks.astype(np.int64), len(cuts.offsets))
    return np.where(cuts.counts > 0, padded[some], 0)


def _middle_cuts(windows: Windows) -> Int64[np.ndarray, "windows"]:
    """The cut nearest the middle of each window, the first of two; 0 where it has none."""
    cuts = _cuts(windows)
    result = np.zeros(len(windows.lengths), dtype=np.int64)
    some = np.flatnonzero(cuts.counts)
    if some.size:
        away = np.abs(2 * cuts.offsets - np.repeat(windows.lengths, cuts.counts))
        ranked = away << OFFSET_BITS | cuts.offsets
        nearest = np.minimum.reduceat(ranked, cuts.ptr[some])
        result[some] = nearest & ((1 << OFFSET_BITS) - 1)
    return result


def _cell_grid(cell_ptr: Int64[np.ndarray, "cells_plus_1"]) -> Int64[np.ndarray, "cells 16"]:
    """The window at each row of each cell; -1 where a cell is short."""
    windows = cell_ptr[:-1, None] + np.arange(CELL_ROWS)
    return np.where(windows < cell_ptr[1:, None], windows, -1)


def _window_keys(purpose: str, seed: int, windows: Windows) -> UInt64[np.ndarray, "windows"]:
    state = absorb_array(hash64(purpose, seed), windows.keys())
    return absorb_array(absorb_array(state, windows.document_id), windows.window_number)


def _match_keys(
    states: UInt64[np.ndarray, "windows"],
    windows: Windows,
    low: Int64[np.ndarray, "pairs"],
    high: Int64[np.ndarray, "pairs"],
) -> UInt64[np.ndarray, "pairs"]:
    """A hash of (epoch, both window ids); the same for both rows of a match."""
    state = absorb_array(states[low], windows.document_id[high])
    return absorb_array(state, windows.window_number[high])


def _coins(keys: UInt64[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    return keys >> np.uint64(63) == 1
