"""How a run is put together: from its newest good checkpoint, or from nothing."""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlmdist import dist
from mlmdist.config.pretrain import Pretrain
from mlmdist.data.sequence import Position
from mlmdist.dist import Place
from mlmdist.errors import ConfigError, Preempted
from mlmdist.model.bert import Bert
from mlmdist.tracking.metrics import NoSink, Sink
from mlmdist.train import checkpoint, folder, identity, init_from, peak, starting_weights
from mlmdist.train.budget import budget_of
from mlmdist.train.checkpoint import Record
from mlmdist.train.clock import process_start
from mlmdist.train.engine import Engine
from mlmdist.train.meeting import use_threads
from mlmdist.train.meter import MFU, MFU_OF_DATA_SHEET, Meter
from mlmdist.train.phase_data import entry, held_out_of, loader_of
from mlmdist.train.phases import Phase, identity_of
from mlmdist.train.plan import make_plan
from mlmdist.train.run import Run, git_commit
from mlmdist.train.state import TrainState
from mlmdist.train.stop import Stop
from mlmdist.train.watchdog import Watchdog

log = logging.getLogger(__name__)


@contextmanager
def opened(
    config: Pretrain,
    here: Place,
    phases: tuple[Phase, ...],
    watchdog: Watchdog,
    stop: Stop,
    accept: tuple[str, ...],
    *,
    trial: bool = False,
) -> Iterator[Run]:
    """The run in `config.run`, begun or resumed; a trial leaves no trace. All ranks together.

    Raises ConfigError if the folder holds another run or is in use (laws T2, S2).
    """
    if here.rank == 0:
        folder.claim(config.run)
        checkpoint.sweep(config.run)
    start, record = _start(config, here, phases, watchdog, accept)
    threads = use_threads(here, config.train.threads, record.threads if record else None)
    engine, began_from = _engine(config, here, phases, record, watchdog)
    state, meter, position = TrainState(), _meter(config, here, phases), None
    if start is not None and record is not None:
        watchdog.mark(f"loading {start}")
        record = checkpoint.load(start, engine, here, alive=watchdog.alive)
        state, position = TrainState.from_json(record.counters), Position.from_json(record.position)
        meter.restore(record.meter, here.rank, here.world_size)
        log.info("resumed at step %d from %s", state.batch, start)
    watchdog.mark("opening the data")
    phase, budget = phases[state.phase], budget_of(phases)
    last = budget.last_batch(phase.number)
    engine.follow(phase.config)
    loader = loader_of(phase, here, position or entry(phase, 0, {}), last, watchdog.alive)
    held_out = held_out_of(phase, here)
    if here.rank == 0 and not trial:  # behind all that may refuse the config
        folder.save_config(config)
    sink = NoSink() if trial else _sink(config, here, phases, state.batch if record else -1)
    run = Run(
        config=config,
        here=here,
        phases=phases,
        budget=budget,
        engine=engine,
        loader=loader,
        held_out=held_out,
        state=state,
        meter=meter,
        sink=sink,
        stop=stop,
        watchdog=watchdog,
        threads=threads,
        saved_step=state.batch if record else -1,
        began_from=began_from,
        started=process_start() - state.clock_ms / 1000,
        guess=meter.guess,
    )
    with _closing(run):
        yield run


def _engine(
    config: Pretrain,
    here: Place,
    phases: tuple[Phase, ...],
    record: Record | None,
    watchdog: Watchdog,
) -> tuple[Engine, str | None]:
    """The model under DeepSpeed, and the hash of the weights that it began from."""
    watchdog.mark("building the model")
    tokenizer = phases[0].sources.tokenizer
    model = Bert(config.model, tokenizer.vocabulary.size, config.seed)
    began_from = record.identity.get(init_from.FIELD) if record else None
    if config.init_from and record is None:
        watchdog.mark(f"reading {config.init_from.path}")
        starting_weights.begin(model, config, tokenizer)
        began_from = init_from.identity(config, None)
    most = max(make_plan(phase, here.world_size).accumulation for phase in phases)
    engine = Engine(phases[0].config, model, here, accumulation=most, mark=watchdog.mark)
    return engine, began_from


def _meter(config: Pretrain, here: Place, phases: tuple[Phase, ...]) -> Meter:
    sources = phases[0].sources
    guess = dist.broadcast_decision(sources.unigram_entropy() if here.rank == 0 else math.inf)
    return Meter(
        config.model,
        sources.tokenizer.vocabulary.size,
        here,
        pair=config.data.pair,
        guess=guess,
        peaks=_peaks(config, here),
    )


def _peaks(config: Pretrain, here: Place) -> dict[str, float]:
    """What all ranks could compute at best: as measured now, all at once, and by the data sheet."""
    peaks = {MFU: sum(dist.gather(peak.measured(config.train.precision)))}
    given = config.train.peak_tflops
    of_one = 1e12 * given if given else peak.of_data_sheet()
    return peaks | ({MFU_OF_DATA_SHEET: of_one * here.world_size} if of_one else {})


@contextmanager
def _closing(run: Run) -> Iterator[None]:
    """Stop the loader's thread and tell the sink how the run ended."""
    try:
        yield
    except Preempted:
        run.sink.close("KILLED")
        raise
    except BaseException:
        run.sink.close("FAILED")
        raise
    else:
        run.sink.close("FINISHED")
    finally:
        run.loader.close()


def _start(
    config: Pretrain,
    here: Place,
    phases: tuple[Phase, ...],
    watchdog: Watchdog,
    accept: tuple[str, ...],
) -> tuple[Path | None, Record | None]:
    """The checkpoint to go on from, and its record; refuses one of another run (law T2)."""
    watchdog.mark("checking the checkpoints")
    start = checkpoint.newest_good(config.run, here, alive=watchdog.alive)
    if start is None:
        return None, None
    record = Record.read(start)
    current = record.counters.get("phase", 0)
    if current >= len(phases):
        raise ConfigError(
            f"{start} is in phase {current + 1}; phases holds {len(phases)}: give them all, or "
            "another folder with run=..."
        )
    weights = init_from.identity(config, record.identity.get(init_from.FIELD))
    now = identity_of(phases, current) | {init_from.FIELD: weights}
    identity.refuse_changes(record.identity, now, accepted=accept, where=str(start))
    commit = git_commit()
    if record.git_commit != commit:
        log.warning("saved by commit %s, resumed by %s", record.git_commit, commit)
    return start, record


def _sink(config: Pretrain, here: Place, phases: tuple[Phase, ...], resume_step: int) -> Sink:
    sink = Sink.open(
        config.run,
        config.tracking,
        parameters=config.model_dump(mode="json"),
        tags={
            "data.train.fingerprint": " ".join(one.sources.fingerprint() for one in phases),
            "data.tokenizer.hash": phases[0].sources.tokenizer.hash,
            "git_commit": git_commit() or "",
            "world_size": str(here.world_size),
        },
        resume_step=resume_step,
        enabled=here.rank == 0,
        levels=phases[-1].sources.levels(),
    )
    sink.artifact(config.run / folder.CONFIG)
    sink.artifact(config.data.tokenizer, "tokenizer")
    return sink
