"""The learning rate as a function of the place in the run: no state, so a resume loses nothing."""

import math

from mlmdist.config.train import Optimizer, Schedule


def learning_rate(
    place: float, num_steps: float, optimizer: Optimizer, schedule: Schedule
) -> float:
    """The rate for step `place` (from 0) of `num_steps`: linear up to the peak, then down.

    Both may be in another unit, as of time. The first step takes 1 / (warm-up steps) of the peak,
    the step after the last would take `schedule.final` of it (Devlin et al. 2019, A.2; there the
    end is 0).
    """
    warmup = schedule.num_warmup_steps(num_steps)
    if place < warmup:
        return optimizer.learning_rate * min(1.0, (place + 1) / warmup)
    left = max(0.0, (num_steps - place) / max(1, num_steps - warmup))
    if schedule.kind == "wsd":
        left = min(1.0, max(0, num_steps - place) / max(1, schedule.num_decay_steps(num_steps)))
    height = _height(left, schedule)
    return optimizer.learning_rate * (schedule.final + (1 - schedule.final) * height)


def _height(left: float, schedule: Schedule) -> float:
    """How high the rate still is, from 1 to 0, where `left` of the way down is left.

    Cosine: half a period (Loshchilov and Hutter 2017, eq. 5, without restarts). wsd: 1 minus the
    square root of the way done (Hägele et al. 2024, "1-sqrt").
    """
    match schedule.kind:
        case "linear":
            return left
        case "cosine":
            return (1 + math.cos(math.pi * (1 - left))) / 2
        case "polynomial":
            return left**schedule.power
        case "wsd":
            return 1 - math.sqrt(1 - left)
