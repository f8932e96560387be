"""Which old rows a new vocabulary's rows start from, and that the model goes on as it was."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, BertModel

from mlmdist.config.model import Model
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import DataError
from mlmdist.export.tokenizer_json import tokenizer_json
from mlmdist.model.bert import Bert
from mlmdist.model.huggingface import load
from mlmdist.model.stream import Stream
from mlmdist.tokenizer import SPECIAL_TOKENS, Tokenizer, WordPieceTokenizer
from mlmdist.train.old_vocabulary import OldVocabulary, origins, read_old_vocabulary
from mlmdist.train.starting_weights import begin
from tests.export.corpus import train
from tests.tokenizer.models import real_vocabulary, sentence_piece

PIECES = [
    *SPECIAL_TOKENS,
    "[unused0]",
    "the",
    "un",
    "##ing",
    "##ed",
    "sing",
    "s",
    "##un",
    "的",
    "##的",
]
PIECES += ["北", "京", "a", "b", "c", "##a", "##b", "##c", "-"]
WIDTH, POSITIONS = 16, 24


def old_directory(folder: Path, kind: Any = BertForPreTraining, pieces: list[str] = PIECES) -> Any:
    """A Hugging Face BERT with wide random weights and a vocab.txt; transformers' model."""
    torch.manual_seed(1)
    shape = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(
        vocab_size=len(pieces), intermediate_size=40, max_position_embeddings=POSITIONS, **shape
    )
    theirs = kind(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    theirs.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    return theirs


def word_piece(
    pieces: list[str], new_rows: dict[int, list[int]] | None = None
) -> WordPieceTokenizer:
    """A tokenizer of ours of these pieces."""
    definition = {
        "normalizer": {"type": "BertNormalizer", "lowercase": True, "handle_chinese_chars": True}
        | {"clean_text": True, "strip_accents": None},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {piece: token for token, piece in enumerate(pieces)},
        },
    }
    return WordPieceTokenizer(definition, {}, new_rows)


def begun(folder: Path, tokenizer: Tokenizer, **model: Any) -> Bert:
    """A model of ours that begins from the directory."""
    shape = {"num_layers": 2, "width": WIDTH, "num_heads": 2, "intermediate": 40}
    config = Pretrain.model_validate(
        {
            "run": "run",
            "data": {"train": "train", "tokenizer": "tokenizer"},
            "init_from": folder,
            "model": shape | {"max_positions": POSITIONS} | model,
            "train": {"steps": 1, "global_batch": 1, "micro_batch": 1},
        }
    )
    made = Bert(config.model, tokenizer.vocabulary.size, config.seed).eval()
    begin(made, config, tokenizer)
    return made


def starts(old: OldVocabulary, tokenizer: Tokenizer, piece: str) -> list[str]:
    """The old pieces that a new one starts from, in words."""
    names = {token: name for name, token in old.inner.get_vocab().items()}
    rows = origins(tokenizer, old).rows[tokenizer.pieces.index(piece)]
    return [names[row] for row in rows]


def test_pieces_of_sentencepiece_start_from_those_of_wordpiece(tmp_path: Path) -> None:
    old_directory(tmp_path)
    old = read_old_vocabulary(tmp_path)
    expected = {
        "▁the": ["the"],
        "ing": ["##ing"],
        "▁The": ["the"],
        "▁sunned": [],  # a word that WordPiece can not cut to its end is unknown as a whole
        "▁singing": ["sing", "##ing"],
        "unc": ["##un", "##c"],
        "▁ab": ["a", "##b"],
        "的": ["的"],  # and not the ## that no text ever gave
        "▁的": ["的"],
        "北京": ["北", "京"],
        "▁": [],
        "Я": [],
    }
    tokenizer = sentence_piece({piece: -1.0 - k for k, piece in enumerate(expected)})
    assert {piece: starts(old, tokenizer, piece) for piece in expected} == expected
    roles = {name: starts(old, tokenizer, name) for name in SPECIAL_TOKENS}
    assert roles == {name: [name] for name in SPECIAL_TOKENS}


