"""The held-out losses: every held-out window once, by the weights as they are (law E1)."""

import logging
from collections.abc import Iterable, Mapping

from mlmdist import dist
from mlmdist.data.batch import StepBatch
from mlmdist.train.engine import NUM_SUMS, Engine
from mlmdist.train.meter import losses

log = logging.getLogger(__name__)


CHANGE = "_change"


def evaluate(
    engine: Engine,
    held_out: Mapping[str, Iterable[StepBatch]],
    pair: str,
    at_start: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """`held_out/...` metrics over all sets, the same on every rank. All ranks together.

    Where there are several sets, `held_out/NAME/...` are those of each. `..._change` is what came
    to a loss since the same metric `at_start`, for a run that began from weights that were there.
    """
    sums = {name: dist.sum_floats(_sums(engine, one)) for name, one in held_out.items()}
    whole = [sum(parts) for parts in zip(*sums.values(), strict=True)]
    named = {"held_out": whole}
    if len(sums) > 1:
        named |= {f"held_out/{name}": one for name, one in sums.items()}
    metrics: dict[str, float] = {}
    for name, totals in named.items():
        figures = {f"{name}/{what}": value for what, value in losses(totals, pair).items()}
        figures.pop(f"{name}/loss", None)
        changes = changes_of(figures, at_start or {})
        shown = ", ".join(_shown(what, value, changes) for what, value in figures.items())
        log.info("%s: %s", _in_words(name), shown)
        metrics |= figures | changes
    return metrics


def changes_of(figures: Mapping[str, float], at_start: Mapping[str, float]) -> dict[str, float]:
    """What came to each loss since the start, as far as it was known there."""
    return {
        f"{name}{CHANGE}": value - at_start[name]
        for name, value in figures.items()
        if name.endswith("_loss") and name in at_start
    }


def _shown(name: str, value: float, changes: Mapping[str, float]) -> str:
    change = changes.get(f"{name}{CHANGE}")
    text = f"{_in_words(name.rsplit('/', 1)[1])} {value:.3f}"
    return text if change is None else f"{text} ({change:+.3f} since step 0)"


def _in_words(name: str) -> str:
    return name.replace("_", " ").replace("/", " ")


def _sums(engine: Engine, held_out: Iterable[StepBatch]) -> list[float]:
    """The six sums of this rank over a set."""
    totals = [0.0] * NUM_SUMS
    for batch in held_out:
        sums = engine.evaluate(batch).tolist()
        totals = [total + one for total, one in zip(totals, sums, strict=True)]
    return totals
