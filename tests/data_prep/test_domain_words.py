"""Words of a field get rows of their own: which, where, and what they were made of."""

import pytest

from data_prep.config import TokenizerTraining
from data_prep.documents import Document
from data_prep.domain_words import add_domain_words
from data_prep.existing_tokenizer import take_tokenizer
from mlmdist.errors import ConfigError
from mlmdist.tokenizer import WordPieceTokenizer, load_tokenizer, save_tokenizer
from tests.tokenizer.models import real_vocabulary

TEXT = (
    "Hyperparathyroidism, hyperparathyroidism and the Kerouac of 1234567 pyridine-pyridine.",
    "KEROUAC hyperparathyroidism! cat the xqzvwt",
)
DOCUMENTS = [Document(number, "", "", TEXT) for number in range(3)]
CHARS = 3 * sum(map(len, TEXT))


def config(**values: object) -> TokenizerTraining:
    given = {"kind": "wordpiece", "path": str(real_vocabulary()), "domain_words": 3} | values
    return TokenizerTraining.model_validate(given)


@pytest.fixture(scope="module")
def tokenizer() -> WordPieceTokenizer:
    taken = take_tokenizer(config())
    assert isinstance(taken, WordPieceTokenizer)
    return taken


def test_the_most_frequent_words_in_many_pieces_go_on_unused_rows(
    tokenizer: WordPieceTokenizer, tmp_path
) -> None:
    made = add_domain_words(tokenizer, DOCUMENTS, CHARS, config())
    words = ["hyperparathyroidism", "kerouac", "pyridine"]  # 9 times, 6, 6
    assert [made.pieces[row] for row in (1, 2, 3)] == words
    assert len(made.pieces) == len(tokenizer.pieces)
    assert made.encode(["Hyperparathyroidism"]) == [[1]]
    old = {row: [made.pieces[token] for token in tokens] for row, tokens in made.new_rows.items()}
    assert old[1] == ["hyper", "##para", "##thy", "##roid", "##ism"]
    assert tokenizer.encode([words[1]]) == [made.new_rows[2]]
    assert made.hash != tokenizer.hash
    assert {1, 2, 3} <= set(made.vocabulary.drawable.tolist())
    assert 4 not in made.vocabulary.drawable
    save_tokenizer(made, tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert isinstance(loaded, WordPieceTokenizer)
    assert loaded.new_rows == made.new_rows
    assert loaded.hash == made.hash
    assert (tmp_path / "vocab.txt").read_text().split("\n")[1:4] == words


def test_they_can_be_appended(tokenizer: WordPieceTokenizer) -> None:
    made = add_domain_words(tokenizer, DOCUMENTS, CHARS, config(domain_rows="appended"))
    size = len(tokenizer.pieces)
    assert list(made.new_rows) == [size, size + 1, size + 2]
    assert made.vocabulary.size == size + 3
    assert made.pieces[:size] == tokenizer.pieces
    assert made.encode(["kerouac"]) == [[size + 1]]


def test_the_choice_does_not_hang_on_the_order_of_documents(tokenizer: WordPieceTokenizer) -> None:
    documents = [*DOCUMENTS, Document(9, "", "", ("Americium americium caesium caesium",))]
    ways = [
        add_domain_words(tokenizer, order, CHARS, config(domain_words=5)).hash
        for order in (documents, documents[::-1])
    ]
    assert ways[0] == ways[1]


def test_fewer_words_than_asked_for_are_said(
    tokenizer: WordPieceTokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    made = add_domain_words(tokenizer, DOCUMENTS, CHARS, config(domain_words=500))
    assert 3 <= len(made.new_rows) < 10
    assert "domain_words=500 is not filled" in caplog.text


def test_too_few_unused_rows(tokenizer: WordPieceTokenizer) -> None:
    with pytest.raises(ConfigError, match="domain_words=2000: the vocabulary has 994 unused rows"):
        add_domain_words(tokenizer, DOCUMENTS, CHARS, config(domain_words=2000))
