"""Weights and shape in Hugging Face's names, both ways, and the reading of a BERT directory."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from mlmdist.config.loading import build
from mlmdist.config.pretrain import Model
from mlmdist.errors import ConfigError, DataError
from mlmdist.model.bert import NUM_SEGMENTS, Bert

log = logging.getLogger(__name__)

WEIGHTS_NAME = "model.safetensors"
PICKLE_NAME = "pytorch_model.bin"
CONFIG_NAME = "config.json"

OUTSIDE_LAYERS = {
    "embeddings.tokens.weight": "bert.embeddings.word_embeddings.weight",
    "embeddings.positions.weight": "bert.embeddings.position_embeddings.weight",
    "embeddings.segments.weight": "bert.embeddings.token_type_embeddings.weight",
    "embeddings.norm": "bert.embeddings.LayerNorm",
    "pair_head.pooler": "bert.pooler.dense",
    "pair_head.classifier": "cls.seq_relationship",
    "mlm_head.dense": "cls.predictions.transform.dense",
    "mlm_head.norm": "cls.predictions.transform.LayerNorm",
    "mlm_head.bias": "cls.predictions.bias",
}
IN_LAYER = {
    "attention.out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "norm": "output.LayerNorm",
}
QKV = ("query", "key", "value")

FIXED = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "type_vocab_size": NUM_SEGMENTS,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "tie_word_embeddings": True,
}
"""What this BERT is and Hugging Face's may not be."""

SHAPE = {
    "num_layers": "num_hidden_layers",
    "width": "hidden_size",
    "num_heads": "num_attention_heads",
    "intermediate": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
    "layer_norm_eps": "layer_norm_eps",
}


@dataclass(frozen=True)
class Loaded:
    """A model read from a Hugging Face directory."""

    model: Bert
    missing: tuple[str, ...]
    """Our names of the heads' weights that the directory lacks; they are newly drawn."""


def to_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our state dict under the names of `BertForPreTraining.save_pretrained`: tied ones once."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in state.items():
        prefix, kind = their_name(name).rsplit(".", 1)
        if prefix.endswith(".qkv"):
            parts = zip(QKV, tensor.chunk(len(QKV)), strict=True)
            layer = prefix.removesuffix("qkv")
            renamed |= {f"{layer}{part}.{kind}": piece.contiguous() for part, piece in parts}
        else:
            renamed[their_name(name)] = tensor.contiguous()
    return renamed


def from_huggingface(tensors: Mapping[str, Tensor], names: list[str]) -> dict[str, Tensor]:
    """Those of our `names` that are among a BERT's `tensors`.

    Reads `BertModel` (no prefix) and the models with heads, and LayerNorm's old gamma and beta.
    """
    theirs = {_today(name): tensor for name, tensor in tensors.items()}
    state: dict[str, Tensor] = {}
    for name in names:
        prefix, kind = their_name(name).rsplit(".", 1)
        layer = prefix.removesuffix("qkv")
        sources = (
            [f"{layer}{part}.{kind}" for part in QKV] if layer != prefix else [their_name(name)]
        )
        if all(source in theirs for source in sources):
            state[name] = torch.cat([theirs[source] for source in sources])
    return state


def their_name(name: str) -> str:
    """Hugging Face's name of our weight; for the fused matrix, one that ends in `self.qkv.*`."""
    if name.startswith("layers."):
        _, number, rest = name.split(".", 2)
        stem, kind = rest.rsplit(".", 1)
        inner = "attention.self.qkv" if stem == "attention.qkv" else IN_LAYER[stem]
        return f"bert.encoder.layer.{number}.{inner}.{kind}"
    if name in OUTSIDE_LAYERS:
        return OUTSIDE_LAYERS[name]
    stem, kind = name.rsplit(".", 1)
    return f"{OUTSIDE_LAYERS[stem]}.{kind}"


