"""What the log shows: losses since the last line, over all ranks, and how fast they were won."""

import logging
import math
import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mlmdist import dist
from mlmdist.config.model import Model
from mlmdist.dist import Place
from mlmdist.logs import quantity
from mlmdist.model.loss import LossSums
from mlmdist.train.costs import flops_of_sums
from mlmdist.train.engine import NUM_SUMS, StepResult
from mlmdist.train.state import Counts

log = logging.getLogger(__name__)

MFU, MFU_OF_DATA_SHEET = "speed/mfu", "speed/mfu_of_data_sheet"
LEAK_ACCURACY, LEAK_ROWS = 0.9, 200  # which chance does not reach, also as rows come in twos


class Meter:
    """Adds up steps; `read` gives the figures since the last reading and begins anew."""

    def __init__(
        self,
        model: Model,
        vocab_size: int,
        here: Place,
        *,
        pair: str,
        guess: float = math.inf,
        peaks: Mapping[str, float] | None = None,
    ) -> None:
        """`guess` is the loss in nats of a guess by word frequency.

        `peaks` are what all ranks together could compute at best, in FLOP/s, by the metric that
        shows the share of it.
        """
        self.peaks = peaks or {}
        self.model, self.vocab_size, self.here = model, vocab_size, here
        self.pair, self.guess = pair, guess
        self.warned = False
        self.sums: Tensor | None = None  # fp64 [6], of this rank, where the model is
        self.tokens, self.flops, self.seconds = 0, 0.0, 0.0
        self.grad_norm: float | Tensor = 0.0
        self.loss_scale: float | None = None
        self.clock = time.monotonic()
        self.note = ""

    def add(self, result: StepResult, counts: Counts) -> None:
        """Count a step and the time since the last one."""
        if not result.skipped:
            before = 0.0 if self.sums is None else self.sums.to(result.sums.device)
            self.sums = before + result.sums
        self.grad_norm, self.loss_scale = result.grad_norm, result.loss_scale
        self.tokens += counts.num_tokens
        self.flops += flops_of_sums(
            self.model,
            self.vocab_size,
            counts.num_tokens,
            counts.sum_squares,
            counts.num_labels,
            counts.num_rows,
        )
        now = time.monotonic()
        self.seconds += now - self.clock
        self.clock = now

    def leave_out(self) -> None:
        """Forget the time since the last step: it went into something else than training."""
        self.clock = time.monotonic()

    def read(self, learning_rate: float, num_tokens: int) -> dict[str, float]:
        """The figures since the last reading, the same on every rank. All ranks together."""
        totals = self.totals()
        self._warn_of_leak(totals)
        metrics = {f"train/{name}": value for name, value in losses(totals, self.pair).items()}
        speed = self.tokens / self.seconds if self.seconds else 0.0
        metrics |= {
            "train/learning_rate": learning_rate,
            "train/grad_norm": float(self.grad_norm),
            "train/tokens_per_second": speed,
            "train/tokens": float(num_tokens),
        }
        if self.loss_scale is not None:
            metrics["train/loss_scale"] = self.loss_scale
        metrics |= self._arithmetic()
        self.note = self._note(metrics, speed)
        self.sums, self.tokens, self.flops, self.seconds = None, 0, 0.0, 0.0
        return metrics

    def totals(self) -> list[float]:
        """The six sums since the last reading, over all ranks."""
        return dist.sum_floats(self.own())

    def own(self) -> list[float]:
        """The six sums of this rank."""
        return [0.0] * NUM_SUMS if self.sums is None else self.sums.tolist()

    def restore(self, sums: list[list[float]], rank: int, world_size: int) -> None:
        """Go on from every rank's saved sums; another number of ranks shares them out anew."""
        mine = sums[rank::world_size] if len(sums) != world_size else [sums[rank]]
        if mine:
            self.sums = torch.tensor(mine, dtype=torch.float64).sum(0)

    def _warn_of_leak(self, totals: Sequence[float]) -> None:
        text = leak(totals, self.pair, self.guess)
        if text and not self.warned and self.here.rank == 0:
            self.warned = True
            log.warning("%s", text)

    def _note(self, metrics: dict[str, float], tokens_per_second: float) -> str:
        """What stands behind the bar: each loss, speed, and on GPUs the share of their peak."""
        names = {"mlm": "train/mlm_loss", self.pair: f"train/{self.pair}_loss"}
        shown = [f"{short} {metrics[name]:.3f}" for short, name in names.items() if name in metrics]
        shown.append(f"{quantity(tokens_per_second)} tokens/s")
        if MFU in metrics:
            shown.append(f"{metrics[MFU]:.0%} of peak")
        return ", ".join(shown)

    def _arithmetic(self) -> dict[str, float]:
        """TFLOP/s of all ranks, of real tokens only, and its share of each peak (MFU)."""
        speed = self.flops / self.seconds if self.seconds else 0.0
        shares = {name: speed / peak for name, peak in self.peaks.items()}
        return {"speed/tflops_per_second": speed / 1e12, **shares}


def leak(totals: Sequence[float], pair: str, guess: float) -> str:
    """What to say if these sums know the pair labels but no words; empty if they do not.

    A model that has learnt nothing of words, beyond their frequencies, cannot tell whether two
    texts belong together by reading them.
    """
    figures, sums = losses(totals, pair), dict(zip(LossSums._fields, totals, strict=True))
    accuracy, loss = figures.get(f"{pair}_accuracy", 0.0), figures.get("mlm_loss", 0.0)
    if accuracy < LEAK_ACCURACY or loss < guess or sums["pair_count"] < LEAK_ROWS:
        return ""
    return (
        f"{accuracy:.0%} of the pair labels are right, but words are guessed no better than by "
        f"frequency (loss {loss:.2f}, by frequency {guess:.2f}): something other than the text "
        "tells the labels; look at rows with `mlmdist show`, and at the lengths' AUC at the start"
    )


def losses(totals: Sequence[float], pair: str) -> dict[str, float]:
    """Losses in nats and accuracies out of six global sums; what was never asked is left out."""
    sums = dict(zip(LossSums._fields, totals, strict=True))
    figures: dict[str, float] = {}
    if sums["mlm_count"]:
        figures["mlm_loss"] = sums["mlm_sum"] / sums["mlm_count"]
        figures["mlm_accuracy"] = sums["mlm_correct"] / sums["mlm_count"]
    if sums["pair_count"]:
        figures[f"{pair}_loss"] = sums["pair_sum"] / sums["pair_count"]
        figures[f"{pair}_accuracy"] = sums["pair_correct"] / sums["pair_count"]
    parts = [value for name, value in figures.items() if name.endswith("_loss")]
    return {"loss": sum(parts), **figures} if parts else {}
