"""Dropout: what is dropped, how the rest is scaled, where the draws come from."""

import math

import pytest
import torch

from mlmdist.model.dropout import LEVELS, Dropout, drop


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9, 1 / 3])
def test_the_share_is_that_of_the_probability_and_the_mean_stays(probability: float) -> None:
    torch.manual_seed(1)
    size = 1_000_003  # no multiple of what a draw decides
    found = drop(torch.ones(size), probability)
    dropped = int((found == 0).sum())
    bound = 5 * math.sqrt(size * probability * (1 - probability))
    assert abs(dropped - size * probability) < bound + size / LEVELS
    kept = found[found != 0]
    assert len(set(kept.tolist())) == 1
    assert float(kept[0]) == pytest.approx(1 / (1 - probability), rel=1e-3)
    assert float(found.mean()) == pytest.approx(1.0, abs=5 * bound / size / (1 - probability))


def test_every_lane_of_a_draw_drops_alike() -> None:
    torch.manual_seed(2)
    dropped = (drop(torch.ones(250_000, 4), 0.1) == 0).double().mean(0)
    assert dropped.tolist() == pytest.approx([0.1] * 4, abs=5 * math.sqrt(0.09 / 250_000))


def test_neighbours_are_independent() -> None:
    torch.manual_seed(3)
    dropped = (drop(torch.ones(400_000), 0.5) == 0).double()
    for distance in (1, 2, 3, 4, 8):
        both = float((dropped[:-distance] * dropped[distance:]).mean())
        assert both == pytest.approx(0.25, abs=5 * 0.5 / math.sqrt(400_000))


def test_the_gradient_goes_where_the_values_went() -> None:
    values = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(4)
    found = drop(values, 0.4)
    found.sum().backward()
    assert values.grad is not None
    assert torch.equal(values.grad * values.detach(), found.detach())


def test_draws_are_the_seeds_and_an_evaluation_takes_none() -> None:
    module, values = Dropout(0.3), torch.randn(64, 3)
    torch.manual_seed(5)
    first = module(values)
    torch.manual_seed(5)
    assert torch.equal(module.eval()(values), values)
    assert torch.equal(module.train()(values), first)
    assert not torch.equal(module(values), first)


def test_nothing_is_dropped_at_probability_0() -> None:
    values = torch.randn(5)
    assert drop(values, 0.0) is values
    assert drop(values.bfloat16(), 0.2).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 7), (0,), (64, 33)])
def test_16_bits_drop_what_32_bits_drop(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    values = torch.ones(shape).t() if len(shape) > 1 else torch.ones(shape)
    torch.manual_seed(6)
    wide = drop(values, 0.3)
    torch.manual_seed(6)
    given = values.to(dtype).requires_grad_()
    narrow = drop(given, 0.3)
    assert torch.equal(narrow.detach(), wide.to(dtype))
    narrow.sum().backward()
    assert given.grad is not None
    assert torch.equal(given.grad, wide.to(dtype))
