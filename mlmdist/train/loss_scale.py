"""The number that fp16's loss is multiplied by, so that small gradients do not become 0.

    a gradient that is not finite    the step is skipped, the scale halved
    1,000 finite ones in a row       the scale doubled

Micikevicius et al. 2018, section 3.2. DeepSpeed divides by whatever scale it is told; its own rule
is not used, for it changes the scale before it has divided the step's gradient by it.
"""

from dataclasses import dataclass

from mlmdist.errors import NoProgress

FIRST = 2.0**16
LEAST, MOST = 1.0, 2.0**24
STEPS_TO_DOUBLE = 1000


@dataclass
class LossScale:
    """The scale of the next step; the same on every rank."""

    scale: float = FIRST
    good_steps: int = 0
    """Finite steps since the scale last changed."""

    def advance(self, *, is_finite: bool) -> None:
        """Take note of a step.

        Raises NoProgress if it was not finite though nothing was scaled.
        """
        if is_finite:
            self.good_steps += 1
            if self.good_steps == STEPS_TO_DOUBLE:
                self.scale, self.good_steps = min(MOST, 2 * self.scale), 0
            return
        if self.scale <= LEAST:
            raise NoProgress(
                f"train.precision=fp16: a gradient is not finite at loss scale {self.scale:g}, the "
                f"least ({LEAST:g}); lower optimizer.learning_rate, or use train.precision=bf16 or "
                "fp32 in a new run folder"
            )
        self.scale, self.good_steps = max(LEAST, self.scale / 2), 0
