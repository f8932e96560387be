"""Taking a tokenizer that is there: what is accepted, and what is refused and how."""

import json
from pathlib import Path
from typing import Any

import pytest

from data_prep.config import TokenizerTraining
from data_prep.existing_tokenizer import take_tokenizer
from mlmdist.errors import ConfigError, DataError
from mlmdist.tokenizer import WordPieceTokenizer, save_tokenizer
from tests.export.corpus import save, train

PIECES = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "Rome"]


def vocabulary(folder: Path, text: str = "\n".join(PIECES) + "\n") -> Path:
    path = folder / "vocab.txt"
    path.write_bytes(text.encode())
    return path


def take(path: Path, kind: Any = "wordpiece") -> WordPieceTokenizer:
    taken = take_tokenizer(TokenizerTraining(kind=kind, path=str(path)))
    assert isinstance(taken, WordPieceTokenizer)
    return taken


def directory(folder: Path, **changes: Any) -> Path:
    """A Hugging Face directory whose tokenizer.json is changed."""
    taken = take(vocabulary(folder))
    (folder / "tokenizer.json").write_text(json.dumps(taken.definition | changes))
    (folder / "tokenizer_config.json").write_text(json.dumps(taken.settings))
    return folder


def test_a_bare_vocabulary_with_capitals_keeps_capitals(tmp_path: Path) -> None:
    taken = take(vocabulary(tmp_path))
    assert taken.pieces == PIECES
    assert taken.encode(["the cats Rome rome"]) == [[6, 7, 8, 9, 2]]
    assert taken.vocabulary.special_names == {
        "[PAD]": 0, "[UNK]": 2, "[CLS]": 3, "[SEP]": 4, "[MASK]": 5,
    }  # fmt: skip
    assert taken.vocabulary.drawable.tolist() == [6, 7, 8, 9]
    lower = take(vocabulary(tmp_path, "\n".join(PIECES[:-1])))
    assert lower.encode(["The CATS"]) == [[6, 7, 8]]


def test_a_directory_with_a_vocabulary_and_its_settings(tmp_path: Path) -> None:
    vocabulary(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true, "mine": 1}')
    taken = take(tmp_path)
    assert taken.encode(["THE Rome"]) == [[6, 2]]
    assert taken.settings["mine"] == 1
    assert taken.settings["tokenizer_class"] == "BertTokenizer"


def test_a_directory_with_tokenizer_json_and_a_folder_of_ours(tmp_path: Path) -> None:
    given = take(directory(tmp_path, truncation=None))
    for name in ("out", "again"):
        save_tokenizer(given, tmp_path / name)
        given = take(tmp_path / name)
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("out", "again")
    )
    assert one == two


def test_a_sentencepiece_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    save(train("bpe"), tmp_path / "given")
    taken = take_tokenizer(TokenizerTraining(kind="bpe", path=str(tmp_path / "given")))
    save_tokenizer(taken, tmp_path / "out")
    for name in ("tokenizer.model", "meta.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "given" / name).read_bytes()
    with pytest.raises(ConfigError, match="a SentencePiece tokenizer; set"):
        take(tmp_path / "given")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n".join(p for p in PIECES if p != "[MASK]"), r"has no \[MASK\]"),
        ("a\nb\n", r"has no \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
        ("\n".join([*PIECES, "cat"]), "line 11: 'cat' stands in line 8 too"),
        ("\r\n".join(PIECES), "line 1: a carriage return; save the file with Unix line ends"),
        ("\ufeff" + "\n".join(PIECES), "byte-order mark"),
        ("\n".join([*PIECES, "", "x"]), "line 11: empty"),
        ("", "line 1: empty"),
    ],
)
def test_bad_vocabularies(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        take(vocabulary(tmp_path, text))


def test_a_vocabulary_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"[PAD]\n\xff\n")
    with pytest.raises(DataError, match=r"not UTF-8 .* at byte 6"):
        take(tmp_path / "vocab.txt")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalizer": {"type": "Lowercase"}}, "normalizer is Lowercase; must be BertNormalizer"),
        ({"pre_tokenizer": None}, "pre_tokenizer is None; must be BertPreTokenizer"),
        ({"model": {"type": "WordPiece", "vocab": {"a": 1}}}, "must have the ids 0 to 0"),
        ({"model": {"type": "BPE"}}, "holds no vocabulary of WordPiece"),
        ({"added_tokens": [{"id": 9, "content": "Rome"}]}, "'Rome' is not one of the five special"),
        ({"added_tokens": [{"id": 9, "content": "[SEP]"}]}, r"\[SEP\] is 9, and another"),
    ],
)
def test_bad_directories(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        take(directory(tmp_path, **changes))


def test_a_directory_that_contradicts_itself(tmp_path: Path) -> None:
    folder = directory(tmp_path)
    vocabulary(folder, "\n".join(PIECES[:-1]))
    with pytest.raises(DataError, match="hold different vocabularies"):
        take(folder)
    (folder / "tokenizer.json").write_text("[")
    with pytest.raises(DataError, match="not JSON"):
        take(folder)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file or folder"):
        take(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"neither tokenizer.json nor vocab.txt is there"):
        take(tmp_path)
    with pytest.raises(ConfigError, match="no SentencePiece tokenizer of"):
        take(tmp_path, kind="unigram")
    with pytest.raises(ValueError, match="kind=wordpiece trains nothing"):
        TokenizerTraining(kind="wordpiece")
    with pytest.raises(ValueError, match="only kind=wordpiece has rows"):
        TokenizerTraining(kind="bpe", domain_words=3)
