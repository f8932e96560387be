"""A pretraining recipe: every section, and what they must be together."""

from pathlib import Path

from pydantic import model_validator

from mlmdist.config.data import Data
from mlmdist.config.job import Every, Limits, Tracking
from mlmdist.config.loading import Section
from mlmdist.config.model import InitFrom, Model
from mlmdist.config.train import Ending, Optimizer, Phase, Schedule, Train


class Pretrain(Section):
    """A pretraining recipe: `deepspeed launch/pretrain.py --config FILE [key=value ...]`."""

    run: Path
    """Run folder: config.yaml, metrics.jsonl, checkpoints/, latest, DONE."""

    seed: int = 0
    """Seed of weights, order, pairs, masks and dropout; 0 is a seed like any other."""

    data: Data
    init_from: InitFrom | None = None
    model: Model = Model()
    train: Train
    phases: tuple[Phase, ...] = ()
    """Parts of the run, one after the other: first rows of 128, then of 512, for example."""

    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    ending: Ending = Ending()
    every: Every = Every()
    limits: Limits = Limits()
    tracking: Tracking = Tracking()

    @model_validator(mode="after")
    def _optimizer_can_be_offloaded(self) -> "Pretrain":
        if self.train.offload != "none" and self.optimizer.kind != "adamw":
            raise ValueError(
                f"optimizer.kind={self.optimizer.kind} with train.offload={self.train.offload}: "
                "only adamw is updated on the CPU; choose optimizer.kind=adamw, or "
                "train.offload=none"
            )
        return self

    @model_validator(mode="after")
    def _budgets_are_one(self) -> "Pretrain":
        listed = "steps, tokens, epochs or time"
        if not self.phases:
            _only_one("train", self.train.given, f"give one of {listed}")
        elif self.train.given:
            raise ValueError(
                f"train.{self.train.given[0]}: each of the phases has its own; leave it out"
            )
        for number, phase in enumerate(self.phases):
            _only_one(f"phases.{number}", phase.given, f"give one of {listed}")
        if len({phase.time is None for phase in self.phases}) > 1:
            raise ValueError("phases: all of them must go by time, or none")
        return self

    @model_validator(mode="after")
    def _phases_fit(self) -> "Pretrain":
        if len({phase.learning_rate is None for phase in self.phases}) > 1:
            raise ValueError("phases: all of them must have a learning_rate, or none")
        if self.ending.patience is not None and not self._looks_everywhere:
            raise ValueError("ending.patience needs held-out losses: give data.held_out")
        names = [phase.name for phase in self.phases if phase.name]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"phases: two are named {twice[0]!r}; give each a name of its own")
        if self.train.batch_warmup and self.train.batch_warmup.first > self.first_batch:
            raise ValueError(
                f"train.batch_warmup.first={self.train.batch_warmup.first} must be at most the "
                f"batch it grows to, {self.first_batch}"
            )
        return self

    @model_validator(mode="after")
    def _schedule_fits(self) -> "Pretrain":
        """As far as that is known before the data is."""
        for where, steps in self._known_steps():
            self.schedule.check(steps, where)
        if self.schedule.warmup_steps is not None and self._by_clock:
            raise ValueError("schedule.warmup_steps goes with steps, the run by time: use warmup")
        return self

    @property
    def first_batch(self) -> int:
        """Rows of a full batch in the first phase."""
        first = self.phases[0].global_batch if self.phases else None
        return first or self.train.global_batch

    @property
    def _looks_everywhere(self) -> bool:
        """Whether there is a held-out set in each phase."""
        return bool(self.data.held_out_sets) or (
            bool(self.phases) and all(phase.held_out is not None for phase in self.phases)
        )

    @property
    def _by_clock(self) -> bool:
        return (self.phases[0] if self.phases else self.train).time is not None

    def _known_steps(self) -> list[tuple[str, int]]:
        """The steps of each schedule of the run, by where they stand."""
        if not self.phases:
            known = {"train.steps": self.train.steps}
        elif self.phases[0].learning_rate is not None:
            known = {f"phases.{n}.steps": phase.steps for n, phase in enumerate(self.phases)}
        else:
            steps = [phase.steps or 0 for phase in self.phases]
            known = {"the phases' steps": sum(steps) if all(steps) else None}
        return [(where, steps) for where, steps in known.items() if steps is not None]


def _only_one(where: str, given: list[str], rule: str) -> None:
    if len(given) != 1:
        found = f"{' and '.join(given)} are given" if given else "no budget"
        raise ValueError(f"{where}: {found}; {rule}")
