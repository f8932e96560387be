import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.config import TokenizerTraining
from data_prep.documents import Document
from data_prep.tokenizer_training import train_tokenizer
from mlmdist.errors import ConfigError, DataError
from mlmdist.tokenizer import SPECIAL_TOKENS, SentencePieceTokenizer, load_tokenizer, normalize
from mlmdist.tokenizer.sentence_piece import MASK_ID, UNK_ID

TEXTS = (
    "The cat sat on the mat, and the dog (which was 12 years old) barked at 3 cats' tails.",
    "Über den Wolken muß die Freiheit wohl grenzenlos sein; naïve café.",
    "北京是中华人民共和国的首都。猫坐在垫子上。",
    "Москва — столица России, крупнейший город.",
)


@pytest.fixture(scope="module", params=["unigram", "bpe", "unigram with bytes"])
def tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SentencePieceTokenizer:
    kind, _, byte_fallback = request.param.partition(" ")
    config = TokenizerTraining(
        kind=kind,
        vocab_size=350 if byte_fallback else 96,
        byte_fallback=bool(byte_fallback),
        character_coverage=0.99,
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    documents = [Document(n, "", "", TEXTS) for n in range(20)]
    train_tokenizer(documents, sum(map(len, TEXTS)) * 20, config, folder)
    loaded = load_tokenizer(folder)
    assert isinstance(loaded, SentencePieceTokenizer)
    return loaded


def test_ids_0_to_4_are_the_special_tokens(tokenizer: SentencePieceTokenizer) -> None:
    assert tuple(tokenizer.pieces[:5]) == SPECIAL_TOKENS
    assert set(tokenizer.vocabulary.special_ids) == {0, 1, 2, 3, 4}
    assert not set(tokenizer.vocabulary.drawable.tolist()) & {0, 1, 2, 3, 4}


def test_w3_text_is_never_read_as_a_special_token(tokenizer: SentencePieceTokenizer) -> None:
    for text in ("[MASK]", "a [SEP] b", "[CLS][PAD] [UNK]", "x[MASK]y", "<s> </s> <pad>"):
        ids = tokenizer.encode([text])[0]
        assert not set(ids) & {0, 2, 3, 4}, text


@given(st.lists(st.text(max_size=60) | st.sampled_from(TEXTS), max_size=6))
def test_every_character_belongs_to_one_token(
    tokenizer: SentencePieceTokenizer, texts: list[str]
) -> None:
    texts = [normalize(text).encode("utf-8", "replace").decode() for text in texts]
    texts = [normalize(text.replace("\0", "")) for text in texts]
    encoded = tokenizer.encode_with_ends(texts)
    joined = "".join(texts)
    starts = np.append(0, encoded.char_end)[:-1]
    for token, start, end in zip(encoded.tokens, starts, encoded.char_end, strict=True):
        piece = tokenizer.pieces[token]
        if token != UNK_ID and not tokenizer.is_byte[token]:
            surface = joined[start:end].replace(" ", "▁")
            assert piece in (surface, "▁" + surface)
    for index, text in enumerate(texts):
        row = encoded.tokens[encoded.ptr[index] : encoded.ptr[index + 1]].tolist()
        assert row == tokenizer.encode([text])[0]
        if row:
            assert encoded.char_end[encoded.ptr[index + 1] - 1] == sum(map(len, texts[: index + 1]))


def test_normalize_is_idempotent_on_every_character() -> None:
    for character in map(chr, range(0x110000)):
        if unicodedata.category(character) not in ("Cs", "Cn", "Co"):  # NFKC leaves those alone
            text = f"a{character}b"
            once = normalize(text)
            assert once == text or normalize(once) == once
    assert normalize(" a\u3000b\t\nc ▁d▁") == "a b c d"
    assert normalize("ﬁ①") == unicodedata.normalize("NFKC", "ﬁ①") == "fi1"


def test_word_starts(tokenizer: SentencePieceTokenizer) -> None:
    text = normalize("The cat's mat (12) 北京")
    encoded = tokenizer.encode_with_ends([text])
    starts = tokenizer.word_starts(encoded.tokens, encoded.ptr)
    begins = np.concatenate([[0], encoded.char_end[:-1]])
    words = [
        text[begin:].lstrip()[:1] for begin, start in zip(begins, starts, strict=True) if start
    ]
    assert words[:4] == ["T", "c", "'", "s"]
    assert starts[0]
    for begin, start in zip(begins, starts, strict=True):
        if text[int(begin) : int(begin) + 1] == "(":
            assert start


def test_decode_names_special_tokens(tokenizer: SentencePieceTokenizer) -> None:
    ids = tokenizer.encode(["The cat"])[0]
    assert tokenizer.decode([2, *ids, MASK_ID, 3]) == "[CLS] The cat [MASK] [SEP]"


def test_the_hash_tells_tokenizers_apart_and_files_damaged(
    tokenizer: SentencePieceTokenizer, tmp_path: Path
) -> None:
    documents = [Document(n, "", "", TEXTS[:1]) for n in range(20)]
    other = train_tokenizer(documents, 10_000, TokenizerTraining(vocab_size=36), tmp_path)
    assert other.hash != tokenizer.hash
    assert load_tokenizer(tmp_path).hash == other.hash
    (tmp_path / "meta.json").write_text('{"hash": "0123456789abcdef"}')
    with pytest.raises(DataError, match="its pieces hash to"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="not a tokenizer that can be read"):
        load_tokenizer(tmp_path)


def test_training_is_the_same_every_time(tmp_path: Path) -> None:
    config = TokenizerTraining(vocab_size=96)
    documents = [Document(n, "", "", TEXTS) for n in range(20)]
    hashes = {
        train_tokenizer(documents, 1000, config, folder).hash
        for folder in (tmp_path / "a", tmp_path / "b")
        if not folder.mkdir()
    }
    assert len(hashes) == 1


def test_a_vocabulary_larger_than_the_text_can_give(tmp_path: Path) -> None:
    documents = [Document(n, "", "", TEXTS[:1]) for n in range(20)]
    for kind in ("unigram", "bpe"):
        config = TokenizerTraining(kind=kind, vocab_size=30_000)
        with pytest.raises(ConfigError, match=r"vocab_size=30000: the text gives .* pieces"):
            train_tokenizer(documents, 10_000, config, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no text"):
        train_tokenizer([], 0, TokenizerTraining(vocab_size=100), tmp_path)
