"""Dropout (Srivastava et al. 2014), on the CPU from a quarter of the random numbers.

torch draws a float for each element there, one after the other: a quarter of a step of BERT-base. A
draw of 64 bits decides four elements here, each by 16 bits, so a probability is kept to 2^-17, and
what is kept is scaled by that one: the mean is exact. The draws are NumPy's SFC64 (Doty-Humphrey's
Small Fast Chaotic), a third of the time of torch's generator; that one, which the caller seeds,
gives each call its seed.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

LANES = 4  # decisions a draw
LEVELS = 1 << 16
LOWEST = -(1 << 15)  # of 16 bits with a sign
ONES = {torch.bfloat16: 0x3F80, torch.float16: 0x3C00}
"""The bits of 1 in types of 16 bits."""


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
    scale = LEVELS / (LEVELS - levels)
    nothing = values.new_zeros(())
    return torch.addcmul(nothing, values, _kept(values, LOWEST + levels), value=scale)


def _kept(values: Float[Tensor, "*shape"], lowest: int) -> Float[Tensor, "*shape"]:
    """1 for what is kept, 0 for what is dropped: where a draw is under `lowest`."""
    size = values.numel()
    seed = int(torch.empty((), dtype=torch.int64).random_())
    draws = np.random.SFC64(seed).random_raw(-(-size // LANES))
    lanes = torch.from_numpy(draws.view(np.int16))[:size].view(values.shape)
    kept = torch.ge(lanes, lowest, out=lanes)
    if values.dtype not in ONES:
        return kept.to(values.dtype)
    return kept.mul_(ONES[values.dtype]).view(values.dtype)  # a conversion takes four times as long
