"""What a Hugging Face BERT directory says of itself: its shape, and which files hold its weights.

No torch: a dry run reads this.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlmdist.config.loading import build
from mlmdist.config.model import Model
from mlmdist.errors import ConfigError, DataError

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = f"{WEIGHTS_NAME}.index.json"
PICKLE_NAME = "pytorch_model.bin"

NUM_SEGMENTS = 2

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
    """(shape, vocabulary size) in a config.json; raises DataError if it is not our kind of BERT.

    The first BERTs did not name their `model_type`; their width they did.
    """
    named = "bert" if "hidden_size" in values else None
    for key, wanted in FIXED.items():
        given = values.get(key, named if key == "model_type" else wanted)
        if given != wanted:
            raise DataError(
                f"{source}: {key}={given!r}; must be {wanted!r}: only BERT as published is read"
            )
    shape = {ours: values[theirs] for ours, theirs in SHAPE.items() if theirs in values}
    try:
        return build(Model, shape, source), int(values.get("vocab_size", 30522))
    except ConfigError as error:
        raise DataError(str(error)) from None


def read_config(folder: Path) -> tuple[Model, int]:
    """(shape, vocabulary size) of the BERT in `folder`; raises DataError if there is none."""
    source = folder / CONFIG_NAME
    try:
        values = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{source}: not a config that can be read ({error})") from None
    if not isinstance(values, dict):
        raise DataError(f"{source}: holds no JSON object; give a Hugging Face BERT directory")
    return from_config(values, str(source))


def weight_files(folder: Path) -> list[Path]:
    """The files with the directory's weights: one, or the parts that its index names.

    Raises DataError if there are none.
    """
    if (folder / WEIGHTS_NAME).is_file():
        return [folder / WEIGHTS_NAME]
    if (folder / INDEX_NAME).is_file():
        return [folder / part for part in _parts(folder / INDEX_NAME)]
    if (folder / PICKLE_NAME).is_file():
        return [folder / PICKLE_NAME]
    raise DataError(f"{folder}: no weights; must hold {WEIGHTS_NAME} or {PICKLE_NAME}")


def _parts(index: Path) -> list[str]:
    try:
        return sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{index}: not an index of weights ({error!r})") from None
