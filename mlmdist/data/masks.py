"""Masks: which tokens are predicted, and what stands in their place (laws M1, M2, M3).

A token's priority is a hash of (seed, epoch, its own window, its offset), so a mask does not depend
on rank, worker or batch, and a higher rate takes the same tokens and more. Devlin et al. 2019,
section 3.1 and A.1: 15 % of a row; of these 80 % [MASK], 10 % a random word, 10 % unchanged.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64, UInt64

from mlmdist.config import data as config
from mlmdist.data.batch import Stream
from mlmdist.data.mask_weights import NEVER, SHIFT, is_weighted, weigh, weights_of
from mlmdist.data.reader import Windows
from mlmdist.data.runs import pointers
from mlmdist.data.units import Units, heads_of, lengths_of, sizes, words_of
from mlmdist.rng import absorb_array, hash64, mix_array
from mlmdist.tokenizer import Vocabulary

MASK_VERSION = 1
MILLION = 1_000_000
NO_WORDS = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True)
class Masked:
    """A stream's tokens with the mask in place, the places chosen, and what stood there."""

    tokens: Int64[np.ndarray, "total"]
    index: Int64[np.ndarray, "masked"]
    labels: Int64[np.ndarray, "masked"]


def rate_at(mask: config.Mask, batch_number: int) -> int:
    """The share of tokens predicted in a batch, in millionths.

    It goes from `rate` to `final_rate`, where there is one, which holds from batch `final_rate_at`
    on: at once (`rate_change: step`), or in equal parts before that batch (`linear`).
    """
    first = round(mask.rate * MILLION)
    if mask.final_rate is None or mask.final_rate_at is None:
        return first
    last = round(mask.final_rate * MILLION)
    if batch_number >= mask.final_rate_at:
        return last
    if mask.rate_change == "step":
        return first
    return first + (last - first) * batch_number // mask.final_rate_at


def mean_rate(mask: config.Mask, num_batches: int) -> float:
    """The share of tokens predicted over all of `num_batches` batches."""
    changing = min(num_batches, mask.final_rate_at or 0)
    ends = rate_at(mask, 0), rate_at(mask, max(0, changing - 1)), rate_at(mask, changing)
    total = (ends[0] + ends[1]) / 2 * changing + ends[2] * (num_batches - changing)
    return total / num_batches / MILLION


