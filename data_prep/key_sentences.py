"""The most informative sentences of a document: a score for each, and which of them are kept.

A token weighs as much as it is more frequent in its document than in the language, in bits: the
pointwise divergence of Tomokiyo and Hurst 2003 ("A language model approach to keyphrase
extraction"), with the count damped as in Manning, Raghavan and Schütze 2008, section 6.4.1:

    weight(t) = floor(1 + log2 count(t)) * max(0, log2(count(t) / document's tokens) - log2 p(t))

A sentence scores the sum of its tokens' weights over its length, as a summary by frequency does
(Nenkova and Vanderwende 2005), SMOOTHING tokens of weight 0 added, so that a heading of one rare
word does not come first. Function words are as frequent here as anywhere and weigh about nothing.

p(t) is the tokenizer's: a unigram model has log probabilities; where there are none, pieces are
taken to be in the order of their frequency, p(t) proportional to 1 / rank (Zipf 1949). So the score
is a function of document and tokenizer. All of it is whole numbers, the same on every machine.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

FRACTION_BITS = 6  # a bit of information is 64
SMOOTHING = 8
ZIPF_SUM_BITS = 7 << (FRACTION_BITS - 1)  # log2 of the harmonic number of 2**15 or so pieces: 3.5
SCORE_BITS = 8


def information(scores: Sequence[float]) -> Int64[np.ndarray, "ids"]:
    """-log2 p of each id, in 64ths of a bit, from the scores of the tokenizer's pieces.

    Scores that are no whole numbers are natural logarithms of probabilities, as a unigram model has
    them; others (BPE has ranks, WordPiece nothing) are not used.
    """
    given = np.array(scores, dtype=np.float64)
    if np.any(given != np.round(given)):
        return np.maximum(0, np.round(given * (-(1 << FRACTION_BITS) / np.log(2)))).astype(np.int64)
    return ZIPF_SUM_BITS + log2_fixed(np.arange(1, len(given) + 1))


def log2_fixed(values: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
    """floor(64 * log2(value)) of whole numbers from 1 to 2**31 - 1, by squaring."""
    whole = np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1
    mantissa = values.astype(np.uint64) << (31 - whole).astype(np.uint64)  # [2**31, 2**32)
    result = whole
    for _ in range(FRACTION_BITS):
        mantissa = mantissa * mantissa >> np.uint64(31)
        doubled = mantissa >> np.uint64(32)
        mantissa >>= doubled
        result = result << 1 | doubled.astype(np.int64)
    return result


def sentence_scores(
    tokens: np.ndarray,
    starts: Int64[np.ndarray, "sentences"],
    known: Int64[np.ndarray, "ids"],
) -> Int64[np.ndarray, "sentences"]:
    """The score of each sentence of a document.

    `tokens` are the document's ids, `starts` the places in them where sentences start, the first 0,
    `known` the `information` of each id.
    """
    counts = np.bincount(tokens, minlength=len(known))[tokens]
    damped = np.frexp(counts.astype(np.float64))[1].astype(np.int64)
    total = log2_fixed(np.array([len(tokens)]))
    weights = damped * np.maximum(0, log2_fixed(counts) - total + known[tokens])
    lengths = np.diff(np.append(starts, len(tokens)))
    return (np.add.reduceat(weights, starts) << SCORE_BITS) // (lengths + SMOOTHING)


def chosen(
    scores: Int64[np.ndarray, "sentences"], lengths: Int64[np.ndarray, "sentences"], budget: int
) -> list[int]:
    """The sentences kept, ascending: by score, the earlier of two first, each that still fits.

    `budget` is the most tokens of all. Where no sentence fits it is the best one alone.
    """
    order = np.lexsort((np.arange(len(scores)), -scores))
    fitting = order[lengths[order] <= budget]
    if not fitting.size:
        return [int(order[0])]
    shortest = int(lengths[fitting].min())
    kept: list[int] = []
    left = budget
    for sentence, length in zip(fitting.tolist(), lengths[fitting].tolist(), strict=True):
        if length <= left:
            kept.append(sentence)
            left -= length
        if left < shortest:
            break
    return sorted(kept)
