"""When fp16's loss scale moves, and where it ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.errors import NO_PROGRESS, NoProgress
from mlmdist.train.loss_scale import FIRST, LEAST, MOST, STEPS_TO_DOUBLE, LossScale


def after(scale: LossScale, *steps: bool) -> LossScale:
    for is_finite in steps:
        scale.advance(is_finite=is_finite)
    return scale


def test_a_step_that_is_not_finite_halves_it_and_counts_anew() -> None:
    assert after(LossScale(), True, True, False) == LossScale(FIRST / 2, 0)


def test_a_thousand_finite_steps_double_it() -> None:
    almost = after(LossScale(), *[True] * (STEPS_TO_DOUBLE - 1))
    assert almost == LossScale(FIRST, STEPS_TO_DOUBLE - 1)
    assert after(almost, True) == LossScale(2 * FIRST, 0)


def test_at_the_least_there_is_no_progress_left() -> None:
    scale = after(LossScale(), *[False] * 16)
    assert scale.scale == LEAST
    with pytest.raises(
        NoProgress, match=r"at loss scale 1, the least .* lower optimizer.learning_rate"
    ) as error:
        after(scale, False)
    assert error.value.exit_code == NO_PROGRESS


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 24))
def test_it_stays_a_power_of_two_between_its_bounds(steps: list[bool], power: int) -> None:
    scale = LossScale(2.0**power, STEPS_TO_DOUBLE - 3)
    for is_finite in steps:
        if not is_finite and scale.scale == LEAST:
            break
        before = scale.scale
        scale.advance(is_finite=is_finite)
        assert LEAST <= scale.scale <= MOST
        assert scale.scale / before in (0.5, 1.0, 2.0)
