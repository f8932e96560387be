"""LAMB: Adam whose step for each matrix has the matrix's own length (You et al. 2020, Algorithm 2).

    m, v = Adam's moments, bias-corrected
    u = m / (sqrt(v) + eps) + weight_decay * w
    w -= learning_rate * |w| / |u| * u           |w| / |u| is 1 where either is 0

As in the authors' code (ALBERT's lamb_optimizer.py), biases and LayerNorm get neither decay nor
the ratio. The norms are those of whole parameters: under ZeRO a rank holds parts of them, end to
end in one flat tensor, so squares are added up over the ranks.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as ranks
from torch import Tensor, optim

Place = tuple[int, int]
"""(start, length) of a parameter's part in a flat tensor."""


class Lamb(optim.Optimizer):
    """LAMB on whole parameters (stage 0), or on a rank's flat parts of them as ZeRO cuts them."""

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        betas: tuple[float, float],
        eps: float,
        zero_stage: int,
    ) -> None:
        """Groups have `params`, `weight_decay`, and `adapts`: whether the ratio is taken."""
        super().__init__(list(groups), {"lr": 0.0, "betas": betas, "eps": eps})
        self.zero_stage = zero_stage
        for group in self.param_groups:  # before ZeRO puts flat tensors in their place
            group["sizes"] = [parameter.numel() for parameter in group["params"]]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One update of all parameters that have a gradient."""
        assert closure is None, "LAMB evaluates nothing itself"
        for group in self.param_groups:
            parameters = [one for one in group["params"] if one.grad is not None]
            if not parameters:
                continue
            updates = [self._direction(one, group) for one in parameters]
            if group["adapts"]:
                self._adapt(parameters, updates, group["sizes"])
            for parameter, update in zip(parameters, updates, strict=True):
                parameter.sub_(update.mul_(group["lr"]))

    def _direction(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        """Adam's step of length 1, with decay."""
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        first, second = group["betas"]
        mean = state["exp_avg"].lerp_(gradient, 1 - first)
        square = state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        steps = float(state["step"])
        root = (square / (1 - second**steps)).sqrt_().add_(group["eps"])
        update = (mean / (1 - first**steps)).div_(root)
        return update.add_(parameter, alpha=group["weight_decay"])

    def _adapt(self, parameters: list[Tensor], updates: list[Tensor], sizes: list[int]) -> None:
        """Multiply each parameter's update by the ratio of norms."""
        weights = self._parts(parameters, sizes)
        steps = self._parts(updates, sizes)
        squares = torch.stack([_squares(weights), _squares(steps)])  # [2, parameters]
        if self.zero_stage > 0 and ranks.get_world_size() > 1:
            ranks.all_reduce(squares)
        weight, step = squares.sqrt()
        ratio = torch.where((weight > 0) & (step > 0), weight / step, 1.0)
        for part, factor in zip(steps, ratio.float(), strict=True):
            part.mul_(factor)

    def _parts(self, tensors: list[Tensor], sizes: list[int]) -> list[Tensor]:
        """The part of each parameter that this rank has, as views."""
        if self.zero_stage == 0:
            return tensors
        (flat,) = tensors
        world_size, rank = ranks.get_world_size(), ranks.get_rank()
        cut = equal_shares if self.zero_stage == 3 else stretches
        return [flat.narrow(0, *place) for place in cut(sizes, flat.numel(), rank, world_size)]


def _squares(parts: Sequence[Tensor]) -> Tensor:
    """The sum of squares of each part, fp64."""
    return torch.stack([torch.linalg.vector_norm(part) for part in parts]).double().square()


def stretches(sizes: Sequence[int], length: int, rank: int, world_size: int) -> list[Place]:
    """Stages 1 and 2: all parameters end to end, cut into equal stretches of `length`."""
    assert length * world_size >= sum(sizes), "a group of parameters is not whole"
    places: list[Place] = []
    begin = -rank * length
    for size in sizes:
        start, stop = max(0, begin), min(length, begin + size)
        places.append((min(start, length), max(0, stop - start)))
        begin += size
    return places


def equal_shares(sizes: Sequence[int], length: int, rank: int, world_size: int) -> list[Place]:
    """Stage 3: each parameter in equal shares, the last one padded, a rank's shares end to end."""
    shares = [-(-size // world_size) for size in sizes]
    assert length == sum(shares), "a group of parameters is not whole"
    places: list[Place] = []
    begin = 0
    for size, share in zip(sizes, shares, strict=True):
        places.append((begin, min(share, max(0, size - rank * share))))
        begin += share
    return places
