"""Where a run stands in its budget: by steps to the number, by the clock in time."""

from itertools import pairwise

import pytest

from mlmdist.config.job import Every
from mlmdist.config.train import Optimizer, Schedule
from mlmdist.train.budget import ENDLESS, ClockBudget, StepBudget
from mlmdist.train.schedule import learning_rate
from mlmdist.train.state import TrainState


def test_one_schedule_goes_through_all_phases() -> None:
    budget = StepBudget([4, 2], own_schedules=False)
    places = [budget.schedule(TrainState(batch=n, phase=int(n >= 4))) for n in range(6)]
    assert places == [(n, 6) for n in range(6)]
    assert (budget.total, budget.unit) == (6.0, "steps")


def test_phases_with_rates_of_their_own_begin_their_schedules_anew() -> None:
    budget = StepBudget([4, 2], own_schedules=True)
    places = [budget.schedule(TrainState(batch=n, phase=int(n >= 4))) for n in range(6)]
    assert places == [(0, 4), (1, 4), (2, 4), (3, 4), (0, 2), (1, 2)]


def test_the_last_step_of_a_phase_is_known_before_it_is_done() -> None:
    budget = StepBudget([4, 2], own_schedules=False)
    ends = [budget.ends(TrainState(batch=n, phase=int(n >= 4))) for n in range(6)]
    assert ends == [False, False, False, True, False, True]
    assert budget.is_over(TrainState(batch=4))
    assert not budget.is_over(TrainState(batch=4, phase=1))
    assert [budget.last_batch(phase) for phase in (0, 1)] == [4, 6]


EVERY = Every(evaluate=7, save=1000)
STEP_MS, LOOK_MS, SAVE_MS = 100, 700.0, 500.0


def run_by(budget: ClockBudget, num_phases: int = 1) -> tuple[list[float], TrainState]:
    """The rates of a run whose steps, looks and saves take so long; the state at its end."""
    state, rates = TrainState(look_ms=LOOK_MS, save_ms=SAVE_MS), []
    now = 0.0
    while True:
        state.clock_ms = round(now)
        budget.tick(state)
        last = budget.ends(state)
        place, end = budget.schedule(state)
        rates.append(learning_rate(place, end, Optimizer(learning_rate=1.0), Schedule()))
        state.batch += 1
        now += STEP_MS
        if last or state.batch % budget.every.evaluate == 0:
            now += LOOK_MS
            budget.leave_out(LOOK_MS / 1000)
        if last or state.batch % budget.every.save == 0:
            now += SAVE_MS
            budget.leave_out(SAVE_MS / 1000)
        if last:
            state.clock_ms = round(now)
            if state.phase == num_phases - 1:
                return rates, state
            state.next_phase({})


@pytest.mark.parametrize("every", [EVERY, Every(evaluate=1000, save=7)])
def test_a_run_by_the_clock_ends_in_time_and_looks_and_saves_before(every: Every) -> None:
    rates, state = run_by(ClockBudget([30.0], every, own_schedules=False))
    assert 28_500 <= state.clock_ms <= 30_000
    peak = rates.index(max(rates))
    assert 0.05 < peak / len(rates) < 0.2
    assert all(before > after for before, after in pairwise(rates[peak:]))
    assert rates[-1] < 0.03


def test_phases_by_the_clock_end_at_their_times() -> None:
    budget = ClockBudget([10.0, 20.0], EVERY, own_schedules=True)
    rates, state = run_by(budget, num_phases=2)
    second = state.begins[1]
    assert rates[second] < 0.1 < max(rates[second:])  # it warms up again
    assert rates[second - 1] < 0.1
    assert 28_500 <= state.clock_ms <= 30_500
    assert budget.last_batch(0) == ENDLESS


@pytest.mark.parametrize("gone", [29_950, 31_000])
def test_a_resumed_run_by_the_clock_whose_time_is_over_does_no_step(gone: int) -> None:
    budget = ClockBudget([30.0], EVERY, own_schedules=False)
    assert budget.is_over(TrainState(clock_ms=gone, look_ms=LOOK_MS, save_ms=SAVE_MS))
    assert not budget.is_over(TrainState(clock_ms=20_000, look_ms=LOOK_MS, save_ms=SAVE_MS))
