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
    before, cut shorter where that leaves the next sentence, or else word, room to fit whole.
    """
    ends = [*sentence_starts[1:], num_tokens]
    windows: list[Window] = []
    new = 0  # first token that no window holds yet
    while new < num_tokens:
        room = capacity - _next_piece(new, ends, word_starts, capacity)
        start = _head(new, sentence_starts, min(overlap, room))
        stop, forced = _stop(new, start + capacity, ends, word_starts)
        flags = STARTS_ON_SENTENCE if _has(sentence_starts, start) else 0
        flags |= ENDS_ON_SENTENCE if _has(ends, stop) else 0
        flags |= FORCED_CUT if forced else 0
        flags |= LAST_OF_DOCUMENT if stop == num_tokens else 0
        windows.append(Window(start, stop, new - start, flags))
        new = stop
    return windows


def _next_piece(
    new: int, ends: Sequence[int], word_starts: Bool[np.ndarray, "tokens"], capacity: int
) -> int:
    """Tokens that a head must leave room for.

    They are those of the next sentence; of the next word, if no window holds that sentence; or a
    whole window, if none holds that word.
    """
    sentence = ends[bisect_right(ends, new)] - new
    if sentence <= capacity:
        return sentence
    words = np.flatnonzero(word_starts[new + 1 : new + capacity + 1])
    return 1 + int(words[0]) if words.size else capacity


def _head(new: int, sentence_starts: Sequence[int], most: int) -> int:
    """Where the window that adds token `new` starts: its repeated head goes from there to `new`.

    The head is the longest run of whole sentences of at most `most` tokens that ends at `new`.
    """
    place = bisect_left(sentence_starts, new)
    if place == len(sentence_starts) or sentence_starts[place] != new:
        return new  # no sentence ends here, so no run of whole sentences does
    return sentence_starts[bisect_left(sentence_starts, new - most)]


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
