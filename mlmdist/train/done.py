"""DONE: a run that has come to its end, and what it ended by; without torch."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mlmdist import files
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import DataError
from mlmdist.train.folder import DONE, reached
from mlmdist.train.phases import Phase
from mlmdist.train.state import TrainState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Done:
    """What stands in DONE."""

    steps: int
    phases: int = 1
    seconds: float | None = None
    """The budget, of a run by the clock."""

    patience: int | None = None
    """`ending.patience`, if the run ended by it."""


def mark_done(config: Pretrain, phases: Sequence[Phase], state: TrainState, *, early: bool) -> None:
    """Note, last of all, that the run is complete."""
    done = Done(
        steps=state.batch,
        phases=len(phases),
        seconds=_seconds(phases),
        patience=config.ending.patience if early else None,
    )
    with reached(config.run):
        files.write_json(config.run / DONE, asdict(done))


def is_done(config: Pretrain, phases: Sequence[Phase]) -> bool:
    """Whether the run has come to the end that `config` asks for.

    A run that was given more steps, time, phases or patience than it ended with goes on.
    Raises DataError if DONE is not a run's.
    """
    done = _read(config)
    if done is None:
        return False
    if done.patience is not None:
        more = config.ending.patience is None or config.ending.patience > done.patience
        return not _goes_on(more, f"ended early, by ending.patience={done.patience}")
    if _seconds(phases) is not None:
        more = (_seconds(phases) or 0) > (done.seconds or 0)
        return not _goes_on(more, f"ended after {done.seconds or 0:.0f} s of training")
    steps = sum(phase.num_batches or 0 for phase in phases)
    return not _goes_on(done.steps < steps, f"ended at step {done.steps} and goes on to {steps}")


def _goes_on(more: bool, told: str) -> bool:
    if more:
        log.warning("the run %s", told)
    return more


def _seconds(phases: Sequence[Phase]) -> float | None:
    """The whole time of a run by the clock; None for one by steps."""
    given = [phase.seconds for phase in phases if phase.seconds is not None]
    return sum(given) if given else None


def _read(config: Pretrain) -> Done | None:
    path = config.run / DONE
    try:
        with reached(config.run):
            if not path.is_file():
                return None
            done = Done(**json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: not written by a run ({error}); remove it to go on") from None
    if not isinstance(done.steps, int):
        raise DataError(f"{path}: not written by a run (steps={done.steps!r}); remove it to go on")
    return done