def num_targets(
    lengths: Int64[np.ndarray, "rows"], rate: int | Int64[np.ndarray, "rows"]
) -> Int64[np.ndarray, "rows"]:
    """Tokens to predict in rows of these lengths: rate * length, halves rounded up, at least 1.

    `rate` is in millionths; [CLS] and [SEP] count in a length, as in Google's BERT.
    """
    return np.maximum(1, (2 * rate * lengths + MILLION) // (2 * MILLION))


def mask_stream(
    stream: Stream,
    windows: Windows,
    mask: config.Mask,
    vocabulary: Vocabulary,
    *,
    seed: int,
    rate: int | Int64[np.ndarray, "rows"],
    listed: UInt64[np.ndarray, "listed"] = NO_WORDS,
) -> Masked:
    """Choose the places to predict, `rate` millionths of each row's tokens, and replace them.

    Special tokens, [UNK] and the repeated head of a window are never chosen. A row gets at most
    `num_targets` of them, with `unit: token` exactly so many if it has them. `listed` are the
    `word_keys` of the words that `mask.word_weight` is for.
    """
    epoch = windows.keys(static=mask.static)
    offsets = _offsets(windows)
    candidate = _candidates(stream, windows, vocabulary, offsets)
    priority = _priorities(seed, epoch, stream, windows, offsets)
    rates = np.broadcast_to(np.int64(rate), len(stream.ptr) - 1)
    limit = np.zeros(0, dtype=np.uint64) if mask.exact else _thresholds(stream, rates)
    words = words_of(stream, windows) if mask.unit != "token" or is_weighted(mask) else None
    if words is not None and is_weighted(mask):
        weight = weights_of(stream, windows, mask, words, listed)
        priority, limit = weigh(priority, weight), limit >> np.uint64(SHIFT)
        candidate &= weight > 0
    if words is not None and mask.unit != "token":
        first = words.first_place
        if mask.unit != "word":
            draws = _hashes("mask group length", seed, epoch, stream, windows, first)
            first = first[heads_of(stream, words, lengths_of(mask.unit, draws))]
        chosen = _choose_words(stream, mask, words, candidate, priority[first], rates, limit)
    elif mask.exact:
        chosen = _lowest(stream, np.where(candidate, priority, NEVER), rates)
    else:
        chosen = candidate & (priority < limit)
    index = np.flatnonzero(chosen)
    hashes = _hashes("mask replacement", seed, epoch, stream, windows, index)
    tokens = stream.tokens.copy()
    labels = tokens[index]
    tokens[index] = _replacements(hashes, labels, mask, vocabulary)
    return Masked(tokens, index, labels)


def _candidates(
    stream: Stream, windows: Windows, vocabulary: Vocabulary, offsets: Int64[np.ndarray, "tokens"]
) -> Bool[np.ndarray, "total"]:
    """Ordinary tokens that are not context repeated from the window before."""
    ordinary = np.ones(vocabulary.size, dtype=np.bool_)
    ordinary[[*vocabulary.special_ids, vocabulary.unk_id]] = False
    target = ordinary[windows.tokens]
    if windows.repeated.any():
        target &= offsets >= np.repeat(windows.repeated, windows.lengths)
    return np.append(target, False)[stream.source]  # source -1, of specials, is the last


def _offsets(windows: Windows) -> Int64[np.ndarray, "tokens"]:
    """The place of each token of the windows in its window."""
    return np.arange(windows.ptr[-1]) - np.repeat(windows.ptr[:-1], windows.lengths)


def _priorities(
    seed: int,
    epoch: UInt64[np.ndarray, "windows"],
    stream: Stream,
    windows: Windows,
    offsets: Int64[np.ndarray, "tokens"],
) -> UInt64[np.ndarray, "total"]:
    """What `_hashes` gives to each ordinary place; NEVER at special tokens.

    There are few different offsets, so their share of the hash is computed once for each.
    """
    states = _states("mask priority", seed, epoch, windows)
    by_offset = mix_array(np.arange(windows.lengths.max(initial=0), dtype=np.uint64))
    hashes = mix_array(np.repeat(states, windows.lengths) ^ by_offset[offsets])
    return np.append(hashes, NEVER)[stream.source]


def _hashes(
    purpose: str,
    seed: int,
    epoch: UInt64[np.ndarray, "windows"],
    stream: Stream,
    windows: Windows,
    places: Int64[np.ndarray, "places"],
) -> UInt64[np.ndarray, "places"]:
    """A hash of (seed, epoch, document, window number, offset) for each of some places.

    What a special token gets has no meaning.
    """
    source = stream.source[places]
    state = _states(purpose, seed, epoch, windows)
    window = np.repeat(np.arange(len(state)), windows.lengths)[source]
    offset = (source - windows.ptr[window]).astype(np.uint64)
    return absorb_array(state[window], offset)


def _states(
    purpose: str, seed: int, epoch: UInt64[np.ndarray, "windows"], windows: Windows
) -> UInt64[np.ndarray, "windows"]:
    """A hash of (seed, epoch, document, window number) for each window."""
    state = absorb_array(hash64(purpose, seed), epoch)
    return absorb_array(absorb_array(state, windows.document_id), windows.window_number)


def _lowest(
    stream: Stream, priority: UInt64[np.ndarray, "total"], rates: Int64[np.ndarray, "rows"]
) -> Bool[np.ndarray, "total"]:
    """The places of the lowest priorities of each row, as many as its length and rate ask."""
    lengths = np.diff(stream.ptr)
    columns = np.arange(lengths.max())
    table = np.full((len(lengths), len(columns)), NEVER)
    table[columns < lengths[:, None]] = priority
    table.sort(axis=1)
    limit = table[np.arange(len(lengths)), num_targets(lengths, rates) - 1]
    return (priority <= np.repeat(limit, lengths)) & (priority != NEVER)


def _choose_words(
    stream: Stream,
    mask: config.Mask,
    words: Units,
    candidate: Bool[np.ndarray, "total"],
    priority: UInt64[np.ndarray, "units"],
    rates: Int64[np.ndarray, "rows"],
    limit: UInt64[np.ndarray, "limited"],
) -> Bool[np.ndarray, "total"]:
    """Whole words; words of one group follow each other, as they have its priority."""
    if mask.exact:
        wanted = num_targets(np.diff(stream.ptr), rates)
        taken = _walk(words, sizes(words, candidate), priority, wanted)
    else:
        taken = priority < limit[words.first_place]
    return candidate & np.append(taken, False)[words.of_place]


def _walk(
    units: Units,
    sizes: Int64[np.ndarray, "units"],
    priority: UInt64[np.ndarray, "units"],
    wanted: Int64[np.ndarray, "rows"],
) -> Bool[np.ndarray, "units"]:
    """Per row, take units by ascending priority, passing over those that no longer fit.

    Units of one priority come in the order in which they stand.
    """
    counts = np.bincount(units.row, minlength=len(wanted))
    column = np.arange(len(units.row)) - pointers(counts)[units.row]
    table = np.full((len(wanted), int(counts.max())), NEVER)
    table[units.row, column] = priority
    order = table.argsort(axis=1, kind="stable")
    widths = np.zeros(table.shape, dtype=np.int64)
    widths[units.row, column] = sizes
    widths = np.take_along_axis(widths, order, axis=1)
    fits = np.zeros(table.shape, dtype=np.bool_)
    left = wanted.copy()
    for step in range(table.shape[1]):
        fits[:, step] = (widths[:, step] > 0) & (widths[:, step] <= left)
        left -= np.where(fits[:, step], widths[:, step], 0)
        if not left.any():
            break
    taken = np.zeros_like(fits)
    np.put_along_axis(taken, order, fits, axis=1)
    return taken[units.row, column]


def _replacements(
    hashes: UInt64[np.ndarray, "masked"],
    original: Int64[np.ndarray, "masked"],
    mask: config.Mask,
    vocabulary: Vocabulary,
) -> Int64[np.ndarray, "masked"]:
    """[MASK], a random ordinary token or the original: high bits say which, low bits the token."""
    share = ((hashes >> np.uint64(32)) * np.uint64(MILLION)) >> np.uint64(32)
    words = np.uint64(len(vocabulary.drawable))
    drawn = ((hashes & np.uint64(0xFFFFFFFF)) * words) >> np.uint64(32)
    random = vocabulary.drawable[drawn.astype(np.int64)]
    mask_end = round(mask.mask_share * MILLION)
    random_end = mask_end + round(mask.random_share * MILLION)
    unmasked = np.where(share < random_end, random, original)
    return np.where(share < mask_end, vocabulary.mask_id, unmasked)


def _thresholds(stream: Stream, rates: Int64[np.ndarray, "rows"]) -> UInt64[np.ndarray, "total"]:
    """At each place the 64-bit number below which its row's share of all hashes lies."""
    known, which = np.unique(rates, return_inverse=True)
    limits = np.array([(int(rate) << 64) // MILLION for rate in known], dtype=np.uint64)
    return np.repeat(limits[which], np.diff(stream.ptr))
