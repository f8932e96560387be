"""The weights before the first step: BERT's, as a function of the seed and each weight's name."""

import torch
from torch import nn

from mlmdist.rng import hash64, purpose_key

MAX_SEED = 1 << 63  # torch's generators take signed seeds


@torch.no_grad()
def initialize(model: nn.Module, deviation: float, seed: int) -> None:
    """Draw matrices from N(0, deviation); biases become 0 and LayerNorm the identity.

    Each parameter has its own generator, so none depends on which others there are, or on the
    order in which they were made; the global generator is not touched.
    """
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
            continue
        generator = torch.Generator(parameter.device)
        generator.manual_seed(hash64("initial weights", seed, purpose_key(name)) % MAX_SEED)
        parameter.normal_(0.0, deviation, generator=generator)
