"""An export is whole and checked, or it is not there; transformers loads it as one of its own."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertForMaskedLM, BertForPreTraining, BertModel

from mlmdist.errors import ConfigError, DataError
from mlmdist.export import directory
from mlmdist.export.checks import check_ids, check_logits, load_tokenizer, rows_of
from mlmdist.export.lines import PROBES
from mlmdist.model.stream import Stream
from tests.export.corpus import model, text_lines, train
from tests.export.test_ties import unigram

LINES = text_lines(200, 9)
KINDS = [("unigram", False), ("unigram", True), ("bpe", False), ("bpe", True)]


@pytest.fixture(params=KINDS, ids=str)
def tokenizer(request):
    kind, byte_fallback = request.param
    return train(kind, byte_fallback=byte_fallback)


def write(tokenizer, out, lines=LINES, **options):
    bert = model(tokenizer.vocabulary.size)
    directory.write(bert, tokenizer, out, lines, **options)
    return bert


def test_transformers_gives_the_same_logits_and_ids(tokenizer, tmp_path):
    bert = write(tokenizer, tmp_path / "hf")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert sorted(path.name for path in (tmp_path / "hf").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    first, second = LINES[0], LINES[1]
    encoded = theirs(first, second, return_tensors="pt")
    a, b = tokenizer.encode([first, second])
    ids = [2, *a, 3, *b, 3]
    segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    assert encoded["input_ids"][0].tolist() == ids
    assert encoded["token_type_ids"][0].tolist() == segments
    with torch.no_grad():
        expected = BertForPreTraining.from_pretrained(tmp_path / "hf").eval()(**encoded)
        heads = bert(Stream.from_rows([(ids, segments)], range(len(ids))))
    torch.testing.assert_close(
        heads.mlm_logits, expected.prediction_logits[0], rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(heads.pair_logits, expected.seq_relationship_logits)


def test_every_line_that_is_checked_equals_or_ties(tokenizer, tmp_path):
    write(tokenizer, tmp_path / "hf")
    theirs = load_tokenizer(tmp_path / "hf")
    for line in (*PROBES, *LINES):
        ids = theirs(line, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        assert ids == tokenizer.encode([line])[0]


def test_special_tokens_are_where_transformers_looks_for_them(tmp_path):
    write(train("unigram"), tmp_path / "hf")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hf")
    names = ("pad_token_id", "unk_token_id", "cls_token_id", "sep_token_id", "mask_token_id")
    assert [getattr(theirs, name) for name in names] == [0, 1, 2, 3, 4]
    assert theirs.model_max_length == model(700).config.max_positions
    assert theirs.decode(theirs("ba [MASK].")["input_ids"]) == "[CLS] ba[MASK].[SEP]"
    assert len(theirs) == theirs.vocab_size == 700


@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM])
def test_models_with_fewer_heads_load_it_too(kind, tmp_path):
    write(train("unigram"), tmp_path / "hf")
    _, report = kind.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]


def test_weights_that_changed_on_the_way_leave_nothing(tmp_path, monkeypatch):
    honest = directory.to_huggingface

    def swapped(state):
        weights = honest(state)
        layer = "bert.encoder.layer.0.attention.self"
        query, key = f"{layer}.query.weight", f"{layer}.key.weight"
        weights[query], weights[key] = weights[key], weights[query]
        return weights

    monkeypatch.setattr(directory, "to_huggingface", swapped)
    with pytest.raises(DataError, match="logits differ"):
        write(train("unigram"), tmp_path / "hf")
    assert list(tmp_path.iterdir()) == []


def test_a_weight_that_is_missing_leaves_nothing(tmp_path, monkeypatch):
    honest = directory.to_huggingface
    drop = "bert.pooler.dense.bias"
    monkeypatch.setattr(
        directory,
        "to_huggingface",
        lambda state: {name: value for name, value in honest(state).items() if name != drop},
    )
    with pytest.raises(DataError, match=drop):
        write(train("unigram"), tmp_path / "hf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_ids_that_differ_without_a_tie_leave_nothing(kind, tmp_path, monkeypatch):
    honest = directory.tokenizer_json

    def careless(tokenizer):
        content = honest(tokenizer)
        if kind == "unigram":
            for entry in content["model"]["vocab"][5:300:2]:
                entry[1] -= 2.0
        else:
            content["model"]["merges"].reverse()
        return content

    monkeypatch.setattr(directory, "tokenizer_json", careless)
    with pytest.raises(DataError, match="not because they score the same; nothing was exported"):
        write(train(kind), tmp_path / "hf")
    assert list(tmp_path.iterdir()) == []


def test_exact_ties_pass_and_are_counted_and_only_for_unigram(tmp_path, monkeypatch):
    """Scores whose sums round otherwise in 32 bits than in 64, so that the two sides part."""
    tokenizer = unigram(x=-2.13, y=-3.37, z=-4.71, xy=-2.77, yx=-2.77)
    write(tokenizer, tmp_path / "hf", lines=[])
    lines = ["z" * number + "xyx" for number in range(1, 40)]
    theirs = load_tokenizer(tmp_path / "hf")(lines, add_special_tokens=False)["input_ids"]
    parted = [a != b for a, b in zip(theirs, tokenizer.encode(lines), strict=True)]
    assert sum(parted) > 0, "no line on which the two sides part: nothing is tested"
    assert check_ids(tmp_path / "hf", tokenizer, lines) == sum(parted)
    monkeypatch.setattr(tokenizer, "is_unigram", False)
    with pytest.raises(DataError, match="not because"):
        check_ids(tmp_path / "hf", tokenizer, lines)


def test_what_is_there_is_not_replaced_unasked(tmp_path):
    tokenizer = train("unigram")
    write(tokenizer, tmp_path / "hf")
    before = (tmp_path / "hf" / "config.json").stat().st_ino
    with pytest.raises(ConfigError, match="already there"):
        write(tokenizer, tmp_path / "hf")
    assert (tmp_path / "hf" / "config.json").stat().st_ino == before
    write(tokenizer, tmp_path / "hf", overwrite=True)
    assert (tmp_path / "hf" / "config.json").stat().st_ino != before
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_a_folder_that_is_no_export_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="no earlier export"):
        write(train("unigram"), tmp_path / "thesis", overwrite=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


def test_what_a_killed_export_left_goes_with_the_next(tmp_path):
    (tmp_path / "hf.tmp-1").mkdir()
    write(train("unigram"), tmp_path / "hf")
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        write(train("unigram"), tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_the_logit_check_sees_one_changed_number(tmp_path):
    tokenizer = train("unigram")
    bert = write(tokenizer, tmp_path / "hf")
    weights = load_file(tmp_path / "hf" / "model.safetensors")
    weights["bert.encoder.layer.1.output.LayerNorm.bias"][3] += 1e-5
    save_file(weights, tmp_path / "hf" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match="logits differ"):
        check_logits(tmp_path / "hf", bert, rows_of(tokenizer, LINES, 96))


def test_config_says_what_the_model_is(tmp_path):
    bert = write(train("unigram"), tmp_path / "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["vocab_size"] == 700
    assert config["intermediate_size"] == 4 * bert.config.width
    assert config["model_type"] == "bert"
    assert np.isclose(config["layer_norm_eps"], 1e-12)