def _today(name: str) -> str:
    """A name as today's transformers would write it."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    name = name.replace("LayerNorm.beta", "LayerNorm.bias")
    if name == "cls.predictions.decoder.bias":
        return "cls.predictions.bias"
    return name if name.startswith(("bert.", "cls.")) else f"bert.{name}"


def to_config(config: Model, vocab_size: int) -> dict[str, Any]:
    """The content of config.json."""
    shape = {theirs: getattr(config, ours) for ours, theirs in SHAPE.items()}
    shape["intermediate_size"] = config.feed_forward_width
    return {
        "architectures": ["BertForPreTraining"],
        "dtype": "float32",
        "vocab_size": vocab_size,
        **FIXED,
        **shape,
    }


def from_config(values: Mapping[str, Any], source: str) -> tuple[Model, int]:
    """(shape, vocabulary size) in a config.json; raises DataError if it is not our kind of BERT."""
    for key, wanted in FIXED.items():
        given = values.get(key, None if key == "model_type" else wanted)
        if given != wanted:
            raise DataError(
                f"{source}: {key}={given!r}; must be {wanted!r}: only BERT as published is read"
            )
    shape = {ours: values[theirs] for ours, theirs in SHAPE.items() if theirs in values}
    try:
        return build(Model, shape, source), int(values.get("vocab_size", 30522))
    except ConfigError as error:
        raise DataError(str(error)) from None


def load(folder: Path, seed: int = 0) -> Loaded:
    """The BERT in a Hugging Face directory, to score with or to continue pretraining from.

    Heads that it lacks are drawn from `seed`, named in a warning and in `missing`. Raises DataError
    if a weight of the encoder is missing or the directory is not a BERT.
    """
    source = folder / CONFIG_NAME
    try:
        values = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{source}: not a config that can be read ({error})") from None
    config, vocab_size = from_config(values, str(source))
    model = Bert(config, vocab_size, seed)
    tensors = read_tensors(folder)
    _check_tied(tensors, folder)
    state = from_huggingface(tensors, list(model.state_dict()))
    missing = tuple(name for name in model.state_dict() if name not in state)
    _check_complete(model, state, missing, folder)
    model.load_state_dict(state, strict=False)
    if missing:
        log.warning("%s lacks %s: drawn anew", folder, ", ".join(missing))
    return Loaded(model, missing)


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All weights of a directory by name, from one file or from the parts its index names."""
    index = folder / f"{WEIGHTS_NAME}.index.json"
    if (folder / WEIGHTS_NAME).is_file():
        return _read_safe(folder / WEIGHTS_NAME)
    if index.is_file():
        parts = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        return {name: value for part in parts for name, value in _read_safe(folder / part).items()}
    if (folder / PICKLE_NAME).is_file():
        return torch.load(folder / PICKLE_NAME, map_location="cpu", weights_only=True)
    raise DataError(f"{folder}: no weights; must hold {WEIGHTS_NAME} or {PICKLE_NAME}")


def _read_safe(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path}: not weights that can be read ({error})") from None


def _check_tied(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse a decoder of its own: ours is the token embedding."""
    decoder = tensors.get("cls.predictions.decoder.weight")
    tokens = tensors.get("bert.embeddings.word_embeddings.weight")
    if decoder is not None and tokens is not None and not torch.equal(decoder, tokens):
        raise DataError(f"{folder}: its decoder is not its token embedding; BERT's are one matrix")


def _check_complete(
    model: Bert, state: Mapping[str, Tensor], missing: tuple[str, ...], folder: Path
) -> None:
    """Refuse a directory whose encoder is not whole, or whose shapes are not its config's."""
    encoder = [name for name in missing if name.startswith(("embeddings.", "layers."))]
    if encoder:
        raise DataError(
            f"{folder}: no {their_name(encoder[0])} among its weights; not a whole BERT"
        )
    for name, expected in model.state_dict().items():
        if name in state and state[name].shape != expected.shape:
            raise DataError(
                f"{folder}: {their_name(name)} has shape {tuple(state[name].shape)}; "
                f"{CONFIG_NAME} asks for {tuple(expected.shape)}"
            )
