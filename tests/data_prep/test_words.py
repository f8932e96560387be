import json
import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.config import TokenizerTraining, Words
from data_prep.documents import Document
from data_prep.tokenizer_training import train_tokenizer
from data_prep.words import word_starts, words_fingerprint
from mlmdist.tokenizer import SPECIAL_TOKENS, Tokenizer, WordPieceTokenizer
from tests.data_prep.inline import make_all

CHINESE = (
    "我们在北京大学学习自然语言处理,产品和服务都很好。",
    "他买了一件T恤衫,唱卡拉OK,然后去南京市长江大桥看日出。",
    "研究人员发现碳纳米管场效应晶体管的性能很好。",
    "The cat's 3 toys are 很好的玩具 indeed.",
)
JIEBA = Words(segmenter="jieba")


def word_piece() -> WordPieceTokenizer:
    """Each Chinese character a piece, and some English pieces, as in Google's vocabulary."""
    characters = sorted(set("".join(CHINESE)) - {" "})
    pieces = [*SPECIAL_TOKENS, *characters, "the", "toys", "in", "##de", "##ed", "cat", "are", "ok"]
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {piece: n for n, piece in enumerate(dict.fromkeys(pieces))}, unk_token="[UNK]"
        )
    )
    inner.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return WordPieceTokenizer(json.loads(inner.to_str()), {"do_lower_case": True})


