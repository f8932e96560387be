"""A whole small run on disk: tokenizer, shard sets and a recipe, made here."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlmdist.config.loading import dump
from mlmdist.config.pretrain import Pretrain
from mlmdist.files import write_json, write_text
from tests.data.corpus import random_block, write_set
from tests.export.corpus import save, train

NUM_PIECES = 700


def write_corpus(folder: Path) -> None:
    """`folder`/tokenizer and three shard sets.

    train (600 windows) and held_out (50 windows) for rows of 32, long (80 windows) for rows of 64.
    """
    tokenizer = train("unigram")
    (folder / "tokenizer").mkdir(parents=True)
    save(tokenizer, folder / "tokenizer")
    for name, num_windows, seed, capacity in (
        ("train", 600, 1, 29), ("held_out", 50, 2, 29), ("long", 80, 3, 61),
    ):  # fmt: skip
        block = random_block(num_windows, seed, capacity=capacity, most_sentences=5)
        tokens = np.where(block.tokens >= 5, 5 + block.tokens % (NUM_PIECES - 5), block.tokens)
        whole = replace(block, tokens=tokens.astype(np.uint16))
        write_set(folder / name, whole, capacity=capacity)
        path = folder / name / "manifest.json"
        facts = {"tokenizer_hash": tokenizer.hash, "vocab_size": NUM_PIECES}
        write_json(path, json.loads(path.read_bytes()) | facts)
        counts = np.bincount(tokens, minlength=NUM_PIECES).astype(np.uint64)
        np.save(folder / name / "unigram.npy", counts)


def recipe(corpus: Path, run: Path, **sections: Any) -> Pretrain:
    """A run of 8 steps in the folder `run`; `sections` are laid over it."""
    values: dict[str, Any] = {
        "run": run,
        "seed": 3,
        "data": {
            "train": corpus / "train",
            "held_out": corpus / "held_out",
            "tokenizer": corpus / "tokenizer",
        },
        "model": {"num_layers": 2, "width": 32, "num_heads": 2, "max_positions": 32},
        "train": {
            "steps": 8,
            "global_batch": 12,
            "micro_batch": 3,
            "threads": 1,
            "precision": "bf16",
        },
        "optimizer": {"learning_rate": 1e-3},
        "every": {"log": 3, "evaluate": 8, "save": 4},
        "limits": {"peer_seconds": 20.0, "hang_seconds": 60.0, "start_seconds": 60.0},
        "tracking": {"enabled": False},
    }
    for name, section in sections.items():
        values[name] = section if name == "phases" else values.get(name, {}) | section
    return Pretrain.model_validate(values)


def write_recipe(config: Pretrain) -> Path:
    """The config as a file for a command line, beside its run folder."""
    path = config.run.parent / "recipe.yaml"
    write_text(path, dump(config))
    return path
