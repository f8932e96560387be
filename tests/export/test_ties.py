"""A difference in ids counts as a tie only if the scores are equal to rounding."""

from typing import Any

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from mlmdist.export.ties import is_tie
from mlmdist.tokenizer import SPACE, SentencePieceTokenizer
from mlmdist.tokenizer.sentence_piece import UNK_ID
from tests.export.corpus import train

BASE = {SPACE: -1.0, "x": -2.0, "y": -3.0, "z": -4.0, "xy": -2.5}


def unigram(**scores: float) -> SentencePieceTokenizer:
    """A tokenizer of just these pieces, besides BASE."""
    proto: Any = sentencepiece_model_pb2
    model = proto.ModelProto.FromString(train("unigram").processor.serialized_model_proto())
    del model.pieces[5:]
    for piece, score in {**BASE, **scores}.items():
        model.pieces.add(piece=piece, score=score)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    return SentencePieceTokenizer(processor)


def compare(tokenizer: SentencePieceTokenizer, ours: str, theirs: str) -> bool:
    """Whether two segmentations, written with blanks between pieces, tie."""
    first, second = (
        [tokenizer.pieces.index(piece) for piece in text.split()] for text in (ours, theirs)
    )
    return is_tie(first, second, tokenizer)


@pytest.mark.parametrize(
    ("score", "expected"), [(-2.5, True), (-2.5000002, True), (-2.50001, False)]
)
def test_scores_must_be_equal_to_float_rounding(score, expected):
    tokenizer = unigram(yx=score)
    assert compare(tokenizer, f"{SPACE} xy x", f"{SPACE} x yx") is expected
    assert compare(tokenizer, f"{SPACE} x yx", f"{SPACE} xy x") is expected


def test_every_stretch_that_differs_must_tie_on_its_own():
    tokenizer = unigram(yx=-2.5, zy=-7.5, xz=-5.5)
    assert compare(tokenizer, "xy x z y", "x yx z y")
    assert not compare(tokenizer, "xy x z y", "x yx zy")
    assert not compare(tokenizer, "x z zy", "xz z y")  # +0.5 here and -0.5 there


def test_rounding_grows_with_the_sum_before():
    tokenizer = unigram(yx=-2.50002)
    assert not compare(tokenizer, "xy x", "x yx")
    assert compare(tokenizer, "z " * 100 + "xy x", "z " * 100 + "x yx")


def test_other_text_or_no_difference_is_no_tie():
    tokenizer = unigram(yx=-2.5)
    assert not compare(tokenizer, "xy x", "xy y")
    assert not compare(tokenizer, "xy x", "xy x x")
    assert not compare(tokenizer, "xy x", "xy x")


def test_other_text_of_the_same_length_and_score_is_no_tie():
    tokenizer = unigram(w=-2.0)
    assert not compare(tokenizer, f"{SPACE} x y", f"{SPACE} w y")


def test_an_unknown_stretch_has_no_score_to_tie_with():
    tokenizer = unigram(yx=-2.5)
    x, xy, yx = (tokenizer.pieces.index(piece) for piece in ("x", "xy", "yx"))
    assert is_tie([UNK_ID, xy, x], [UNK_ID, x, yx], tokenizer)
    assert not is_tie([UNK_ID, xy, x], [UNK_ID, UNK_ID, xy, x], tokenizer)