@pytest.fixture(scope="module")
def sentence_piece(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    texts = [*CHINESE, *(text[::-1] for text in CHINESE)] * 20
    config = TokenizerTraining(vocab_size=95, character_coverage=1.0)
    some = [Document(n, str(n), "", (text,)) for n, text in enumerate(texts)]
    return train_tokenizer(some, sum(map(len, texts)), config, tmp_path_factory.mktemp("t"))


def words(tokenizer: Tokenizer, texts: Sequence[str], config: Words) -> tuple[list[list[str]], int]:
    """The words of each text as the bits tell them."""
    texts = [tokenizer.normalize(text) for text in texts]
    encoded = tokenizer.encode_with_ends(texts)
    starts, disagreements = word_starts(texts, encoded, tokenizer, config)
    assert starts.dtype == np.bool_
    joined, ends = "".join(texts), np.append(0, encoded.char_end)
    found = []
    for first, last in pairwise(encoded.ptr.tolist()):
        places = [token for token in range(first, last) if starts[token]]
        assert places[:1] == [first][: last - first]
        bounds = [*ends[places].tolist(), int(ends[last])]
        found.append([joined[a:b].strip() for a, b in pairwise(bounds)])
    return found, disagreements


def test_without_a_segmenter_words_are_the_tokenizers(sentence_piece: Tokenizer) -> None:
    encoded = sentence_piece.encode_with_ends(CHINESE)
    starts, disagreements = word_starts(CHINESE, encoded, sentence_piece, Words())
    assert np.array_equal(starts, sentence_piece.word_starts(encoded.tokens, encoded.ptr))
    assert disagreements == 0
    assert words_fingerprint(Words()) == ""


def test_word_piece_gets_chinese_words() -> None:
    found, disagreements = words(word_piece(), CHINESE, JIEBA)
    assert found[0][:4] == ["我们", "在", "北京大学", "学习"]
    assert found[0][-7:] == ["产品", "和", "服务", "都", "很", "好", "。"]
    assert {"T恤衫", "南京市", "长江大桥", "OK"} <= set(found[1])
    assert found[3][:6] == ["The", "cat", "'", "s", "3", "toys"]
    assert found[3][-2:] == ["indeed", "."]
    assert disagreements == 0  # every piece is one character


def test_sentence_piece_gets_chinese_words_and_counts_disagreements(
    sentence_piece: Tokenizer,
) -> None:
    texts = CHINESE[:3]
    found, disagreements = words(sentence_piece, texts, JIEBA)
    single, none = words(word_piece(), texts, JIEBA)
    assert disagreements > none
    bounds = [set(accumulate(map(len, row))) for row in found]
    expected = [set(accumulate(map(len, row))) for row in single]
    assert all(ours <= theirs for ours, theirs in zip(bounds, expected, strict=True))
    missing = [theirs - ours for ours, theirs in zip(bounds, expected, strict=True)]
    assert sum(map(len, missing)) == disagreements  # a boundary is there, or counted


def test_a_text_starts_with_a_word() -> None:
    assert words(word_piece_once(), ["the", "京", "", "北京", "cat"], JIEBA)[0] == [
        ["the"], ["京"], [], ["北京"], ["cat"]
    ]  # fmt: skip


@settings(max_examples=40)
@given(st.lists(st.text(alphabet="北京大学a1 ,。é\U00020000", max_size=20), max_size=6))
def test_words_depend_on_their_text_alone(texts: list[str]) -> None:
    tokenizer = word_piece_once()
    together, disagreements = words(tokenizer, texts, JIEBA)
    alone = [words(tokenizer, [text], JIEBA) for text in texts]
    assert together == [one[0][0] for one in alone]
    assert disagreements == sum(one[1] for one in alone)


def word_piece_once(made: list[WordPieceTokenizer] = []) -> WordPieceTokenizer:  # noqa: B006
    if not made:
        made.append(word_piece())
    return made[0]


def test_words_of_the_dictionary_stay_whole(tmp_path: Path) -> None:
    dictionary = tmp_path / "words.txt"
    dictionary.write_text("碳纳米管场效应晶体管\n和服\n南京 900000\n长江大桥看日出\n", "utf-8")
    plain, _ = words(word_piece(), CHINESE, JIEBA)
    found, _ = words(word_piece(), CHINESE, Words(segmenter="jieba", dictionary=dictionary))
    assert "碳纳米管场效应晶体管" not in plain[2]
    assert "碳纳米管场效应晶体管" in found[2]
    assert "长江大桥看日出" in found[1]
    assert found[0] == plain[0]  # it is no 和服 in 产品和服务


def test_the_fingerprint_tells_dictionaries_apart(tmp_path: Path) -> None:
    prints = {words_fingerprint(JIEBA)}
    for name, content in (("a.txt", "词\n"), ("b.txt", "词\n"), ("c.txt", "词语\n")):
        (tmp_path / name).write_text(content, "utf-8")
        prints.add(words_fingerprint(Words(segmenter="jieba", dictionary=tmp_path / name)))
    assert len(prints) == 3


def test_a_dictionary_needs_the_segmenter_and_the_segmenter_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("词\n", "utf-8")
    with pytest.raises(ValueError, match="segmenter=jieba"):
        Words(dictionary=tmp_path / "a.txt")
    with pytest.raises(ValueError, match=r"no\.txt: cannot be read"):
        Words(segmenter="jieba", dictionary=tmp_path / "no.txt")
    monkeypatch.setattr("data_prep.config.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"mlmdist\[chinese\]"):
        Words(segmenter="jieba")


def test_disagreements_of_all_parts_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """BPE joins what always stands side by side, also over the ends of jieba's words."""
    text = "".join(CHINESE[:3]) * 8
    lines = [json.dumps({"text": f"{number}。\n{text}"}) for number in range(20)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    sections = {
        "cleaning": {"near_duplicates": False, "max_repeated_share": 1, "max_recurring_share": 1},
        "held_out": {"share": 0},
        "tokenizer": {"kind": "bpe", "vocab_size": 150},
        "words": {"segmenter": "jieba"},
    }
    with caplog.at_level("INFO", "data_prep.shard_stage"):
        make_all(tmp_path / "out", tmp_path / "corpus.jsonl", **sections)
    told = re.findall(r"words: (\d+) of the segmenter end inside a token", caplog.text)
    assert len(told) == 1
    assert int(told[0]) >= 20
