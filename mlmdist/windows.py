"""A window: a run of one document's tokens that fits a row of the model.

Joined without their repeated heads, the windows of a document are exactly its tokens (law W1).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from mlmdist.blocks import ENDS_ON_SENTENCE, FORCED_CUT, LAST_OF_DOCUMENT, STARTS_ON_SENTENCE


class Window(NamedTuple):
    """Tokens [start, stop) of a document; the first `repeated` stand in the window before too."""

    start: int
    stop: int
    repeated: int
    flags: int


def cut(
    num_tokens: int,
    sentence_starts: Sequence[int],
    word_starts: Bool[np.ndarray, "tokens"],
    capacity: int,
    overlap: int,
) -> list[Window]:
    """The windows of a document of `num_tokens` tokens, in order (`long_text: sliding`).

    `sentence_starts` are ascending token indices, the first 0; `word_starts` says of each token
    whether a word starts there; `capacity` is the most tokens of a window. A window ends on a
    sentence end if one fits, else before a word, else, in a word longer than a window, anywhere. It
    starts with the longest run of whole sentences of at most `overlap` tokens that end the window
    before, cut shorter where that leaves the next sentence room to fit whole.
    """
    ends = [*sentence_starts[1:], num_tokens]
    windows: list[Window] = []
    new = 0  # first token that no window holds yet
    while new < num_tokens:
        start = _head(new, sentence_starts, ends, capacity, overlap)
        stop, forced = _stop(new, start + capacity, ends, word_starts)
        flags = STARTS_ON_SENTENCE if _has(sentence_starts, start) else 0
        flags |= ENDS_ON_SENTENCE if _has(ends, stop) else 0
        flags |= FORCED_CUT if forced else 0
        flags |= LAST_OF_DOCUMENT if stop == num_tokens else 0
        windows.append(Window(start, stop, new - start, flags))
        new = stop
    return windows


def _head(
    new: int, sentence_starts: Sequence[int], ends: Sequence[int], capacity: int, overlap: int
) -> int:
    """Where the window that adds token `new` starts: its repeated head goes from there to `new`."""
    place = bisect_left(sentence_starts, new)
    if overlap == 0 or place == len(sentence_starts) or sentence_starts[place] != new:
        return new  # no sentence ends here, so no run of whole sentences does
    next_length = ends[place] - new
    room = capacity - next_length if next_length <= capacity else capacity - 1
    earliest = new - min(overlap, room)
    return sentence_starts[bisect_left(sentence_starts, earliest)]


def _stop(
    new: int, limit: int, ends: Sequence[int], word_starts: Bool[np.ndarray, "tokens"]
) -> tuple[int, bool]:
    """Where the window ends that adds token `new` and may reach `limit`; True if inside a word."""
    place = bisect_right(ends, limit) - 1
    if place >= 0 and ends[place] > new:
        return ends[place], False
    words = np.flatnonzero(word_starts[new + 1 : limit + 1])
    if words.size:
        return new + 1 + int(words[-1]), False
    return limit, True


def _has(ascending: Sequence[int], value: int) -> bool:
    place = bisect_left(ascending, value)
    return place < len(ascending) and ascending[place] == value
