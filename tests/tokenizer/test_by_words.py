"""Encoding by remembered words gives what SentencePiece gives for the whole text, always."""

import bz2
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlmdist.tokenizer import Encoded, SentencePieceTokenizer, Tokenizer, base, memo
from mlmdist.tokenizer.memo import WordMemo
from mlmdist.tokenizer.sentence_piece import UNK_ID
from mlmdist.tokenizer.word_table import WordTable
from tests.export import corpus
from tests.export.corpus import text_lines
from tests.tokenizer.models import sentence_piece

SCORES = (-0.1, -1.0, -1.7, -2.13, -2.77, -3.37, -4.71, -11.3)
WORDS = ["".join(letters) for n in range(1, 5) for letters in product("xy", repeat=n)]


def assert_whole(tokenizer: SentencePieceTokenizer, texts: list[str]) -> Encoded:
    """The ids are those of SentencePiece for each text, and the ends those of its own offsets."""
    encoded = tokenizer.encode_with_ends(texts)
    before = 0
    for text, (start, stop) in zip(texts, pairwise(encoded.ptr.tolist()), strict=True):
        assert encoded.tokens[start:stop].tolist() == tokenizer.processor.encode(text), text
        made = tokenizer.processor.encode(text, return_type="proto")
        ends = [before + len(text.encode()[: piece.end].decode()) for piece in made.pieces]
        assert encoded.char_end[start:stop].tolist() == ends
        before += len(text)
    return encoded


def train(kind: str, *, byte_fallback: bool = False) -> SentencePieceTokenizer:
    """A trained tokenizer that remembers no word yet."""
    return SentencePieceTokenizer(corpus.train(kind, byte_fallback=byte_fallback).processor)


words = st.sampled_from([*WORDS, "xyx" * 30, "é", "xéy", "éé", "[MASK]"])
texts = st.lists(
    st.lists(words, max_size=12).map(" ".join)
    | st.tuples(words, st.integers(1, 400), words).map(lambda t: f"{t[0]} " * t[1] + t[2]),
    max_size=5,
)


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[dict[str, float], str, bool]:
    """Few letters, many pieces, few scores: ways to cut that tie or nearly tie are the rule."""
    kind = draw(st.sampled_from(["unigram", "bpe"]))
    fronts = draw(st.sampled_from([("", "▁"), ("",), ("▁",)]))
    pieces = [f"{front}{word}" for front in fronts for word in WORDS[:14]]
    chosen = draw(st.lists(st.sampled_from(pieces), unique=True, min_size=1))
    chosen += ["▁"] if draw(st.booleans()) else []
    scores = st.sampled_from(SCORES) | st.floats(-20, -0.5, width=32)
    if kind == "bpe":
        return {piece: -float(rank) for rank, piece in enumerate(chosen)}, kind, False
    return {piece: draw(scores) for piece in chosen}, kind, draw(st.booleans())


@settings(max_examples=150)
@given(vocabulary=vocabularies(), texts=texts)
def test_ids_and_ends_are_those_of_the_whole_text(
    vocabulary: tuple[dict[str, float], str, bool], texts: list[str]
) -> None:
    pieces, kind, byte_fallback = vocabulary
    tokenizer = sentence_piece(pieces, kind, byte_fallback=byte_fallback)
    assert_whole(tokenizer, texts)
    assert_whole(tokenizer, texts[::-1])  # now from memory


def test_a_word_that_rounding_cuts_otherwise_far_into_a_text() -> None:
    """xyx is x + yx or xy + x, whose sums are equal but for 32 bits."""
    pieces = {"▁": -0.5, "x": -2.13, "y": -3.37, "z": -4.71, "xy": -2.77, "yx": -2.77, "▁z": -4.9}
    tokenizer = sentence_piece(pieces)
    lines = ["z " * number + "xyx" for number in range(1, 300)]
    encoded = assert_whole(tokenizer, lines)
    ways = {tuple(encoded.tokens[stop - 2 : stop].tolist()) for stop in encoded.ptr[1:]}
    assert len(ways) == 2, "one way throughout: nothing is tested"


