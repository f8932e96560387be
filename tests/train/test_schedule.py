"""The rates are those of transformers' schedules, meet at the joints, and hold no state."""

from itertools import pairwise
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mlmdist.config.loading import build
from mlmdist.config.pretrain import Pretrain
from mlmdist.config.train import Optimizer, Schedule
from mlmdist.errors import ConfigError
from mlmdist.train.schedule import learning_rate

PEAK, STEPS, WARMUP = 3e-4, 200, 30
KINDS = ("linear", "cosine", "polynomial", "wsd")


def rate(batch: int, schedule: Schedule, num_steps: int = STEPS) -> float:
    return learning_rate(batch, num_steps, Optimizer(learning_rate=PEAK), schedule)


def theirs(kind: str, final: float) -> Any:
    """transformers' schedule of the same name."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], PEAK)
    span = {"num_warmup_steps": WARMUP, "num_training_steps": STEPS}
    match kind:
        case "linear":
            return transformers.get_linear_schedule_with_warmup(optimizer, **span)
        case "cosine":
            made = transformers.get_cosine_with_min_lr_schedule_with_warmup
            return made(optimizer, **span, min_lr_rate=final)
        case "polynomial":
            made = transformers.get_polynomial_decay_schedule_with_warmup
            return made(optimizer, **span, lr_end=final * PEAK + 1e-30, power=2.0)
        case _:
            made = transformers.get_wsd_schedule
            return made(
                optimizer, **span, num_decay_steps=40, decay_type="1-sqrt", min_lr_ratio=final
            )


CASES = [(kind, final) for kind in KINDS for final in (0.0, 0.1)]
CASES.remove(("linear", 0.1))  # theirs ends at 0


@pytest.mark.parametrize(("kind", "final"), CASES)
def test_rates_are_those_of_transformers(kind: Any, final: float) -> None:
    """Theirs gives the first step a rate of 0; ours begins with their second."""
    schedule = Schedule(kind=kind, warmup_steps=WARMUP, final=final, decay=0.2)
    expected = theirs(kind, final).lr_lambdas[0]
    for batch in range(STEPS + 1):
        if batch >= WARMUP:
            assert rate(batch, schedule) == pytest.approx(PEAK * expected(batch), abs=1e-12)
        elif not (kind == "wsd" and final):  # theirs warms up from the lowest rate there
            assert rate(batch, schedule) == pytest.approx(PEAK * expected(batch + 1), abs=1e-12)


@settings(max_examples=40)
@given(
    kind=st.sampled_from(KINDS),
    num_steps=st.integers(50, 500),
    warmup=st.floats(0, 0.5),
    decay=st.floats(0.1, 0.5),
    final=st.floats(0, 1),
    power=st.floats(1, 4),
)
def test_rates_rise_to_the_peak_and_fall_to_the_end_without_a_jump(
    kind: Any, num_steps: int, warmup: float, decay: float, final: float, power: float
) -> None:
    schedule = Schedule(kind=kind, warmup=warmup, decay=decay, final=final, power=power)
    rates = [rate(batch, schedule, num_steps) / PEAK for batch in range(num_steps + 1)]
    up, down = schedule.num_warmup_steps(num_steps), num_steps - schedule.num_decay_steps(num_steps)
    assert rates[up] == pytest.approx(1)
    assert max(rates) <= 1 + 1e-12
    assert rates[-1] == pytest.approx(final, abs=1e-12)
    assert all(before < after + 1e-12 for before, after in pairwise(rates[: up + 1]))
    assert all(before > after - 1e-12 for before, after in pairwise(rates[up:]))
    if up:
        assert rates[up - 1] == pytest.approx(1)
    if kind == "wsd":
        assert rates[up : down + 1] == pytest.approx([1.0] * (down + 1 - up))
    steepest = max(power, 1) * 2 / (num_steps - up)
    if kind != "wsd":
        assert all(before - after < steepest for before, after in pairwise(rates[up:]))


def config(**schedule: Any) -> Pretrain:
    return build(
        Pretrain,
        {
            "run": "run",
            "data": {"train": "train", "tokenizer": "tokenizer"},
            "train": {"steps": 100, "global_batch": 8, "micro_batch": 8},
            "schedule": schedule,
        },
        "here",
    )


def test_a_warm_up_in_steps_takes_the_place_of_the_share() -> None:
    assert config(warmup_steps=7).schedule.num_warmup_steps(100) == 7
    assert config(warmup_steps=0).schedule.num_warmup_steps(100) == 0
    assert config().schedule.num_warmup_steps(100) == 10


def test_a_schedule_longer_than_the_run_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"warmup_steps=101 must be at most train\.steps=100"):
        config(warmup_steps=101)
    with pytest.raises(ConfigError, match="60 steps up and 50 down"):
        config(kind="wsd", warmup_steps=60, decay=0.5)
    with pytest.raises(ConfigError, match=r"warmup=0\.6 and decay=0\.5 are shares of one run"):
        config(kind="wsd", warmup=0.6, decay=0.5)
    for steps in (3, 7, 15):  # each share rounded, they may overlap by a step
        Schedule(kind="wsd", warmup=0.5, decay=0.5).check(steps, "train.steps")
    with pytest.raises(ValidationError, match="linear"):
        Schedule(kind="step")  # pyright: ignore[reportArgumentType]
