"""The held-out losses: every held-out window once, by the weights as they are (law E1)."""

import logging
from collections.abc import Iterable, Mapping

from mlmdist import dist
from mlmdist.data.batch import StepBatch
from mlmdist.train.engine import NUM_SUMS, Engine
from mlmdist.train.meter import losses

log = logging.getLogger(__name__)


def evaluate(
    engine: Engine, held_out: Mapping[str, Iterable[StepBatch]], pair: str
) -> dict[str, float]:
    """`held_out/...` metrics over all sets, the same on every rank. All ranks together.

    Where there are several sets, `held_out/NAME/...` are those of each.
    """
    sums = {name: dist.sum_floats(_sums(engine, one)) for name, one in held_out.items()}
    whole = [sum(parts) for parts in zip(*sums.values(), strict=True)]
    named = {"held_out": whole}
    if len(sums) > 1:
        named |= {f"held_out/{name}": one for name, one in sums.items()}
    metrics: dict[str, float] = {}
    for name, totals in named.items():
        figures = losses(totals, pair)
        figures.pop("loss", None)
        shown = ", ".join(
            f"{what.replace('_', ' ')} {value:.3f}" for what, value in figures.items()
        )
        log.info("%s: %s", name.replace("_", " ").replace("/", " "), shown)
        metrics |= {f"{name}/{what}": value for what, value in figures.items()}
    return metrics


def _sums(engine: Engine, held_out: Iterable[StepBatch]) -> list[float]:
    """The six sums of this rank over a set."""
    totals = [0.0] * NUM_SUMS
    for batch in held_out:
        sums = engine.evaluate(batch).tolist()
        totals = [total + one for total, one in zip(totals, sums, strict=True)]
    return totals