def test_pieces_of_wordpiece_start_from_those_of_sentencepiece(tmp_path: Path) -> None:
    ours = sentence_piece(
        {"▁the": -1.0, "ing": -2.0, "▁s": -3.0, "的": -4.0, "▁的": -5.0, "▁": -9.0}
    )
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer_json(ours)))
    old = read_old_vocabulary(tmp_path)
    tokenizer = word_piece([*SPECIAL_TOKENS, "the", "##ing", "sing", "的", "[unused3]"])
    assert starts(old, tokenizer, "the") == ["▁the"]
    assert starts(old, tokenizer, "##ing") == ["ing"]
    assert starts(old, tokenizer, "sing") == ["▁s", "ing"]
    assert starts(old, tokenizer, "的") == ["的"]
    assert starts(old, tokenizer, "[unused3]") == []
    assert starts(old, tokenizer, "[MASK]") == ["[MASK]"]


def test_domain_words_start_from_what_new_rows_records(tmp_path: Path) -> None:
    old_directory(tmp_path)
    old = read_old_vocabulary(tmp_path)
    pieces = [*PIECES, "abc"]
    pieces[5] = "unsing"
    recorded = {5: [pieces.index("un"), pieces.index("sing")]}
    tokenizer = word_piece(pieces, recorded)
    assert starts(old, tokenizer, "unsing") == ["un", "sing"]
    assert starts(old, tokenizer, "abc") == ["a", "##b", "##c"]
    made = origins(tokenizer, old)
    assert (made.num_copied, made.num_means, made.num_unknown) == (len(PIECES) - 1, 2, 0)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_tokenizer_that_a_run_exported_is_known_again(kind: str, tmp_path: Path) -> None:
    tokenizer = train(kind, byte_fallback=True)
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer_json(tokenizer)))
    old = read_old_vocabulary(tmp_path)
    assert origins(tokenizer, old).is_identity(len(tokenizer.pieces))


def test_special_tokens_are_found_by_their_role(tmp_path: Path) -> None:
    names = {
        "[PAD]": "<pad>",
        "[UNK]": "<unk>",
        "[CLS]": "<s>",
        "[SEP]": "</s>",
        "[MASK]": "<mask>",
    }
    old_directory(tmp_path, pieces=[names.get(piece, piece) for piece in PIECES])
    settings = {f"{name[1:-1].lower()}_token": other for name, other in names.items()}
    settings["mask_token"] = {"content": "<mask>", "lstrip": True}  # pyright: ignore[reportArgumentType]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    old = read_old_vocabulary(tmp_path)
    tokenizer = sentence_piece({"▁the": -1.0})
    assert {name: starts(old, tokenizer, name) for name in names} == {
        n: [o] for n, o in names.items()
    }


def test_rows_and_biases_are_copies_and_means_and_nothing_else_changes(tmp_path: Path) -> None:
    theirs = old_directory(tmp_path).state_dict()
    tokenizer = sentence_piece({"▁the": -1.0, "▁singing": -2.0, "Я": -3.0})
    model = begun(tmp_path, tokenizer)
    made, old = model.state_dict(), load(tmp_path).model.state_dict()
    at = {piece: PIECES.index(piece) for piece in PIECES}
    for ours, name in (
        ("embeddings.tokens.weight", "bert.embeddings.word_embeddings.weight"),
        ("mlm_head.bias", "cls.predictions.bias"),
    ):
        table = theirs[name]
        assert torch.equal(made[ours][5], table[at["the"]])
        assert torch.equal(made[ours][4], table[at["[MASK]"]])
        mean = (table[at["sing"]] + table[at["##ing"]]) / 2
        torch.testing.assert_close(made[ours][6], mean)
        ordinary = [t for p, t in at.items() if not p.startswith("[")]
        torch.testing.assert_close(made[ours][7], table[ordinary].mean(0))
    others = made.keys() - {"embeddings.tokens.weight", "mlm_head.bias"}
    assert all(torch.equal(made[name], old[name]) for name in others)