def test_near_ties_are_safe_only_in_texts_that_are_light_enough() -> None:
    """The gap of 1e-3 nats outlives a short text's rounding, but not a long one's."""
    pieces = {"▁": -0.5, "x": -2.0, "y": -9.0, "xy": -4.001, "yx": -4.0, "▁zzzz": -9.0}
    tokenizer = sentence_piece(pieces)
    whole = 0

    def count(text: str) -> base.TextTokens:
        nonlocal whole
        whole += 1
        return SentencePieceTokenizer._encode_whole(tokenizer, text)

    tokenizer._encode_whole = count
    for length, alone in ((1, 0), (10, 0), (3000, 1)):
        whole = 0
        assert_whole(tokenizer, ["zzzz " * length + "xyx"])
        assert whole == alone, length


def test_unknown_words_that_sentencepiece_joins_across_spaces() -> None:
    """Without a piece for the space, unknown words become one [UNK]."""
    tokenizer = sentence_piece({"▁x": -1.0, "x": -2.0})
    encoded = assert_whole(tokenizer, ["é é x é", "x", "é"])
    assert encoded.tokens.tolist().count(UNK_ID) == 3
    assert_whole(tokenizer, ["xé", "éé"])


def test_an_unknown_character_weighs_ten_nats_more_than_the_worst_piece() -> None:
    """x + [UNK] + yy is at -32, xéy + y at -27; without the ten nats the first would be at -22."""
    pieces = {"▁": -0.5, "x": -1.0, "xéy": -14.0, "y": -13.0, "yy": -1.0, "z": -20.0}
    tokenizer = sentence_piece(pieces)
    encoded = assert_whole(tokenizer, ["xéyy"])
    assert UNK_ID not in encoded.tokens


def test_pieces_that_hold_spaces_are_followed() -> None:
    tokenizer = sentence_piece({"▁x": -3.0, "▁x▁y": -1.0, "▁": -2.0, "x": -2.0, "y": -2.0})
    assert len(assert_whole(tokenizer, ["x y x", "x x y"]).tokens) == 4


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_trained_tokenizers(kind: str, byte_fallback: bool) -> None:
    tokenizer = train(kind, byte_fallback=byte_fallback)
    lines = [tokenizer.normalize(line) for line in text_lines(300, 8)]
    lines += [
        "",
        "😀",
        "ba 😀😀 ki",
        "ba" * 40,
        "南京市长江大桥建于年",
        "a" * 5000,
        "",
        "[MASK] [SEP]",
    ]
    assert_whole(tokenizer, lines)


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_real_text(kind: str, every: int) -> None:
    """The lines of the dump that gensim ships, mark-up and all."""
    from data_prep.config import Source
    from data_prep.sources.files import find_files
    from tests.data_prep.corpus import DUMP

    path = find_files([Source(path=DUMP, format="mediawiki")])[0].path
    raw = bz2.decompress(path.read_bytes()).decode().split("\n")
    tokenizer = train(kind)
    lines = [line for line in map(tokenizer.normalize, raw[::every]) if line]
    encoded = tokenizer.encode_with_ends(lines)
    for line, (start, stop) in zip(lines, pairwise(encoded.ptr.tolist()), strict=True):
        assert encoded.tokens[start:stop].tolist() == tokenizer.processor.encode(line), line


