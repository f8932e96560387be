"""The learning rate as a function of the batch number: no state, so a resume loses nothing."""

from mlmdist.config.pretrain import Optimizer, Schedule


def num_warmup_steps(schedule: Schedule, num_steps: int) -> int:
    """Steps of a run of `num_steps` in which the rate rises."""
    return round(schedule.warmup * num_steps)


def learning_rate(batch: int, num_steps: int, optimizer: Optimizer, schedule: Schedule) -> float:
    """The rate for batch number `batch` (from 0): linear up to the peak, then linear down.

    The first step takes 1 / (warm-up steps) of the peak, the step after the last would take
    `schedule.final` of it (Devlin et al. 2019, A.2; there the end is 0).
    """
    warmup = num_warmup_steps(schedule, num_steps)
    if batch < warmup:
        return optimizer.learning_rate * (batch + 1) / warmup
    left = (num_steps - batch) / max(1, num_steps - warmup)
    return optimizer.learning_rate * (schedule.final + (1 - schedule.final) * max(0.0, left))