def test_a_shuffled_vocabulary_gives_the_same_logits(tmp_path: Path) -> None:
    old_directory(tmp_path)
    tokenizer = word_piece(random.Random(3).sample(PIECES, len(PIECES)))
    place = [tokenizer.pieces.index(piece) for piece in PIECES]
    row = [2, 7, 8, 4, 13, 3]
    old, new = load(tmp_path).model.eval(), begun(tmp_path, tokenizer)
    with torch.no_grad():
        before = old(Stream.from_rows([(row, [0] * 6)], [3]))
        after = new(Stream.from_rows([([place[token] for token in row], [0] * 6)], [3]))
    torch.testing.assert_close(after.mlm_logits[:, place], before.mlm_logits)
    torch.testing.assert_close(after.pair_logits, before.pair_logits)


def test_longer_rows_repeat_the_positions_from_the_first_on(tmp_path: Path) -> None:
    theirs = old_directory(tmp_path).state_dict()["bert.embeddings.position_embeddings.weight"]
    grown = begun(tmp_path, word_piece(PIECES), max_positions=60).embeddings.positions.weight
    assert torch.equal(grown, torch.cat([theirs, theirs, theirs])[:60])


@pytest.mark.parametrize(
    ("kind", "random_heads"),
    [(BertForPreTraining, ()), (BertForMaskedLM, (1,)), (BertModel, (0, 1))],
)
def test_the_log_says_which_heads_begin_at_random(
    kind: Any, random_heads: tuple[int, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    old_directory(tmp_path, kind)
    model = begun(tmp_path, word_piece(PIECES))
    fresh = Bert(Model(num_layers=2, width=WIDTH, num_heads=2), len(PIECES))
    heads = ("language model head", "head of the second task")
    for number, head in enumerate(heads):
        said = "begins at random" if number in random_heads else "is taken from there"
        assert f"the {head} {said}" in caplog.text
    is_fresh = torch.equal(model.pair_head.classifier.weight, fresh.pair_head.classifier.weight)
    assert is_fresh == (1 in random_heads)
    assert "the vocabulary is the same" in caplog.text


def test_a_directory_without_a_tokenizer_or_with_another_ones_is_refused(tmp_path: Path) -> None:
    old_directory(tmp_path)
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in [*PIECES, "more"]))
    with pytest.raises(DataError, match=f"{len(PIECES) + 1} ids, its embedding {len(PIECES)} rows"):
        begun(tmp_path, word_piece(PIECES))
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(DataError, match=r"no tokenizer\.json and no vocab\.txt"):
        begun(tmp_path, word_piece(PIECES))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"tokenizer\.json: not a tokenizer"):
        begun(tmp_path, word_piece(PIECES))


@pytest.mark.slow
def test_a_published_encoder_goes_on_with_its_own_and_with_another_vocabulary() -> None:
    folder = real_vocabulary()
    old = read_old_vocabulary(folder)
    definition, settings = (
        json.loads((folder / name).read_bytes())
        for name in ("tokenizer.json", "tokenizer_config.json")
    )
    own = WordPieceTokenizer(definition, settings)
    assert origins(own, old).is_identity(30522)
    pieces = ("▁capital", "ing", "▁Hyperparathyroidism", "▁[", "東京")
    other = sentence_piece({piece: -1.0 - k for k, piece in enumerate(pieces)})
    assert [starts(old, other, piece) for piece in pieces] == [
        ["capital"],
        ["##ing"],
        ["hyper", "##para", "##thy", "##roid", "##ism"],
        ["["],
        ["東", "京"],
    ]
    shape = {"num_layers": 6, "width": 384, "num_heads": 12, "intermediate": 1536}
    model = begun(folder, own, **shape, max_positions=1024)
    theirs = BertModel.from_pretrained(folder).eval()
    row = [101, 1996, 3007, 1997, 2605, 2003, 103, 1012, 102]
    with torch.no_grad():
        hidden = model.encode(Stream.from_rows([(row, [0] * len(row))]))
        expected = theirs(torch.tensor([row])).last_hidden_state[0]
    assert float((hidden - expected).abs().max() / expected.abs().max()) < 1e-5
