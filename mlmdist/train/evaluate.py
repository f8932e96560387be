"""The held-out losses: every held-out window once, by the weights as they are (law E1)."""

import logging
from collections.abc import Iterable

from mlmdist import dist
from mlmdist.data.batch import StepBatch
from mlmdist.train.engine import NUM_SUMS, Engine
from mlmdist.train.meter import losses

log = logging.getLogger(__name__)


def evaluate(engine: Engine, held_out: Iterable[StepBatch], pair: str) -> dict[str, float]:
    """`held_out/...` metrics over the whole set, the same on every rank. All ranks together."""
    totals = [0.0] * NUM_SUMS
    for batch in held_out:
        sums = engine.evaluate(batch).tolist()
        totals = [total + one for total, one in zip(totals, sums, strict=True)]
    figures = losses(dist.sum_floats(totals), pair)
    figures.pop("loss", None)
    shown = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in figures.items())
    log.info("held out: %s", shown)
    return {f"held_out/{name}": value for name, value in figures.items()}
