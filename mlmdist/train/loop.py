"""The training loop: what happens, in the order in which it happens, and nothing behind it."""

import logging

from mlmdist import dist
from mlmdist.data.batch import StepBatch
from mlmdist.errors import Preempted
from mlmdist.logs import Progress
from mlmdist.train import folder
from mlmdist.train.evaluate import evaluate
from mlmdist.train.run import Run
from mlmdist.train.schedule import learning_rate
from mlmdist.train.state import Counts
from mlmdist.train.stop import Stop

log = logging.getLogger(__name__)


def fit(run: Run) -> None:
    """Train until the plan's last step, then mark the run as done. All ranks together.

    Raises Preempted, with everything saved, if a rank was asked to stop.
    """
    config, every = run.config, run.config.every
    with Progress(
        "train", float(run.plan.num_steps), "steps", shown=run.here.rank == 0
    ) as progress:
        progress.resume_at(float(run.state.batch))
        look_at_start(run)
        run.meter.leave_out()
        for batch in run.loader:
            counts = agree(batch, run.stop)
            rate = learning_rate(
                batch.number, run.plan.num_steps, config.optimizer, config.schedule
            )
            result = run.engine.step(batch, counts, rate)
            step = run.state.advance(counts, skipped=result.skipped)
            run.meter.add(result, counts)
            if step == 1 or due(step, every.log, run):
                run.sink.log(step, run.meter.read(rate, run.state.num_tokens) | run.progress())
            if run.held_out and due(step, every.evaluate, run):
                run.sink.log(step, look(run))
                run.meter.leave_out()
            if save_due(step, run, skipped=result.skipped):
                run.save()
            progress.advance(1.0, run.meter.note)
            run.watchdog.mark(f"step {step} done, waiting for a batch")
            if run.stop.requested:
                break
    finish(run)


def look_at_start(run: Run) -> None:
    """The held-out losses of weights that were there before: later ones are compared to them."""
    if run.config.init_from and run.held_out and run.state.batch == 0:
        run.state.at_start = look(run)
        run.sink.log(0, run.state.at_start)


def look(run: Run) -> dict[str, float]:
    """The held-out losses of the weights as they are."""
    return evaluate(run.engine, run.held_out, run.config.data.pair, run.state.at_start)


def agree(batch: StepBatch, stop: Stop) -> Counts:
    """The batch counted over all ranks; what any rank was signalled, all ranks know from here."""
    own = [batch.num_labels, batch.num_pairs, batch.num_tokens, int(stop.signalled)]
    *sums, left_out = dist.sum_integers([*own, *batch.corpus_tokens, batch.num_left_out])
    counts = Counts(*sums[:4], num_left_out=left_out, corpus_tokens=tuple(sums[4:]))
    stop.agree(counts.num_stops)
    return counts


def due(step: int, every: int, run: Run) -> bool:
    """Whether something is done after `step`: every so many steps, and after the last."""
    return step % every == 0 or step == run.plan.num_steps


def save_due(step: int, run: Run, *, skipped: bool) -> bool:
    """Whether `step` is saved: the first good one from each multiple of every.save on.

    A step that updated nothing is passed over: a run of them would push the good checkpoints out.
    The last step is saved in any case, and so is the one at which the run is asked to stop.
    """
    every, saved = run.config.every.save, max(0, run.saved_step)
    passed = step // every > saved // every
    return (passed and not skipped) or step == run.plan.num_steps or run.stop.requested


def finish(run: Run) -> None:
    """Mark the run as done, or leave it as it was saved."""
    if run.state.batch < run.plan.num_steps:
        raise Preempted(
            f"asked to stop: saved at step {run.state.batch} of {run.plan.num_steps} in "
            f"{run.config.run}; the same command goes on"
        )
    if run.here.rank == 0:
        folder.mark_done(run.config.run, run.state.batch)
    log.info("done: %d steps, %s", run.state.batch, run.config.run)
