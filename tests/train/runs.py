"""Runs of eight steps, and when two of them have come to the same state."""

from pathlib import Path
from typing import Any

import torch

from mlmdist.train import partitions
from tests.train.corpus import recipe, write_recipe

LAST = "step-00000008"


def job_of(folder: Path, corpus: Path, **sections: Any) -> Path:
    """A recipe in a folder of its own."""
    folder.mkdir()
    return write_recipe(recipe(corpus, folder / "run", **sections))


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
