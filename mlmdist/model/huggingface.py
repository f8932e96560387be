"""Weights in Hugging Face's names, both ways, and the reading of a BERT directory."""

import logging
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from mlmdist.errors import DataError
from mlmdist.model.bert import Bert
from mlmdist.model.directory import CONFIG_NAME, PICKLE_NAME, read_config, weight_files

log = logging.getLogger(__name__)

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


def load(folder: Path, seed: int = 0) -> Loaded:
    """The BERT in a Hugging Face directory, to score with or to continue pretraining from.

    Heads that it lacks are drawn from `seed`, named in a warning and in `missing`. Raises DataError
    if a weight of the encoder is missing or the directory is not a BERT.
    """
    config, vocab_size = read_config(folder)
    model = Bert(config, vocab_size, seed)
    tensors = read_tensors(folder)
    _check_tied(tensors, folder)
    _check_shapes(tensors, model, folder)
    state = from_huggingface(tensors, list(model.state_dict()))
    missing = tuple(name for name in model.state_dict() if name not in state)
    _check_complete(missing, folder)
    model.load_state_dict(state, strict=False)
    if missing:
        log.warning("%s lacks %s: drawn anew", folder, ", ".join(missing))
    return Loaded(model, missing)


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All weights of a directory by name; no class but torch's own is built from them."""
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        tensors |= _read_pickle(path) if path.name == PICKLE_NAME else _read_safe(path)
    return tensors


def _read_safe(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path}: not weights that can be read ({error})") from None


def _read_pickle(path: Path) -> dict[str, Tensor]:
    try:
        values = torch.load(path, map_location="cpu", weights_only=True)
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}
    except AttributeError:
        raise DataError(f"{path}: holds no weights by name; must be a state dict") from None
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path}: not weights that can be read ({reason})") from None


def _check_tied(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse a decoder of its own: ours is the token embedding."""
    decoder = tensors.get("cls.predictions.decoder.weight")
    tokens = tensors.get("bert.embeddings.word_embeddings.weight")
    if decoder is not None and tokens is not None and not torch.equal(decoder, tokens):
        raise DataError(f"{folder}: its decoder is not its token embedding; BERT's are one matrix")


def _check_shapes(tensors: Mapping[str, Tensor], model: Bert, folder: Path) -> None:
    """Refuse weights of other shapes than the directory's own config has; each is named."""
    given = {_today(name): tuple(tensor.shape) for name, tensor in tensors.items()}
    expected = {name: tuple(t.shape) for name, t in to_huggingface(model.state_dict()).items()}
    wrong = [
        f"{name} is {given[name]} and not {shape}"
        for name, shape in expected.items()
        if given.get(name, shape) != shape
    ]
    if wrong:
        raise DataError(f"{folder}: shapes are not those of its {CONFIG_NAME}: {'; '.join(wrong)}")


def _check_complete(missing: tuple[str, ...], folder: Path) -> None:
    """Refuse a directory whose encoder is not whole."""
    encoder = [name for name in missing if name.startswith(("embeddings.", "layers."))]
    if encoder:
        raise DataError(
            f"{folder}: no {their_name(encoder[0])} among its weights; not a whole BERT"
        )
