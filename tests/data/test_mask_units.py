"""Spans, n-grams, weights and changing rates: law M3, and the distributions of the papers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mlmdist.config import data as config
from mlmdist.data.batch import lay_out
from mlmdist.data.mask_weights import word_keys
from mlmdist.data.masks import MILLION, mask_stream, mean_rate, num_targets, rate_at
from mlmdist.data.pairs import pair
from mlmdist.data.units import LENGTH_PARTS, heads_of, lengths_of, words_of
from mlmdist.errors import DataError
from mlmdist.rng import hash64
from tests.data.corpus import CAPACITY, VOCABULARY, cell_ptr, random_block, windows_of
from tests.data.test_masks import candidates, keys, make, priority

GROUPS = ["span", "ngram"]
blocks = st.builds(random_block, st.integers(1, 20), st.integers(0, 999))


def words_in(windows, stream, row) -> list[list[list[int]]]:
    """Places of each word of each segment of a row."""
    segments: list[list[list[int]]] = []
    for place in range(*stream.ptr[row : row + 2]):
        source = stream.source[place]
        if source < 0:
            segments.append([])
        elif windows.word_start[source] or not segments[-1]:
            segments[-1].append([place])
        else:
            segments[-1][-1].append(place)
    return segments


def reference_groups(windows, stream, row, unit, rate, seed, epoch) -> set[int]:
    """Groups laid out from the front of each segment, taken by priority, words that fit."""
    parts = LENGTH_PARTS[unit]
    ranked: list[tuple[int, int, list[int]]] = []
    for segment in words_in(windows, stream, row):
        word = 0
        while word < len(segment):
            head = segment[word][0]
            draw = hash64("mask group length", seed, epoch, *keys(windows, stream, [head])[0]) >> 32
            length = 1
            while draw * sum(parts) >= sum(parts[:length]) << 32 and length < len(parts):
                length += 1
            first = priority(windows, stream, head, seed, epoch)
            ranked += [(first, part[0], part) for part in segment[word : word + length]]
            word += length
    left = int(num_targets(np.diff(stream.ptr)[row : row + 1], rate)[0])
    taken: set[int] = set()
    for _, _, places in sorted(ranked):
        kept = candidates(windows, stream, places)
        if len(kept) <= left:
            taken.update(kept)
            left -= len(kept)
    return taken


def test_no_unit_crosses_a_separator_where_a_sentence_starts_inside_a_word():
    """A cut may stand before a token that starts no word: `Tallinn.Next` has no space."""
    block = random_block(200)
    windows = windows_of(replace(block, word_start=np.zeros_like(block.word_start)))
    spans = pair("nsp", windows, cell_ptr(200), 0, CAPACITY)
    stream = lay_out(windows, spans, VOCABULARY)
    units = words_of(stream, windows)
    inside = units.of_place >= 0
    segment = np.cumsum(~inside)[inside]  # of each ordinary token, counted by specials before it
    found = np.unique(np.stack([units.of_place[inside], segment]), axis=1)
    assert len(np.unique(found[0])) == found.shape[1] == len(stream.first_places)


@settings(max_examples=25)
@given(blocks, st.floats(0.01, 0.9), st.integers(0, 9), st.sampled_from(GROUPS))
def test_groups_follow_the_rule_word_by_word(block, rate, seed, unit):
    mask = config.Mask(rate=rate, unit=unit)
    windows, stream, masked = make(block, mask, epoch=2, seed=seed)
    expected = [
        reference_groups(windows, stream, row, unit, rate_at(mask, 0), seed, 2)
        for row in range(block.num_rows)
    ]
    assert set(masked.index.tolist()) == set().union(*expected)


def drawn_lengths(unit: str) -> np.ndarray:
    """Lengths in words of the groups of long segments, as laid out."""
    block = random_block(400, 6, capacity=509, most_sentences=60)
    windows = windows_of(block)
    stream = lay_out(windows, pair("none", windows, cell_ptr(400), 0, 509), VOCABULARY)
    words = words_of(stream, windows)
    draws = np.array([hash64("draw", n) for n in range(len(words.row))], dtype=np.uint64)
    heads = heads_of(stream, words, lengths_of(unit, draws))
    last = words.row != np.append(words.row[1:], -1)
    whole = ~np.isin(heads, heads[last])  # not those that the end of a segment cuts
    return np.bincount(heads[whole])[np.unique(heads[whole])]


def test_spans_have_the_lengths_of_spanbert():
    """Joshi et al. 2020, 3.1: geometric, p = 0.2, at most 10, mean 3.8."""
    weights = np.array([0.2 * 0.8 ** (n - 1) for n in range(1, 11)])
    check_lengths(drawn_lengths("span"), weights / weights.sum())
    assert (weights / weights.sum() * np.arange(1, 11)).sum() == pytest.approx(3.797, abs=1e-3)


def test_n_grams_have_the_lengths_of_albert():
    """Lan et al. 2020, 4.2: p(n) = (1 / n) / (1 + 1/2 + 1/3), n up to 3."""
    check_lengths(drawn_lengths("ngram"), np.array([1, 1 / 2, 1 / 3]) / (11 / 6))


def check_lengths(found: np.ndarray, expected: np.ndarray) -> None:
    count = len(found)
    shares = np.bincount(found, minlength=len(expected) + 1)[1:] / count
    assert count > 3000
    assert (np.abs(shares - expected) < 4.5 * np.sqrt(expected * (1 - expected) / count)).all()


@pytest.mark.parametrize(("unit", "mean"), [("word", 1.0), ("ngram", 18 / 11), ("span", 3.797)])
def test_masked_runs_are_as_long_as_the_units(unit, mean):
    """A coin a group takes a fair sample; an exact mask cuts the last of a row to what fits."""
    block = random_block(600, 8, capacity=509, most_sentences=60)
    block = replace(
        block, repeated=np.zeros(600, np.uint16), word_start=np.ones_like(block.word_start)
    )
    windows = windows_of(block)
    stream = lay_out(windows, pair("none", windows, cell_ptr(600), 0, 509), VOCABULARY)
    mask = config.Mask(unit=unit, rate=0.05, exact=False)
    masked = mask_stream(stream, windows, mask, VOCABULARY, seed=0, rate=rate_at(mask, 0))
    runs = 1 + np.count_nonzero(np.diff(masked.index) > 1)
    touching = 1 / (1 - 0.05)  # runs that touch count as one
    assert len(masked.index) / runs == pytest.approx(mean * touching, rel=0.08)


@pytest.mark.parametrize("unit", ["token", "word", "span", "ngram"])
def test_m3_a_group_does_not_depend_on_the_rate(unit):
    """Bernoulli masks of a higher rate take the same units and more."""
    block = random_block(60, 3)
    low, high = (
        make(block, config.Mask(unit=unit, exact=False, rate=rate))[2].index for rate in (0.1, 0.3)
    )
    assert np.isin(low, high).all()
    assert len(low) < len(high)


def tagged(num_windows: int):
    """A third of the tokens has tag 1, a third tag 2."""
    block = random_block(num_windows, 5)
    tags = np.array([hash64("tag", n) % 3 for n in range(len(block.tokens))], dtype=np.uint8)
    return replace(block, tag=tags, repeated=np.zeros(num_windows, np.uint16)), tags


def weighted(block, mask, listed=()):
    windows = replace(windows_of(block), tag=block.tag)
    stream = lay_out(
        windows, pair("none", windows, cell_ptr(block.num_rows), 0, CAPACITY), VOCABULARY
    )
    keys = word_keys([list(word) for word in listed])
    return windows, stream, mask_stream(
        stream, windows, mask, VOCABULARY, seed=1, rate=rate_at(mask, 0), listed=keys
    )  # fmt: skip


@pytest.mark.parametrize("exact", [True, False])
def test_tags_are_masked_by_weight(exact):
    block, tags = tagged(1500)
    weights = (config.TagWeight(tag=1, weight=3), config.TagWeight(tag=2, weight=0))
    mask = config.Mask(rate=0.06, exact=exact, tag_weights=weights)
    _, stream, masked = weighted(block, mask)
    chosen = np.bincount(tags[stream.source[masked.index]], minlength=3)
    assert chosen[2] == 0
    assert chosen[1] / chosen[0] == pytest.approx(3, rel=0.1)
    if not exact:
        assert chosen[0] / (len(tags) / 3) == pytest.approx(0.06 * 0.98, rel=0.08)


@pytest.mark.parametrize("unit", ["token", "word", "span", "ngram"])
@pytest.mark.parametrize("exact", [True, False])
def test_a_weight_of_nothing_leaves_a_tag_out_of_every_unit(unit, exact):
    block, tags = tagged(100)
    weights = tuple(config.TagWeight(tag=tag, weight=0) for tag in (1, 2))
    mask = config.Mask(rate=0.3, unit=unit, exact=exact, tag_weights=weights)
    windows, stream, masked = weighted(block, mask)
    if unit != "token":  # a word has the tag of its first token
        words = words_of(stream, windows)
        masked_first = words.first_place[words.of_place[masked.index]]
        assert (tags[stream.source[masked_first]] == 0).all()
    else:
        assert (tags[stream.source[masked.index]] == 0).all()
    assert len(masked.index) > 0


def test_tag_weights_without_tags_are_refused():
    mask = config.Mask(tag_weights=(config.TagWeight(tag=1, weight=2),))
    with pytest.raises(DataError, match="the shards have no tags"):
        make(random_block(3), mask)


def test_listed_words_are_masked_by_weight_wherever_they_stand():
    block = replace(random_block(1200, 9), repeated=np.zeros(1200, np.uint16))
    common = block.tokens.astype(int) % 7 + 100  # few words, so that they come often
    block = replace(
        block, tokens=common.astype(np.uint16), word_start=np.ones_like(block.word_start)
    )
    mask = config.Mask(rate=0.05, word_list=Path("words.txt"), word_weight=4)
    _, _, masked = weighted(block, mask, listed=[[100], [103], [5, 6]])
    chosen = np.bincount(masked.labels - 100, minlength=7)
    plain = chosen[[1, 2, 4, 5, 6]].mean()
    assert (chosen[[0, 3]] / plain) == pytest.approx(4, rel=0.15)
    _, _, none = weighted(
        block, config.Mask(word_list=Path("words.txt"), word_weight=0), listed=[[100]]
    )
    assert 100 not in none.labels


def test_a_word_of_several_tokens_is_found_whole():
    block = replace(random_block(200, 9), repeated=np.zeros(200, np.uint16))
    windows = windows_of(block)
    stream = lay_out(windows, pair("none", windows, cell_ptr(200), 0, CAPACITY), VOCABULARY)
    words = words_of(stream, windows)
    ends = np.flatnonzero(np.diff(words.of_place, append=-1))
    long = next(w for w in range(5, 500) if np.count_nonzero(words.of_place == w) == 3)
    target = stream.tokens[words.of_place == long].tolist()
    mask = config.Mask(rate=0.9, unit="word", exact=False, word_list=Path("w"), word_weight=0)
    _, _, masked = weighted(block, mask, listed=[target])
    assert not np.isin(np.flatnonzero(words.of_place == long), masked.index).any()
    _, _, other = weighted(block, mask, listed=[target[::-1], target[:2], [*target, 77]])
    assert np.isin(np.flatnonzero(words.of_place == long), other.index).any() or len(ends) == 0


@given(st.integers(0, 2000), st.sampled_from(["linear", "step"]))
def test_the_rate_goes_from_the_first_to_the_final(number, change):
    mask = config.Mask(rate=0.3, final_rate=0.15, final_rate_at=1000, rate_change=change)
    found = rate_at(mask, number) / MILLION
    if number >= 1000:
        assert found == 0.15
    elif change == "step":
        assert found == 0.3
    else:
        assert found == pytest.approx(0.3 - 0.15 * number / 1000, abs=2e-6)


@pytest.mark.parametrize("steps", [1, 7, 1000, 1500])
@pytest.mark.parametrize("change", ["linear", "step"])
def test_the_mean_rate_is_that_of_the_batches(steps, change):
    mask = config.Mask(rate=0.3, final_rate=0.15, final_rate_at=1000, rate_change=change)
    walked = np.mean([rate_at(mask, number) for number in range(steps)]) / MILLION
    assert mean_rate(mask, steps) == pytest.approx(walked, abs=2e-6)
    assert mean_rate(config.Mask(), steps) == pytest.approx(0.15)


def test_half_a_change_is_refused():
    with pytest.raises(ValidationError, match="go together"):
        config.Mask(final_rate=0.1)
