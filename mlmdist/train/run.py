"""A run, put together: who owns what, where it starts, how it saves, and how it is left."""

import json
import logging
import math
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mlmdist import dist
from mlmdist.config.pretrain import Pretrain
from mlmdist.data.held_out import HeldOut
from mlmdist.data.loader import Loader
from mlmdist.data.mask_weights import word_keys
from mlmdist.data.sequence import Position
from mlmdist.dist import Place
from mlmdist.errors import Preempted
from mlmdist.model.bert import Bert
from mlmdist.tracking.metrics import NoSink, Sink
from mlmdist.train import checkpoint, folder, identity, init_from, starting_weights
from mlmdist.train.checkpoint import Record
from mlmdist.train.engine import Engine
from mlmdist.train.meeting import use_threads
from mlmdist.train.meter import Meter
from mlmdist.train.plan import Plan, make_plan
from mlmdist.train.sources import Sources
from mlmdist.train.state import TrainState
from mlmdist.train.stop import Stop
from mlmdist.train.watchdog import Watchdog

log = logging.getLogger(__name__)

TRACKING_STATE = "tracking.json"


@dataclass
class Run:
    """Everything the loop uses; state lives in engine, loader, state and meter alone."""

    config: Pretrain
    here: Place
    plan: Plan
    sources: Sources
    engine: Engine
    loader: Loader
    held_out: dict[str, HeldOut]
    state: TrainState
    meter: Meter
    sink: Sink
    stop: Stop
    watchdog: Watchdog
    threads: int
    saved_step: int
    began_from: str | None
    """The hash of the weights that were there before (`init_from`); None for new ones."""

    def save(self) -> None:
        """Write a checkpoint of the run as it is. All ranks together."""
        self.watchdog.mark(f"checkpoint of step {self.state.batch}")
        self.sink.sync()
        meter = dist.gather(self.meter.own())
        record = self.record(meter)
        path = checkpoint.save(
            self.config.run,
            self.engine,
            record,
            self.here,
            keep=self.config.every.keep,
            alive=self.watchdog.alive,
        )
        self.saved_step = self.state.batch
        self.meter.leave_out()
        log.info("saved %s", path)

    def progress(self) -> dict[str, float]:
        """Epochs and tokens read of each corpus, by name where there are several; a mean row's."""
        rows = self.loader.batch_size.rows_before(self.state.batch) - self.state.num_left_out
        figures = {"train/tokens_per_row": self.state.num_tokens / max(1, rows)}
        if self.config.data.bad_blocks == "skip":
            figures["train/rows_left_out"] = float(self.state.num_left_out)
        return figures | self._epochs() | self._corpus_tokens()

    def _corpus_tokens(self) -> dict[str, float]:
        tokens = self.state.corpus_tokens
        if len(tokens) == 1 or sum(tokens) != self.state.num_tokens:  # begun before they were kept
            return {}
        named = zip(self.sources.train, tokens, strict=True)
        return {f"train/tokens/{name}": float(count) for name, count in named}

    def _epochs(self) -> dict[str, float]:
        epochs = self.loader.epochs_after(self.state.batch - 1)
        if len(epochs) == 1:
            return {"train/epochs": epochs[0]}
        return {
            f"train/epochs/{name}": e for name, e in zip(self.sources.train, epochs, strict=True)
        }

    def record(self, meter: list[list[float]]) -> Record:
        """What is to be saved besides the engine's files; `meter` are every rank's sums."""
        position = self.loader.position_after(self.state.batch - 1)
        return Record(
            step=self.state.batch,
            world_size=self.here.world_size,
            threads=self.threads,
            position=replace(position, skipped=self.state.skipped).to_json(),
            counters=self.state.to_json(),
            meter=meter,
            identity=self.sources.identity(self.config) | {init_from.FIELD: self.began_from},
            config=self.config.model_dump(mode="json"),
            vocab_size=self.sources.tokenizer.vocabulary.size,
            git_commit=git_commit(),
            mlflow_run_id=_mlflow_run_id(self.config.run),
        )


