"""WordPiece: the ids of transformers' fast BERT tokenizer, with a place in the text for each."""

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.config import TokenizerTraining
from data_prep.existing_tokenizer import take_tokenizer
from mlmdist.errors import DataError
from mlmdist.tokenizer import WordPieceTokenizer, load_tokenizer, save_tokenizer
from mlmdist.tokenizer.memo import WordMemo
from tests.tokenizer.models import real_vocabulary

TEXTS = (
    "The cat sat on the mat, and the dog (12 years old) barked at 3 cats' tails; don't!",
    "ÜBER den Wolken muß die Freiheit wohl grenzenlos sein: naïve café, İstanbul.",
    "北京是中华人民共和国的首都。猫坐在垫子上,2008年BERT模型(百度)很大。",
    "南京市长江大桥 建于年 are 兵憲 of 東京タワー",
    "Москва — столица России; יְרוּשָׁלַיִם and كِتَابٌ جَدِيدٌ. क्षत्रिय ก็ดี 한국어 도시",
    "A page about BERT says [MASK], [CLS] and [SEP]; they are text: [PAD][UNK] ##s [unused1].",
    "x\u0301 \u0301y a\u200bb \u200b c \u00ad \U0001f600\U0001f468\u200d\U0001f469 \u2047",
    "supercalifragilisticexpialidocious " + "z" * 150 + " hyperparathyroidism",
    "",
    "\u0301",
)

pieces = st.sampled_from(
    [
        "the",
        " ",
        " ",
        "Cat",
        "京",
        "。",
        "é",
        "é",
        "́",
        "\u200b",
        "İ",
        "ﬁ",
        "[MASK]",
        "ß",
        "##s",
        "한",
        "😀",
        "\ue000",
        "-",
        "½",
        "ы",
        "の",
        "𠀀",
        "豈",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ]
)


@pytest.fixture(scope="module")
def tokenizer() -> WordPieceTokenizer:
    path = str(real_vocabulary())
    taken = take_tokenizer(TokenizerTraining(kind="wordpiece", path=path))
    assert isinstance(taken, WordPieceTokenizer)
    return taken


@pytest.fixture(scope="module", params=["uncased", "cased", "accents stripped", "no Chinese"])
def both(request: pytest.FixtureRequest, tokenizer: WordPieceTokenizer) -> tuple[Any, Any]:
    """(ours, transformers') of the same vocabulary and the same way to clean text."""
    from transformers import BertTokenizer

    ways = {
        "uncased": {},
        "cased": {"lowercase": False},
        "accents stripped": {"lowercase": False, "strip_accents": True},
        "no Chinese": {"handle_chinese_chars": False},
    }[request.param]
    definition = tokenizer.definition | {
        "normalizer": tokenizer.definition["normalizer"] | ways,
    }
    ours = WordPieceTokenizer(definition, tokenizer.settings)
    theirs = BertTokenizer(
        vocab=definition["model"]["vocab"],
        do_lower_case=definition["normalizer"]["lowercase"],
        strip_accents=definition["normalizer"]["strip_accents"],
        tokenize_chinese_chars=definition["normalizer"]["handle_chinese_chars"],
    )
    return ours, theirs


def ids_of(theirs: Any, text: str) -> list[int]:
    return theirs(text, add_special_tokens=False, split_special_tokens=True, verbose=False)[
        "input_ids"
    ]


def check(both: tuple[Any, Any], texts: list[str]) -> None:
    ours, theirs = both
    shown = [ours.normalize(text) for text in texts]
    encoded = ours.encode_with_ends(shown)
    for text, raw, (a, b) in zip(shown, texts, pairwise(encoded.ptr.tolist()), strict=True):
        expected = ids_of(theirs, raw)
        if text and not expected:
            expected = [ours.vocabulary.unk_id]  # every character belongs to a token
        assert encoded.tokens[a:b].tolist() == expected, text
    ends = encoded.char_end
    assert (np.diff(ends) >= 0).all()
    lengths = np.cumsum([len(text) for text in shown])
    for length, stop in zip(lengths.tolist(), encoded.ptr[1:].tolist(), strict=True):
        assert stop == 0 or ends[stop - 1] == length


def test_ids_are_those_of_transformers(both: tuple[Any, Any]) -> None:
    check(both, list(TEXTS))
    check(both, list(TEXTS[::-1]))  # from memory
    assert both[0].encode(list(TEXTS[:3])) == [ids_of(both[1], text) for text in TEXTS[:3]]


