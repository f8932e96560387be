"""Weights: some tokens are to be predicted more often than others, or never.

The interface is a weight in thousandths for each place of a stream. It is the product of

- `mask.tag_weights`, by the tag that preprocessing gave a token (parts of speech, say, as in Yang
  et al. 2023), and
- `mask.word_weight`, for the words listed in the file `mask.word_list`, one a line.

A place is chosen in the order of hash / weight (sequential Poisson sampling, Ohlsson 1998): twice
the weight makes it twice as likely as long as that is far from certain, and 0 leaves it out.
"""

import numpy as np
from jaxtyping import Int64, UInt64

from mlmdist.config import data as config
from mlmdist.data.batch import Stream
from mlmdist.data.reader import Windows
from mlmdist.data.units import Units
from mlmdist.errors import DataError
from mlmdist.rng import mix_array

THOUSAND = 1000
NUM_TAGS = 256
SHIFT = 20  # bits of a hash given up so that it can be scaled
NEVER = np.uint64(0xFFFFFFFFFFFFFFFF)  # the priority of what may not be chosen


def is_weighted(mask: config.Mask) -> bool:
    """Whether some tokens weigh otherwise than others."""
    return bool(mask.tag_weights) or mask.word_list is not None


def weights_of(
    stream: Stream,
    windows: Windows,
    mask: config.Mask,
    words: Units,
    listed: UInt64[np.ndarray, "listed"],
) -> Int64[np.ndarray, "total"]:
    """The weight of each place, in thousandths; that of its first token for a whole word.

    `listed` are the `word_keys` of the word list. Raises DataError if tags are weighed and the
    shards have none.
    """
    weight = np.full(len(stream.tokens), THOUSAND)
    if mask.tag_weights:
        if windows.tag is None:
            raise DataError(
                "data.mask.tag_weights: the shards have no tags; make shards with a tag a token, "
                "or leave the weights out"
            )
        table = np.full(NUM_TAGS, THOUSAND)
        for each in mask.tag_weights:
            table[each.tag] = _thousandths(each.weight)
        weight = table[windows.tag[stream.source]]
    if mask.unit != "token":
        weight = weight[words.first_place][words.of_place]
    if mask.word_list is not None:
        keys = keys_of(stream.tokens, words)
        place = np.minimum(np.searchsorted(listed, keys), max(len(listed) - 1, 0))
        hit = listed[place] == keys if len(listed) else np.zeros(len(keys), dtype=np.bool_)
        factor = np.where(hit, _thousandths(mask.word_weight), THOUSAND)
        weight = weight * factor[words.of_place] // THOUSAND
    return weight


def weigh(
    priority: UInt64[np.ndarray, "total"], weight: Int64[np.ndarray, "total"]
) -> UInt64[np.ndarray, "total"]:
    """Priorities divided by weights, in units of 2**SHIFT; those of weight 0 come never."""
    scaled = (priority >> np.uint64(SHIFT)) * np.uint64(THOUSAND)
    return np.where(weight > 0, scaled // np.maximum(weight, 1).astype(np.uint64), NEVER)


def keys_of(tokens: Int64[np.ndarray, "total"], words: Units) -> UInt64[np.ndarray, "words"]:
    """A number for each word that only its tokens decide, whatever stands around it."""
    inside = np.flatnonzero(words.of_place >= 0)
    place = inside - words.first_place[words.of_place[inside]]
    mixed = mix_array(tokens[inside].astype(np.uint64) | place.astype(np.uint64) << np.uint64(32))
    starts = np.searchsorted(inside, words.first_place)
    return np.add.reduceat(mixed, starts) if len(starts) else mixed


def word_keys(words: list[list[int]]) -> UInt64[np.ndarray, "words"]:
    """The keys of words given as tokens, ascending: the form in which a word list is searched."""
    lengths = [len(word) for word in words]
    of_place = np.repeat(np.arange(len(words)), lengths)
    first = np.cumsum([0, *lengths[:-1]]) if words else np.zeros(0, dtype=np.int64)
    tokens = np.array([token for word in words for token in word], dtype=np.int64)
    return np.unique(keys_of(tokens, Units(of_place, first, np.zeros_like(first))))


def _thousandths(weight: float) -> int:
    return round(weight * THOUSAND)
