"""Runs of eight steps, and when two of them have come to the same state."""

import json
from pathlib import Path
from typing import Any

import torch

from mlmdist.train import partitions
from tests.train.corpus import recipe, write_recipe

TIMED = ("time", "train/tokens_per_second", "speed/")
LAST = "step-00000008"


def job_of(folder: Path, corpus: Path, **sections: Any) -> Path:
    """A recipe in a folder of its own."""
    folder.mkdir()
    return write_recipe(recipe(corpus, folder / "run", **sections))


def metrics(folder: Path) -> list[dict[str, Any]]:
    """What a run folder holds of figures, without those that depend on the clock."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in line.items() if not name.startswith(TIMED)}
        for line in lines
    ]


def assert_same_state(one: Path, other: Path) -> None:
    """Every tensor of two checkpoints is the same to the bit: weights, moments and counters."""
    first, second = partitions.read(one), partitions.read(other)
    for a, b in zip(
        [*first.models, *first.states()], [*second.models, *second.states()], strict=True
    ):
        assert_same(a, b)


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif not isinstance(one, partitions.Foreign):
        assert one == other
