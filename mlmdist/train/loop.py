"""The training loop: what happens, in the order in which it happens, and nothing behind it."""

import logging

from mlmdist import dist
from mlmdist.data.batch import StepBatch
from mlmdist.errors import Preempted
from mlmdist.logs import Progress
from mlmdist.train import ending
from mlmdist.train.done import mark_done
from mlmdist.train.evaluate import evaluate
from mlmdist.train.laps import COMMUNICATION, DATA, shares
from mlmdist.train.run import Run
from mlmdist.train.schedule import learning_rate
from mlmdist.train.state import Counts

log = logging.getLogger(__name__)


def fit(run: Run) -> None:
    """Train through all phases, then mark the run as done. All ranks together.

    Raises Preempted, with everything saved, if a rank was asked to stop, and NoProgress for a run
    that is hopeless (`ending`).
    """
    with Progress("train", run.budget.total, run.budget.unit, shown=run.here.rank == 0) as progress:
        progress.resume_at(run.budget.done(run.state))
        look_at_start(run)
        while True:
            train_phase(run, progress)
            if run.stop.requested or run.is_in_last_phase or ending.is_early(run):
                break
            run.enter_next_phase()
    finish(run)


def train_phase(run: Run, progress: Progress) -> None:
    """Train until the end of the phase, or until the run is to stop."""
    config, every, state = run.config, run.config.every, run.state
    laps = run.engine.laps
    run.meter.leave_out()
    laps.to(DATA)
    for batch in run.loader if not is_over(run) else ():
        laps.to(COMMUNICATION)
        counts = agree(batch, run)
        last, (place, end) = run.budget.ends(state), run.budget.schedule(state)
        rate = learning_rate(place, end, run.phase.config.optimizer, config.schedule)
        result = run.engine.step(batch, counts, rate)
        step = state.advance(counts, skipped=result.skipped)
        run.meter.add(result, counts)
        if step == 1 or last or step % every.log == 0:
            figures = run.meter.read(rate, state.num_tokens) | shares(laps.read())
            run.sink.log(step, figures | run.progress())
            ending.refuse_hopeless(run, figures)
        if run.held_out and (last or step % every.evaluate == 0):
            look(run)
        if save_due(run, last=last, skipped=result.skipped):
            run.save()
        progress.stand_at(run.budget.done(state), lambda: run.meter.note)
        run.watchdog.mark(f"step {step} done, waiting for a batch")
        laps.to(DATA)
        if last or run.stop.requested or ending.is_early(run):
            break


def is_over(run: Run) -> bool:
    """Whether nothing of this phase is left, as in a run that ended between its save and DONE."""
    return run.budget.is_over(run.state) or ending.is_early(run)


def look_at_start(run: Run) -> None:
    """The held-out losses of weights that were there before: later ones are compared to them.

    A run by the clock looks too, to know how long that takes.
    """
    if run.held_out and run.state.batch == 0 and (run.config.init_from or run.is_by_clock):
        figures = look(run)
        run.state.at_start = figures if run.config.init_from else {}


def look(run: Run) -> dict[str, float]:
    """The held-out losses of the weights as they are, logged."""
    with run.beside_training("look_ms"):
        pair, at_start = run.config.data.pair, run.state.at_start
        figures = evaluate(run.engine, run.held_out, pair, at_start)
        run.sink.log(run.state.batch, figures)
    if run.state.batch:
        run.state.judge(figures["held_out/mlm_loss"], run.config.ending.improvement)
    return figures


def agree(batch: StepBatch, run: Run) -> Counts:
    """The batch counted over all ranks; what any rank was signalled, all ranks know from here.

    So do they the clock, which rank 0 alone reads.
    """
    own = [batch.num_labels, batch.num_pairs, batch.num_tokens, int(run.stop.signalled)]
    more = [batch.num_left_out, batch.num_rows, batch.sum_squares, run.clock_ms()]
    sums = dist.sum_integers([*own, *batch.corpus_tokens, *more])
    *sums, left_out, rows, squares, clock = sums
    counts = Counts(
        *sums[:4],
        num_left_out=left_out,
        corpus_tokens=tuple(sums[4:]),
        clock_ms=clock,
        num_rows=rows,
        sum_squares=squares,
    )
    run.stop.agree(counts.num_stops)
    run.state.clock_ms = clock
    run.budget.tick(run.state)
    return counts


def save_due(run: Run, *, last: bool, skipped: bool) -> bool:
    """Whether a step is saved: the first good one from each multiple of every.save on.

    A step that updated nothing is passed over: a run of them would push the good checkpoints out.
    A phase's last step is saved in any case, the one at which the run is asked to stop too, the
    best so far where the run may end early, and the first of a run by the clock, to know how long
    that takes.
    """
    every, step, saved = run.config.every.save, run.state.batch, max(0, run.saved_step)
    passed = step // every > saved // every or (run.is_by_clock and not run.state.save_ms)
    return (
        (passed and not skipped)
        or last
        or run.stop.requested
        or ending.is_early(run)
        or ending.is_best(run)
    )


def finish(run: Run) -> None:
    """Mark the run as done, or leave it as it was saved."""
    state = run.state
    is_whole = (run.is_in_last_phase and is_over(run)) or ending.is_early(run)
    if run.stop.requested and not is_whole:
        raise Preempted(
            f"asked to stop: saved at {run.budget.told(state)} in {run.config.run}; the same "
            "command goes on"
        )
    if run.here.rank == 0:
        mark_done(run.config, run.phases, state, early=ending.is_early(run))
    if ending.is_early(run):
        log.info(ending.EARLY, state.worse_looks, state.best_loss, state.best_step)
    log.info("done: %d steps, %s", state.batch, run.config.run)
