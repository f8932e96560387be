"""tokenizer.json gives SentencePiece's ids, whatever the text."""

import functools
import json
import re

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from mlmdist.errors import DataError
from mlmdist.export.ties import is_tie
from mlmdist.export.tokenizer_json import tokenizer_json
from mlmdist.tokenizer import SPACE
from tests.export.corpus import HAN, MARKS, text_lines, train, train_with

KINDS = [("unigram", False), ("unigram", True), ("bpe", False), ("bpe", True)]
kinds = pytest.mark.parametrize(("kind", "byte_fallback"), KINDS)
NAMES = ["[MASK]", "[SEP]", "[CLS]", "[PAD]", "[UNK]", "<0x41>", "\uff3bMASK\uff3d"]
texts = st.lists(
    st.one_of(
        st.sampled_from(["ba", "ki", "Lo", "mu", "ren", "aaaa", "----", "12", "\u0301", "\ufb01"]),
        st.sampled_from([" ", "  ", "\t", "\n", "\u00a0", "\u3000", "\x1c", "\x85", "\u2028"]),
        st.sampled_from(NAMES),
        st.sampled_from([SPACE, "\U0001f600", "\u2460", "\u00bd", "\u00a8"]),
        st.text(HAN + MARKS + "abcABC", max_size=5),
        st.characters(blacklist_categories=["Cs", "Cn"]),
    ),
    max_size=12,
).map("".join)


@functools.cache
def exported(kind, byte_fallback):
    """The tokenizer out of the file, made to read special tokens' names as text."""
    content = tokenizer_json(train(kind, byte_fallback=byte_fallback))
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
    theirs.encode_special_tokens = True
    return theirs


@kinds
def test_ids_equal_sentencepieces_on_ordinary_text(kind, byte_fallback):
    lines = text_lines(500, 2)
    expected = train(kind, byte_fallback=byte_fallback).encode(lines)
    answers = exported(kind, byte_fallback).encode_batch(lines, add_special_tokens=False)
    assert [answer.ids for answer in answers] == expected


@kinds
@settings(max_examples=300, deadline=None)
@given(text=texts)
def test_w3_ids_equal_sentencepieces_on_any_text(kind, byte_fallback, text):
    expected = train(kind, byte_fallback=byte_fallback).encode([text])[0]
    answer = exported(kind, byte_fallback).encode(text, add_special_tokens=False).ids
    tokenizer = train(kind, byte_fallback=byte_fallback)
    assert answer == expected or (kind == "unigram" and is_tie(expected, answer, tokenizer))


def test_a_blank_takes_the_space_before_it_and_no_other():
    for kind, byte_fallback in KINDS:
        theirs = exported(kind, byte_fallback)
        theirs.encode_special_tokens = False
        for text in ("ba [MASK] ki", "ba[MASK] ki", "  ba  [MASK]  ki", "ba \uff3bMASK\uff3d ki"):
            tokens = theirs.encode(text).tokens
            assert [token.strip() for token in tokens] == [
                "[CLS]",
                *theirs.encode("ba", add_special_tokens=False).tokens,
                "[MASK]",
                *theirs.encode("ki", add_special_tokens=False).tokens,
                "[SEP]",
            ]
        theirs.encode_special_tokens = True


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"model_type": "char", "vocab_size": 60}, "unigram or bpe"),
        ({"normalization_rule_name": "nmt_nfkc"}, "normalization_rule_name='nmt_nfkc'"),
        ({"add_dummy_prefix": False}, "add_dummy_prefix=False"),
        ({"user_defined_symbols": "<x>"}, "'<x>'"),
    ],
)
def test_a_model_that_the_recipe_does_not_cover_is_refused(change, rule):
    with pytest.raises(DataError, match=re.escape(rule)):
        tokenizer_json(train_with(**change))


@pytest.mark.parametrize("text", ["", " ", SPACE, f"{SPACE}ba", f" {SPACE} ba{SPACE} ", "\tba"])
def test_spaces_and_space_marks_at_the_ends(text):
    for kind, byte_fallback in KINDS:
        expected = train(kind, byte_fallback=byte_fallback).encode([text])[0]
        answer = exported(kind, byte_fallback).encode(text, add_special_tokens=False)
        assert answer.ids == expected


@pytest.mark.parametrize("byte_fallback", [False, True])
@settings(max_examples=300)
@given(
    text=st.lists(
        st.sampled_from([*NAMES[:6], "ba", "lo", " ", "[", "M", "\u0416", "\u5357", "<0x5B>", "x"]),
        max_size=9,
    ).map("".join)
)
def test_w3_names_without_one_known_character_stay_text(byte_fallback, text):
    tokenizer = train("unigram", byte_fallback=byte_fallback, letters_only=True)
    theirs = letters_only(byte_fallback)
    expected = tokenizer.encode([text])[0]
    answer = theirs.encode(text, add_special_tokens=False).ids
    assert answer == expected or is_tie(expected, answer, tokenizer)


@functools.cache
def letters_only(byte_fallback):
    content = tokenizer_json(train("unigram", byte_fallback=byte_fallback, letters_only=True))
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
    theirs.encode_special_tokens = True
    return theirs
