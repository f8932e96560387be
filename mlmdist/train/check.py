"""`--check`: four things that must hold before a long run is worth starting.

1. Untrained, the model guesses: the language model loss is near ln V. Weights that were there
   before (`init_from`) have a loss of their own, which is told.
2. A gradient reaches every parameter.
3. It can learn: one global batch, seen again and again, is known by heart.
4. The run folder holds what is written to it: a checkpoint is saved, checked and read back.
"""

import logging
import math
import shutil
from dataclasses import replace
from pathlib import Path

from mlmdist import dist
from mlmdist.data.batch import StepBatch
from mlmdist.errors import ConfigError, NoProgress
from mlmdist.files import TEMPORARY_MARK
from mlmdist.train import checkpoint
from mlmdist.train.loop import agree
from mlmdist.train.meter import losses
from mlmdist.train.run import Run

log = logging.getLogger(__name__)

GUESS_TOLERANCE = 0.05
PAIR_HEAD = "pair_head."
LEARNING_STEPS = 100
LEARNT_SHARE = 0.5


def check(run: Run) -> None:
    """Do the four checks; raises NoProgress or DataError for one that fails. All ranks together.

    Raises ConfigError for a run that has begun already: the checks change the weights.
    """
    if run.saved_step >= 0:
        raise ConfigError(f"--check: {run.config.run} has begun; give run=another for the checks")
    batch = next(iter(run.loader))
    first = _loss(run, batch)
    if run.config.init_from:
        log.info("1. loss of the weights that the run begins from: %.3f", first)
    else:
        _check_guess(first, math.log(run.sources.tokenizer.vocabulary.size))
    _check_gradients(run, batch)
    _check_learning(first, _learn(run, batch))
    _check_folder(run)


def _loss(run: Run, batch: StepBatch) -> float:
    sums = dist.sum_floats(run.engine.evaluate(batch).tolist())
    return losses(sums, run.config.data.pair)["mlm_loss"]


def _check_guess(loss: float, uniform: float) -> None:
    if abs(loss - uniform) > GUESS_TOLERANCE * uniform:
        raise NoProgress(
            f"1. the untrained model's loss is {loss:.3f}; must be within {GUESS_TOLERANCE:.0%} of "
            f"ln V = {uniform:.3f}: look at model.initializer_range"
        )
    log.info("1. untrained loss %.3f, ln V = %.3f: good", loss, uniform)


def _check_gradients(run: Run, batch: StepBatch) -> None:
    """The head of the second task is left out where there is none."""
    config = run.config
    counts = agree(batch, run)
    moving = replace(batch, number=_first_whole_step(run))
    still = run.engine.unmoved(moving, counts, config.optimizer.learning_rate)
    if config.data.pair == "none":
        still = [name for name in still if not name.startswith(PAIR_HEAD)]
    if still:
        raise NoProgress(
            f"2. no gradient reaches {', '.join(still[:5])}{' ...' if len(still) > 5 else ''}; "
            "every parameter must get one: look at what was changed in the model"
        )
    log.info("2. a gradient reaches every parameter: good")


def _learn(run: Run, batch: StepBatch) -> float:
    """The loss of `batch` after it was seen again and again, at the peak rate after a warm-up."""
    for step in range(LEARNING_STEPS):
        counts = agree(batch, run)
        rate = run.config.optimizer.learning_rate * min(1.0, (step + 1) / 10)
        number = _first_whole_step(run) + step
        run.engine.step(replace(batch, number=number), counts, rate)
    return _loss(run, batch)


def _first_whole_step(run: Run) -> int:
    """The number of the first batch by which every parameter moves."""
    return run.config.init_from.embeddings_only_steps if run.config.init_from else 0


def _check_learning(before: float, after: float) -> None:
    if not after < LEARNT_SHARE * before:
        raise NoProgress(
            f"3. a batch seen {LEARNING_STEPS} times has loss {after:.3f} after {before:.3f}; must "
            f"fall below {LEARNT_SHARE:.0%}: look at optimizer.learning_rate"
        )
    log.info("3. loss of a batch seen %d times %.3f: good", LEARNING_STEPS, after)


def _check_folder(run: Run) -> None:
    """Save, check and load in a folder beside the checkpoints, and remove it."""
    trial = run.config.run / f"check{TEMPORARY_MARK}"
    record = run.record(meter=[])
    alive = run.watchdog.alive
    saved = checkpoint.save(trial, run.engine, record, run.here, keep=1, alive=alive)
    found = checkpoint.newest_good(trial, run.here, alive=alive)
    assert found == saved, f"{found} is not what was just written"
    size = sum(path.stat().st_size for path in Path(saved).iterdir())
    dist.barrier()
    if run.here.rank == 0:
        shutil.rmtree(trial)
    log.info("4. a checkpoint of %d bytes was written and read back: good", size)
