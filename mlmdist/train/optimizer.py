"""AdamW as BERT uses it: decay on matrices only."""

from torch import nn, optim

from mlmdist.config.pretrain import Optimizer


def build_optimizer(model: nn.Module, config: Optimizer) -> optim.Optimizer:
    """The optimizer of `model`'s parameters; the learning rate is set anew before each step.

    Biases and LayerNorm, the parameters of one dimension, get no weight decay (Devlin et al. 2019,
    A.2, and Google's `AdamWeightDecayOptimizer`).
    """
    groups = [
        {"params": matrices(model), "weight_decay": config.weight_decay},
        {"params": vectors(model), "weight_decay": 0.0},
    ]
    if config.name == "sgd":
        return optim.SGD([{**group, "weight_decay": 0.0} for group in groups], config.learning_rate)
    return optim.AdamW(
        groups, lr=config.learning_rate, betas=config.betas, eps=config.eps, fused=True
    )


def matrices(model: nn.Module) -> list[nn.Parameter]:
    """The parameters with weight decay."""
    return [parameter for parameter in model.parameters() if parameter.ndim > 1]


def vectors(model: nn.Module) -> list[nn.Parameter]:
    """The parameters without weight decay: biases and LayerNorm."""
    return [parameter for parameter in model.parameters() if parameter.ndim <= 1]
