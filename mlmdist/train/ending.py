"""When a run ends before its budget does: nothing gets better any more, or nothing ever did."""

import math
from collections.abc import Mapping

from mlmdist.errors import NoProgress
from mlmdist.train.run import Run

EARLY = (
    "ending.patience: %d evaluations in a row were not better than the loss %.4f of step %d, whose "
    "checkpoint is kept"
)
HOPELESS_READINGS = 3  # in a row: one may be a spike


def is_early(run: Run) -> bool:
    """Whether the held-out loss has not become better for so long that the run is done."""
    patience = run.config.ending.patience
    return patience is not None and run.state.worse_looks >= patience


def is_best(run: Run) -> bool:
    """Whether the weights as they are have the lowest held-out loss, and are to be kept for it."""
    return run.config.ending.patience is not None and run.state.best_step == run.state.batch


def refuse_hopeless(run: Run, figures: Mapping[str, float]) -> None:
    """Raise NoProgress if words are guessed no better than by frequency, so late in the budget.

    `figures` are those of the log line that was just written; looked at behind
    `ending.hopeless_after` of the budget.
    """
    after, state = run.config.ending.hopeless_after, run.state
    share = run.budget.done(state) / run.budget.total
    if after is None or share < after:
        return
    loss = figures.get("train/mlm_loss", math.inf)
    state.hopeless_readings = state.hopeless_readings + 1 if loss >= run.guess else 0
    if state.hopeless_readings < HOPELESS_READINGS:
        return
    raise NoProgress(
        f"training loss {loss:.3f} at {share:.0%} of the budget (step {state.batch}); must be "
        f"under {run.guess:.3f}, that of a guess by word frequency, from ending.hopeless_after="
        f"{after:g} on: lower optimizer.learning_rate, warm up longer, or look at the text with "
        "`mlmdist show`; a new run folder begins anew"
    )