@contextmanager
def opened(
    config: Pretrain,
    here: Place,
    sources: Sources,
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
    start, record = _start(config, here, sources, watchdog, accept)
    threads = use_threads(here, config.train.threads, record.threads if record else None)
    plan = make_plan(config, sources, here.world_size)
    watchdog.mark("building the model")
    model = Bert(config.model, sources.tokenizer.vocabulary.size, config.seed)
    began_from = record.identity.get(init_from.FIELD) if record else None
    if config.init_from and record is None:
        watchdog.mark(f"reading {config.init_from.path}")
        starting_weights.begin(model, config, sources.tokenizer)
        began_from = init_from.identity(config, None)
    engine = Engine(config, model, here, accumulation=plan.accumulation, mark=watchdog.mark)
    guess = sources.unigram_entropy() if here.rank == 0 else math.inf
    state, meter, position = TrainState(), Meter(plan, config.data.pair, guess), Position()
    if start is not None and record is not None:
        watchdog.mark(f"loading {start}")
        record = checkpoint.load(start, engine, here, alive=watchdog.alive)
        state, position = TrainState.from_json(record.counters), Position.from_json(record.position)
        meter.restore(record.meter, here.rank, here.world_size)
        log.info("resumed at step %d from %s", state.batch, start)
    watchdog.mark("opening the data")
    loader = _loader(config, here, sources, position, watchdog)
    held_out = _held_out(config, here, sources)
    if here.rank == 0 and not trial:  # behind all that may refuse the config
        folder.save_config(config)
    sink = NoSink() if trial else _sink(config, here, sources, state.batch if record else -1)
    run = Run(
        config=config,
        here=here,
        plan=plan,
        sources=sources,
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
    )
    with _closing(loader, sink):
        yield run


@contextmanager
def _closing(loader: Loader, sink: Sink) -> Iterator[None]:
    """Stop the loader's thread and tell the sink how the run ended."""
    try:
        yield
    except Preempted:
        sink.close("KILLED")
        raise
    except BaseException:
        sink.close("FAILED")
        raise
    else:
        sink.close("FINISHED")
    finally:
        loader.close()


def _start(
    config: Pretrain, here: Place, sources: Sources, watchdog: Watchdog, accept: tuple[str, ...]
) -> tuple[Path | None, Record | None]:
    """The checkpoint to go on from, and its record; refuses one of another run (law T2)."""
    watchdog.mark("checking the checkpoints")
    start = checkpoint.newest_good(config.run, here, alive=watchdog.alive)
    if start is None:
        return None, None
    record = Record.read(start)
    weights = init_from.identity(config, record.identity.get(init_from.FIELD))
    now = sources.identity(config) | {init_from.FIELD: weights}
    identity.refuse_changes(record.identity, now, accepted=accept, where=str(start))
    commit = git_commit()
    if record.git_commit != commit:
        log.warning("saved by commit %s, resumed by %s", record.git_commit, commit)
    return start, record


def _loader(
    config: Pretrain, here: Place, sources: Sources, position: Position, watchdog: Watchdog
) -> Loader:
    return Loader(
        config.data,
        shards=tuple(sources.train.values()),
        vocabulary=sources.tokenizer.vocabulary,
        seed=config.seed,
        global_batch=config.train.global_batch,
        micro_batch=config.train.micro_batch,
        rank=here.rank,
        world_size=here.world_size,
        position=position,
        num_batches=config.train.steps,
        listed=word_keys(sources.listed),
        alive=watchdog.alive,
    )


def _held_out(config: Pretrain, here: Place, sources: Sources) -> dict[str, HeldOut]:
    return {
        name: HeldOut(
            config.data,
            shards=shards,
            vocabulary=sources.tokenizer.vocabulary,
            global_batch=config.train.global_batch,
            micro_batch=config.train.micro_batch,
            rank=here.rank,
            world_size=here.world_size,
        )
        for name, shards in sources.held_out.items()
    }


def _sink(config: Pretrain, here: Place, sources: Sources, resume_step: int) -> Sink:
    sink = Sink.open(
        config.run,
        config.tracking,
        parameters=config.model_dump(mode="json"),
        tags={
            "data.train.fingerprint": sources.fingerprint(),
            "data.tokenizer.hash": sources.tokenizer.hash,
            "git_commit": git_commit() or "",
            "world_size": str(here.world_size),
        },
        resume_step=resume_step,
        enabled=here.rank == 0,
        levels=sources.levels(),
    )
    sink.artifact(config.run / folder.CONFIG)
    sink.artifact(config.data.tokenizer, "tokenizer")
    return sink


def git_commit() -> str | None:
    """The commit of the code that runs; None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _mlflow_run_id(run: Path) -> str | None:
    """The id that the shipper has noted, if it has got that far."""
    try:
        return json.loads((run / TRACKING_STATE).read_bytes()).get("run_id")
    except (OSError, ValueError, AttributeError):
        return None
