"""What a mask chooses as a whole: words, and groups of neighbouring words.

Groups lay a segment out in runs of words, each as long as a draw at its first word says, so whether
a word is masked does not depend on how many are. Lengths are those of
- `span`: geometric with p = 0.2, at most 10 words (Joshi et al. 2020, section 3.1; mean 3.8),
- `ngram`: 1, 2 or 3 words in the proportion 1 : 1/2 : 1/3 (Lan et al. 2020, section 4.2).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64, UInt64

from mlmdist.data.batch import Stream
from mlmdist.data.reader import Windows

LENGTH_PARTS = {
    "span": tuple(4**shorter * 5 ** (9 - shorter) for shorter in range(10)),
    "ngram": (6, 3, 2),
}
"""How often a group has 1, 2, ... words, as integers."""


@dataclass(frozen=True)
class Units:
    """Words of a stream: runs of places, each inside one segment of one row."""

    of_place: Int64[np.ndarray, "total"]
    """Which unit each place is part of; -1 for special tokens."""

    first_place: Int64[np.ndarray, "units"]
    row: Int64[np.ndarray, "units"]


def words_of(stream: Stream, windows: Windows) -> Units:
    """The words of the stream; a segment's first token starts one in any case."""
    ordinary = stream.source >= 0
    starts = ordinary & windows.word_start[stream.source]
    starts[stream.first_places] = True
    first_place = np.flatnonzero(starts)
    return Units(
        of_place=np.where(ordinary, np.cumsum(starts) - 1, -1),
        first_place=first_place,
        row=np.searchsorted(stream.ptr, first_place, "right") - 1,
    )


def sizes(units: Units, candidate: Bool[np.ndarray, "total"]) -> Int64[np.ndarray, "units"]:
    """Places of each unit that may be chosen."""
    return np.bincount(units.of_place[candidate], minlength=len(units.first_place))


def lengths_of(kind: str, draws: UInt64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
    """Words of a group for each 64-bit draw."""
    parts = LENGTH_PARTS[kind]
    ends = [(sum(parts[: n + 1]) << 32) // sum(parts) for n in range(len(parts))]
    return np.searchsorted(ends, (draws >> np.uint64(32)).astype(np.int64), "right") + 1


def heads_of(
    stream: Stream, units: Units, lengths: Int64[np.ndarray, "units"]
) -> Int64[np.ndarray, "units"]:
    """The first word of the group of each word, if a group that starts at word w has `lengths[w]`.

    Which words start a group is the orbit of "the word behind the group" from the first word of
    each segment, found by doubling the stride; a group ends with its segment at the latest.
    """
    index = np.arange(len(lengths))
    first_words = np.searchsorted(units.first_place, stream.first_places)
    ends = np.append(first_words[1:], len(lengths))  # the word behind each segment
    segment = np.searchsorted(first_words, index, "right") - 1
    behind = np.append(np.minimum(index + lengths, ends[segment]), len(lengths))
    starts = np.zeros(len(lengths) + 1, dtype=np.bool_)
    starts[first_words] = True
    for _ in range(int((ends - first_words).max(initial=1)).bit_length()):
        starts[behind[np.flatnonzero(starts)]] = True
        behind = behind[behind]
    return np.maximum.accumulate(np.where(starts[:-1], index, 0))