def as_lists(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    encoded = tokenizer.encode_with_ends(texts)
    return [encoded.tokens.tolist(), encoded.char_end.tolist(), encoded.ptr.tolist()]


def test_what_the_memo_holds_changes_nothing() -> None:
    tokenizer, forgetful = train("unigram"), train("unigram")
    lines = [tokenizer.normalize(line) for line in text_lines(200, 9)]
    expected = as_lists(tokenizer, lines)
    forgetful.memo = WordMemo(max_words=7)
    forgetful._unigram.units = WordMemo(max_words=5)
    for size in (1, 3, 50):
        batches = [lines[first : first + size] for first in range(0, len(lines), size)]
        tokens = [token for batch in batches for token in as_lists(forgetful, batch)[0]]
        assert tokens == expected[0]
        assert len(forgetful.memo.table) < 7 + 50 * 26
    assert as_lists(tokenizer, lines) == expected


def test_the_memo_keeps_what_came_again() -> None:
    tokenizer = train("bpe")
    tokenizer.memo = WordMemo(max_words=20)
    for number in range(200):
        tokenizer.encode_with_ends([f"ba ki lo {number}"])
    assert len(tokenizer.memo.table) <= 22
    table = tokenizer.memo.table
    assert {"", "ba", "ki", "lo"} <= set(table.words(np.arange(len(table))))


def test_being_stopped_while_words_are_forgotten_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = train("bpe")
    tokenizer.memo = WordMemo(max_words=4)
    assert_whole(tokenizer, ["ba ki lo mu shi renba"])
    real, made = memo._Column, 0

    def column(dtype: type[np.generic]) -> memo._Column:
        nonlocal made
        made += 1
        if made == 3:
            raise KeyboardInterrupt
        return real(dtype)

    monkeypatch.setattr(memo, "_Column", column)
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode_with_ends(["lo vor"])
    assert made > 3, "it was not stopped"
    assert_whole(tokenizer, ["vor ki", "shi ba renba mu"])


def test_a_text_that_cannot_be_encoded_leaves_no_trace() -> None:
    tokenizer = train("bpe")
    for _ in range(2):
        with pytest.raises((RuntimeError, UnicodeError)):
            tokenizer.encode_with_ends(["ba ki", "lo \ud800 mu"])
        assert_whole(tokenizer, ["ba lo", "mu ki"])


def test_batches_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = train("unigram")
    lines = [tokenizer.normalize(line) for line in text_lines(60, 10)]
    expected = as_lists(tokenizer, lines)
    monkeypatch.setattr(base, "BATCH_CHARS", 100)
    assert as_lists(tokenizer, lines) == expected
    assert as_lists(tokenizer, []) == [[], [], [0]]
    assert as_lists(tokenizer, ["", ""]) == [[], [], [0, 0, 0]]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_text_too_long_to_be_encoded_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LONGEST_CHARS", 2000)
    tokenizer = train(kind)
    spaced = tokenizer.normalize(" ".join(text_lines(100, 11)))
    assert len(spaced) > 5000
    encoded = tokenizer.encode_with_ends([spaced, "ba ki", "balo" * 2000])
    first, second, third = (encoded.tokens[a:b].tolist() for a, b in pairwise(encoded.ptr.tolist()))
    assert first == tokenizer.processor.encode(spaced)
    assert second == tokenizer.processor.encode("ba ki")
    assert tokenizer.decode(third) == "balo" * 2000
    assert len(third) <= len(tokenizer.processor.encode("balo" * 2000)) + 8
    assert (np.diff(encoded.char_end) >= 0).all()


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_cut_inside_a_word_leaves_no_trace(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens near the cut are made again, with what stands behind it."""
    tokenizer = train(kind)
    for length in (2000, 2001, 2003):
        monkeypatch.setattr(base, "LONGEST_CHARS", length)
        assert_whole(tokenizer, ["balokimuren" * 600])


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("length", [2000, 2001, 2003])
def test_a_cut_between_characters_spelled_in_bytes_leaves_no_trace(
    kind: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = train(kind, byte_fallback=True)
    monkeypatch.setattr(base, "LONGEST_CHARS", length)
    assert_whole(tokenizer, ["\U0001f600" * 6001, "balo\U0001f600\u4e2dki" * 900])


def test_what_fails_between_numbers_and_tokens_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer, texts = train("unigram"), ["ba ki lo mu", "re ki nu ba"]
    real = WordTable._add

    def fails_once(table: WordTable, rows: np.ndarray) -> None:
        real(table, rows)
        monkeypatch.setattr(WordTable, "_add", real)
        raise MemoryError

    monkeypatch.setattr(WordTable, "_add", fails_once)
    with pytest.raises(MemoryError):
        tokenizer.encode_with_ends(texts)
    assert_whole(tokenizer, texts)


def test_long_words_are_kept_up_to_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MAX_LONG_BYTES", 1000)
    tokenizer = train("unigram")
    for number in range(40):
        tokenizer.encode_with_ends([f"ba ki lo mu ba ki lo mu ba ki lo mu {number:0>90}"] * 2)
        assert tokenizer.memo.table.long_bytes <= 1090
    assert len(tokenizer.memo.table) < 40


@pytest.mark.long
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_100_megabytes_without_a_space(kind: str) -> None:
    import resource
    import time

    tokenizer = train(kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    encoded = tokenizer.encode_with_ends(["balokimuren" * 9_100_000])
    assert encoded.char_end[-1] == 100_100_000
    assert time.process_time() - began < 300
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 1000
