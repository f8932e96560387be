"""The tokenizer's report: its figures counted again by hand."""

import json

import pytest

from data_prep import tokenizer_report
from data_prep.config import TokenizerTraining
from data_prep.documents import Document
from data_prep.existing_tokenizer import take_tokenizer
from data_prep.tokenizer_report import choose_parts, report
from mlmdist.tokenizer import Tokenizer
from tests.export.corpus import text_lines, train
from tests.tokenizer.models import real_vocabulary

LINES = tuple(text_lines(40, 3))
DOCUMENTS = [
    Document(number, "", "", (*LINES[number : number + 4], "ba \u2603\u2603 ki\U0001f600 \u2603ba"))
    for number in range(30)
]
CHARS = sum(document.num_characters for document in DOCUMENTS)


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_figures_are_what_counting_gives(byte_fallback: bool) -> None:
    tokenizer = train("unigram", byte_fallback=byte_fallback)
    made = report(tokenizer, DOCUMENTS, CHARS)
    texts = [tokenizer.normalize(text) for each in DOCUMENTS for text in each.paragraphs]
    tokens = [token for row in tokenizer.encode(texts) for token in row]
    sample = made["sample"]
    assert sample == {
        "documents": 30,
        "chars": sum(map(len, texts)),
        "words": sample["words"],
        "tokens": len(tokens),
    }
    assert made["tokens_per_char"] == round(len(tokens) / sample["chars"], 6)
    assert made["tokens_per_word"] == round(len(tokens) / sample["words"], 6)
    assert made["unknown"]["share_of_tokens"] == round(tokens.count(1) / len(tokens), 6)
    by_bytes = sum(tokenizer.is_byte[token] for token in tokens)
    assert made["bytes"]["share_of_tokens"] == round(by_bytes / len(tokens), 6)
    assert (by_bytes > 0) == byte_fallback
    never = set(range(5, len(tokenizer.pieces))) - set(tokens)
    never = {token for token in never if not tokenizer.is_byte[token]}
    assert made["unused"]["count"] == len(never)
    assert made["unused"]["examples"] == [tokenizer.pieces[token] for token in sorted(never)[:20]]
    assert made["pieces"]["count"] == len(tokenizer.pieces)
    assert len(made["pieces"]["longest"][0]) == max(map(len, tokenizer.surfaces))


def test_the_characters_behind_unknown_tokens_are_named() -> None:
    tokenizer = train("bpe")
    made = report(tokenizer, DOCUMENTS, CHARS)["unknown"]
    assert made["most_frequent"][:2] == [
        {"character": "\u2603", "code_point": "U+2603", "name": "snowman", "count": 90},
        {"character": "\U0001f600", "code_point": "U+1F600", "name": "grinning face", "count": 30},
    ]
    text = "".join("".join(document.paragraphs) for document in DOCUMENTS)
    lacking = set(text) - set("".join(tokenizer.pieces[5:])) - {" "}
    assert made["different_chars"] == len(lacking)


def test_a_word_that_is_unknown_for_one_of_its_characters() -> None:
    """WordPiece gives up the whole word; its known letters are not to blame."""
    config = TokenizerTraining(kind="wordpiece", path=str(real_vocabulary()))
    tokenizer = take_tokenizer(config)
    made = report(tokenizer, [Document(0, "", "", ("cat ca\u01ddt dog",))], 12)["unknown"]
    assert [each["code_point"] for each in made["most_frequent"]] == ["U+01DD"]
    assert made["share_of_tokens"] == round(1 / 3, 6)


def test_the_report_is_a_function_of_tokenizer_and_documents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokenizer_report, "SAMPLE_CHARS", CHARS // 2)
    monkeypatch.setattr(tokenizer_report, "BATCH_CHARS", 200)
    tokenizer: Tokenizer = train("unigram")
    made = [report(tokenizer, DOCUMENTS, CHARS), report(tokenizer, DOCUMENTS[::-1], CHARS)]
    assert made[0] == made[1]
    assert 5 < made[0]["sample"]["documents"] < 25
    json.dumps(made)


def test_no_text_is_no_division_by_zero() -> None:
    assert report(train("unigram"), [], 0)["tokens_per_word"] == 0.0


def test_parts_are_chosen_by_hash_alone() -> None:
    assert choose_parts(5) == [0, 1, 2, 3, 4]
    chosen = choose_parts(1000)
    assert len(chosen) == tokenizer_report.SAMPLE_PARTS
    assert chosen == sorted(chosen)
    assert max(chosen) > 100
