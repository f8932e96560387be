"""A window: a run of one document's tokens that fits a row of the model.

Documents lie end to end in arrays, and all of them are cut at once: from every sentence start it is
computed where a window that begins there ends, so that a document is a walk along those places.
Joined without their repeated heads, its windows are exactly its tokens (law W1).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from mlmdist.blocks import (
    BEFORE_GAP,
    ENDS_ON_SENTENCE,
    FORCED_CUT,
    LAST_OF_DOCUMENT,
    STARTS_ON_SENTENCE,
)


@dataclass(frozen=True)
class Text:
    """Documents as tokens, end to end, and where sentences and words start in them."""

    bounds: Int64[np.ndarray, "documents_plus_1"]
    """Document i has the tokens `bounds[i]` to `bounds[i + 1]`."""

    sentence_starts: Int64[np.ndarray, "starts"]
    """Tokens at which a sentence starts, ascending; the first of a document always is one."""

    word_starts: Bool[np.ndarray, "total"]
    """Whether a word starts at each token."""


@dataclass(frozen=True)
class Cut:
    """Windows, ascending: tokens [start, stop) of all documents joined.

    The first `repeated` of them stand in the window before too.
    """

    start: Int64[np.ndarray, "windows"]
    stop: Int64[np.ndarray, "windows"]
    repeated: Int64[np.ndarray, "windows"]

    def take(self, rows: Int64[np.ndarray, "taken"]) -> "Cut":
        """These windows."""
        return Cut(self.start[rows], self.stop[rows], self.repeated[rows])


@dataclass(frozen=True)
class Placed:
    """What is said of each window of a `Cut` besides its tokens."""

    document: Int64[np.ndarray, "windows"]
    """Which document it is from."""

    number: Int64[np.ndarray, "windows"]
    """Its place among the windows of its document."""

    gap: Int64[np.ndarray, "windows"]
    """Tokens directly before its new ones that are in no window of its document."""

    flags: Int64[np.ndarray, "windows"]


def cut(
    text: Text,
    firsts: Int64[np.ndarray, "stretches"],
    lasts: Int64[np.ndarray, "stretches"],
    capacity: int,
    overlap: int,
) -> Cut:
    """The windows of stretches of text, each of tokens [first, last), in order.

    Stretches ascend, do not overlap, and each starts and ends where a sentence or document does: a
    document as a whole is one. `capacity` is the most tokens of a window. A window ends on a
    sentence end if one fits, else before a word, else, in a word longer than a window, anywhere. It
    starts with the longest run of whole sentences of at most `overlap` tokens that end the window
    before, cut shorter where that leaves the next sentence, or else word, room to fit whole.
    """
    edges = _edges(text)
    begin, end = np.searchsorted(edges, firsts), np.searchsorted(edges, lasts)
    head, stop = _from_each_edge(edges, begin, end, capacity, overlap)
    fast: list[
        int
    ] = []  # the edges at which windows add their first token; -1 for an irregular one
    irregular: list[tuple[int, int, int]] = []
    stops = stop.tolist()
    for place, limit in zip(begin.tolist(), end.tolist(), strict=True):
        at, first = place, place
        while at < limit:
            if stops[at] > at:
                fast.append(at)
                at = stops[at]
            else:
                run, at = _long_sentence(text, edges, (first, at, limit), capacity, overlap)
                irregular += run
                fast += [-1] * len(run)
    new = np.array(fast, dtype=np.int64)
    start, ends, repeated = edges[head[new]], edges[stop[new]], edges[new] - edges[head[new]]
    if irregular:
        table = np.array(irregular, dtype=np.int64)
        start[new < 0], ends[new < 0], repeated[new < 0] = table.T
    return Cut(start, ends, repeated)


def place(text: Text, windows: Cut) -> Placed:
    """Document, number, gap and flags of each of some windows of documents that each have one."""
    document = np.searchsorted(text.bounds, windows.start, "right") - 1
    opens = np.ones(len(document), dtype=np.bool_)  # the first of its document
    opens[1:] = document[1:] != document[:-1]
    closes = np.ones_like(opens)
    closes[:-1] = opens[1:]
    rows = np.arange(len(document))
    number = rows - np.maximum.accumulate(np.where(opens, rows, 0))
    before = np.where(opens, text.bounds[document], np.roll(windows.stop, 1))
    gap = windows.start + windows.repeated - before
    assert not len(gap) or gap.min() >= 0, "a token is new in two windows"
    left_out_behind = np.where(
        closes, windows.stop < text.bounds[document + 1], np.roll(gap, -1) > 0
    )
    edges = _edges(text)
    ends_on = _among(edges, windows.stop)
    starts_word = np.append(text.word_starts, True)[windows.stop]
    flags = np.where(_among(edges, windows.start), STARTS_ON_SENTENCE, 0)
    flags |= np.where(ends_on, ENDS_ON_SENTENCE, 0)
    flags |= np.where(~ends_on & ~starts_word, FORCED_CUT, 0)
    flags |= np.where(closes, LAST_OF_DOCUMENT, 0)
    flags |= np.where(left_out_behind, BEFORE_GAP, 0)
    return Placed(document, number, gap, flags)


def _edges(text: Text) -> Int64[np.ndarray, "edges"]:
    """Sentence starts and the end of all: where a sentence may start or end, ascending."""
    return np.append(text.sentence_starts, text.bounds[-1])


def _from_each_edge(
    edges: Int64[np.ndarray, "edges"],
    begin: Int64[np.ndarray, "stretches"],
    end: Int64[np.ndarray, "stretches"],
    capacity: int,
    overlap: int,
) -> tuple[Int64[np.ndarray, "edges"], Int64[np.ndarray, "edges"]]:
    """Edges at which the window starts and ends whose new tokens start at each edge.

    Where the next sentence is longer than a window, and outside the stretches, both are the edge.
    """
    here = np.arange(len(edges))
    stretch = np.searchsorted(begin, here, "right") - 1
    lowest = np.append(begin, 0)[stretch]
    highest = np.append(end, 0)[stretch]
    sentence = np.diff(edges, append=edges[-1:])
    fits = (sentence <= capacity) & (here < highest)
    most = np.minimum(overlap, capacity - sentence)
    head = np.maximum(np.searchsorted(edges, edges - most), lowest)
    stop = np.minimum(np.searchsorted(edges, edges[head] + capacity, "right") - 1, highest)
    return np.where(fits, head, here), np.where(fits, stop, here)


def _long_sentence(
    text: Text,
    edges: Int64[np.ndarray, "edges"],
    places: tuple[int, int, int],
    capacity: int,
    overlap: int,
) -> tuple[list[tuple[int, int, int]], int]:
    """(start, stop, repeated) of the windows from a sentence that fits none to the next edge.

    `places` are the edges where the stretch begins, where the sentence starts and where the stretch
    ends. Also gives the edge reached.
    """
    begin, at, end = places
    words = text.word_starts
    windows: list[tuple[int, int, int]] = []
    new, sentence_end = int(edges[at]), int(edges[at + 1])
    while sentence_end - new > capacity:
        start = new
        if not windows:  # only at the sentence's start do whole sentences end
            most = min(overlap, capacity - _next_word(words, new, capacity))
            start = int(edges[max(begin, int(np.searchsorted(edges, new - most)))])
        stop = _word_end(words, new, start + capacity)
        windows.append((start, stop, new - start))
        new = stop
    reached = min(int(np.searchsorted(edges, new + capacity, "right")) - 1, end)
    windows.append((new, int(edges[reached]), 0))
    return windows, reached


def _next_word(words: Bool[np.ndarray, "total"], new: int, capacity: int) -> int:
    """Tokens of the word at `new`, or a whole window if none holds it."""
    found = np.flatnonzero(words[new + 1 : new + capacity + 1])
    return 1 + int(found[0]) if found.size else capacity


def _word_end(words: Bool[np.ndarray, "total"], new: int, limit: int) -> int:
    """The last place behind `new`, up to `limit`, before a word; `limit` if there is none."""
    found = np.flatnonzero(words[new + 1 : limit + 1])
    return new + 1 + int(found[-1]) if found.size else limit


def _among(
    ascending: Int64[np.ndarray, "n"], values: Int64[np.ndarray, "values"]
) -> Bool[np.ndarray, "values"]:
    return ascending[np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)] == values
