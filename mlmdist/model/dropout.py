"""Dropout (Srivastava et al. 2014), on the CPU from a quarter of the random numbers.

torch draws a float for each element there, one after the other: a quarter of a step of BERT-base. A
draw of 64 bits decides four elements here, each by 16 bits, so a probability is kept to 2^-17, and
what is kept is scaled by that one: the mean is exact. The draws come from torch's own generator,
which the caller seeds.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

LANES = 4  # decisions a draw
LEVELS = 1 << 16
LOWEST = -(1 << 15)  # of 16 bits with a sign
ALL_BITS = -(1 << 63)  # the lower end of what `random_` draws; the upper one is the type's


class Dropout(nn.Module):
    """`drop` while the module trains."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The values, some of them 0, the rest larger."""
        return drop(values, self.probability) if self.training else values


def drop(values: Float[Tensor, "*shape"], probability: float) -> Float[Tensor, "*shape"]:
    """The values, each 0 with this probability and else scaled so that the mean stays."""
    levels = round(probability * LEVELS)
    if values.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.dropout(values, probability)
    if not levels:
        return values
    size = values.numel()
    draws = torch.empty(-(-size // LANES), dtype=torch.int64).random_(ALL_BITS, None)
    kept = draws.view(torch.int16)[:size].view(values.shape) >= LOWEST + levels
    scale = LEVELS / (LEVELS - levels)
    nothing = values.new_zeros(())
    return torch.addcmul(nothing, values, kept.to(values.dtype), value=scale)
