"""How far a run has come, in steps or on the clock: its phases' ends and its schedule's place.

By steps all is known beforehand. By time the clock of rank 0, which every rank has from the sum of
counts before each step, moves the schedule and ends the run early enough for the last evaluation
and checkpoint; that is why a resumed run by time is not the same to the bit (law T1).
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol, runtime_checkable

from mlmdist.config.job import Every
from mlmdist.logs import clock
from mlmdist.train.phases import Phase
from mlmdist.train.state import TrainState

MS = 1000.0
ENDLESS = 1 << 40  # batches of a phase that the clock ends
SAFETY = 1.1  # on what was measured
PERIODS = 8  # steps whose longest is expected of the next


@runtime_checkable
class Budget(Protocol):
    """Asked before each step, with the state in front of it."""

    unit: str

    @property
    def total(self) -> float:
        """The whole of it, in `unit`."""
        ...

    def done(self, state: TrainState) -> float:
        """What is done of it, in `unit`."""
        ...

    def told(self, state: TrainState) -> str:
        """What is done of it, in words."""
        ...

    def tick(self, state: TrainState) -> None:
        """Take the state's clock as that of the next step's beginning."""
        ...

    def leave_out(self, seconds: float) -> None:
        """Time that went into an evaluation or a checkpoint since the last step."""
        ...

    def schedule(self, state: TrainState) -> tuple[float, float]:
        """(place, end) of the next step in the schedule that it is in."""
        ...

    def ends(self, state: TrainState) -> bool:
        """Whether the next step is the last of its phase."""
        ...

    def is_over(self, state: TrainState) -> bool:
        """Whether the phase is at its end."""
        ...

    def last_batch(self, phase: int) -> int:
        """The number behind the last batch of a phase."""
        ...


class StepBudget:
    """Phases of so many steps."""

    unit = "steps"

    def __init__(self, steps: Sequence[int], *, own_schedules: bool) -> None:
        self.steps, self.own_schedules = tuple(steps), own_schedules
        self.behind = tuple(accumulate(steps))

    @property
    def total(self) -> float:
        """Steps of the run."""
        return float(self.behind[-1])

    def done(self, state: TrainState) -> float:
        """Steps done."""
        return float(state.batch)

    def told(self, state: TrainState) -> str:
        """As the protocol says."""
        return f"step {state.batch} of {self.behind[-1]}"

    def tick(self, state: TrainState) -> None:
        """The clock says nothing here."""

    def leave_out(self, seconds: float) -> None:
        """The clock says nothing here."""

    def schedule(self, state: TrainState) -> tuple[float, float]:
        """In steps of the run, or of the phase where each has a schedule of its own."""
        if not self.own_schedules:
            return state.batch, self.behind[-1]
        steps = self.steps[state.phase]
        return state.batch - self.behind[state.phase] + steps, steps

    def ends(self, state: TrainState) -> bool:
        """As the protocol says."""
        return state.batch + 1 >= self.behind[state.phase]

    def is_over(self, state: TrainState) -> bool:
        """As the protocol says."""
        return state.batch >= self.behind[state.phase]

    def last_batch(self, phase: int) -> int:
        """As the protocol says."""
        return self.behind[phase]


class ClockBudget:
    """Phases of so much time; the state's clock says how much has gone."""

    unit = "s"

    def __init__(self, seconds: Sequence[float], every: Every, *, own_schedules: bool) -> None:
        self.ends_ms = tuple(MS * end for end in accumulate(seconds))
        self.every, self.own_schedules = every, own_schedules
        self.recent: list[float] = []
        self.before: float | None = None
        self.between = 0.0

    @property
    def total(self) -> float:
        """Seconds of the run."""
        return self.ends_ms[-1] / MS

    def done(self, state: TrainState) -> float:
        """Seconds gone."""
        return state.clock_ms / MS

    def told(self, state: TrainState) -> str:
        """As the protocol says."""
        return f"step {state.batch}, {clock(state.clock_ms / MS)} of {clock(self.total)}"

    def tick(self, state: TrainState) -> None:
        """As the protocol says."""
        if self.before is not None:
            self.recent = [*self.recent, state.clock_ms - self.before - self.between][-PERIODS:]
        self.before, self.between = state.clock_ms, 0.0

    def leave_out(self, seconds: float) -> None:
        """As the protocol says."""
        self.between += MS * seconds

    def schedule(self, state: TrainState) -> tuple[float, float]:
        """In milliseconds of the run, or of the phase where each has a schedule of its own."""
        end = self._end(state)
        begin = self.ends_ms[state.phase - 1] if self.own_schedules and state.phase else 0.0
        if not self.own_schedules:
            end = self.ends_ms[-1] - self._reserve(state)
        return min(state.clock_ms, end) - begin, max(1.0, end - begin)

    def ends(self, state: TrainState) -> bool:
        """True if no step would fit behind the next one and what is due after it."""
        behind = state.batch + 1
        due = state.look_ms * (behind % self.every.evaluate == 0)
        due += state.save_ms * (behind % self.every.save == 0)
        return state.clock_ms + 2 * self._step_ms() + SAFETY * due >= self._end(state)

    def is_over(self, state: TrainState) -> bool:
        """As the protocol says."""
        return state.clock_ms + self._step_ms() >= self._end(state)

    def last_batch(self, phase: int) -> int:  # noqa: ARG002 (the protocol's)
        """Not known."""
        return ENDLESS

    def _end(self, state: TrainState) -> float:
        """When the steps of the phase must be over."""
        return self.ends_ms[state.phase] - self._reserve(state)

    def _step_ms(self) -> float:
        return SAFETY * max(self.recent, default=0.0)

    def _reserve(self, state: TrainState) -> float:
        """For the last evaluation and checkpoint, as long as the longest before."""
        return SAFETY * (state.look_ms + state.save_ms)


def budget_of(phases: Sequence[Phase]) -> StepBudget | ClockBudget:
    """The budget of a run of these phases."""
    listed = phases[0].own_schedule
    if phases[0].seconds is not None:
        seconds = [phase.seconds or 0.0 for phase in phases]
        return ClockBudget(seconds, phases[0].config.every, own_schedules=listed)
    return StepBudget([phase.num_batches or 0 for phase in phases], own_schedules=listed)