@given(st.lists(st.lists(pieces, max_size=12).map("".join) | st.text(max_size=20), max_size=4))
def test_ids_are_those_of_transformers_for_any_text(
    both: tuple[Any, Any], texts: list[str]
) -> None:
    check(both, [text.encode("utf-8", "replace").decode() for text in texts])


def test_tokens_know_their_place(tokenizer: WordPieceTokenizer) -> None:
    text = "ÜBER naïve hyperparathyroidism, 北京 [MASK]"
    encoded = tokenizer.encode_with_ends([text])
    starts = np.append(0, encoded.char_end[:-1])
    shown = [text[a:b] for a, b in zip(starts.tolist(), encoded.char_end.tolist(), strict=True)]
    named = [tokenizer.pieces[token] for token in encoded.tokens]
    assert list(zip(named[:2], shown[:2], strict=True)) == [("uber", "ÜBER"), ("naive", " naïve")]
    assert shown[2:7] == [" hyper", "para", "thy", "roid", "ism"]
    assert shown[7:] == [",", " 北", "京", " [", "MASK", "]"]


def test_words_start_where_no_inner_piece_goes_on(tokenizer: WordPieceTokenizer) -> None:
    text = "hyperparathyroidism isn't 北京 タワー"
    encoded = tokenizer.encode_with_ends([text, "x"])
    starts = tokenizer.word_starts(encoded.tokens, encoded.ptr)
    named = [tokenizer.pieces[token] for token in encoded.tokens]
    words = [piece for piece, start in zip(named, starts, strict=True) if start]
    assert words[:6] == ["hyper", "isn", "'", "t", "北", "京"]
    kana = named.index("タ")
    assert starts[kana:].all(), "kana have no spaces between words: each piece is one"


def test_w3_no_special_id_comes_from_text(tokenizer: WordPieceTokenizer) -> None:
    ids = {token for row in tokenizer.encode(list(TEXTS)) for token in row}
    assert not ids & set(tokenizer.vocabulary.never_in_text)
    assert tokenizer.vocabulary.special_names["[MASK]"] == 103
    assert not set(tokenizer.vocabulary.drawable.tolist()) & {0, 1, 100, 101, 102, 103}
    assert tokenizer.decode([101, *tokenizer.encode(["the cat"])[0], 103, 102]) == (
        "[CLS] the cat [MASK] [SEP]"
    )


def test_what_the_memo_holds_changes_nothing(tokenizer: WordPieceTokenizer) -> None:
    forgetful = WordPieceTokenizer(tokenizer.definition, tokenizer.settings)
    forgetful.memo = WordMemo(max_words=3)
    texts = [tokenizer.normalize(text) for text in TEXTS]
    for text in [*texts, *texts]:
        ours, other = tokenizer.encode_with_ends([text]), forgetful.encode_with_ends([text])
        assert ours.tokens.tolist() == other.tokens.tolist()
        assert ours.char_end.tolist() == other.char_end.tolist()


def test_a_folder_is_read_as_it_was_written(tokenizer: WordPieceTokenizer, tmp_path: Any) -> None:
    for name in ("one", "two"):
        save_tokenizer(tokenizer, tmp_path / name)
    loaded = load_tokenizer(tmp_path / "one")
    assert isinstance(loaded, WordPieceTokenizer)
    assert loaded.hash == tokenizer.hash
    assert loaded.pieces == tokenizer.pieces
    assert load_tokenizer(tmp_path / "two") is loaded, "the same bytes, the same memo"
    meta = json.loads((tmp_path / "one" / "meta.json").read_bytes())
    assert meta["kind"] == "wordpiece"
    assert meta["special_ids"]["[SEP]"] == 102
    for name in ("meta.json", "tokenizer.json", "vocab.txt", "tokenizer_config.json"):
        one, two = (tmp_path / folder / name for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_the_hash_covers_what_decides_ids(tokenizer: WordPieceTokenizer, tmp_path: Any) -> None:
    other = json.loads(json.dumps(tokenizer.definition))
    other["normalizer"]["lowercase"] = False
    assert WordPieceTokenizer(other, {}).hash != tokenizer.hash
    vocab = other["model"]["vocab"]
    vocab["the"], vocab["of"] = vocab["of"], vocab["the"]
    assert len({WordPieceTokenizer(other, {}).hash, tokenizer.hash}) == 2
    save_tokenizer(tokenizer, tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps(other))
    with pytest.raises(DataError, match="its pieces hash to"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match="not a tokenizer that can be read"):
        load_tokenizer(tmp_path)
