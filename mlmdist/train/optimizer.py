"""The optimizers, with decay on matrices only as BERT has it."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn, optim

from mlmdist.config.train import Optimizer
from mlmdist.train.lamb import Lamb

EMBEDDINGS = ("embeddings.", "mlm_head.bias")
"""What moves while a run gets used to another vocabulary: the decoder's matrix is among it."""

WAITS = "waits"
"""A group's number of the batch before which it does not move."""


def build_optimizer(
    model: nn.Module, config: Optimizer, *, zero_stage: int = 0, embeddings_only_steps: int = 0
) -> optim.Optimizer:
    """The optimizer of `model`'s parameters; the learning rate is set anew before each step.

    Biases and LayerNorm, the parameters of one dimension, get no weight decay (Devlin et al. 2019,
    A.2, and Google's `AdamWeightDecayOptimizer`).
    """
    named = dict(model.named_parameters())
    parts = group_names(named, with_embeddings_apart=embeddings_only_steps > 0)
    groups = [_group(named, names, config, embeddings_only_steps) for names in parts]
    if config.kind == "sgd":
        return optim.SGD([{**group, "weight_decay": 0.0} for group in groups], config.learning_rate)
    if config.kind == "lamb":
        return Lamb(groups, betas=config.betas, eps=config.eps, zero_stage=zero_stage)
    return optim.AdamW(
        groups, lr=config.learning_rate, betas=config.betas, eps=config.eps, fused=True
    )


def _group(
    named: Mapping[str, nn.Parameter], names: list[str], config: Optimizer, steps: int
) -> dict[str, Any]:
    is_matrix = named[names[0]].ndim > 1
    return {
        "params": [named[name] for name in names],
        "weight_decay": config.weight_decay if is_matrix else 0.0,
        "adapts": is_matrix,
        WAITS: 0 if _is_embedding(names[0]) else steps,
    }


def group_names(named: Mapping[str, Tensor], *, with_embeddings_apart: bool) -> list[list[str]]:
    """The parameters' names, a group of the optimizer at a time: matrices, then vectors.

    Embeddings are two groups of their own, in front, where they move alone at first.
    """
    halves = [list(named)]
    if with_embeddings_apart:
        halves = [
            [name for name in named if _is_embedding(name) is apart] for apart in (True, False)
        ]
    return [
        [name for name in half if (named[name].ndim > 1) is is_matrix]
        for half in halves
        for is_matrix in (True, False)
    ]


def _is_embedding(name: str) -> bool:
    return name.startswith(EMBEDDINGS)
