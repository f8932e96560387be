"""A run, put together: who owns what, how it saves, and how it goes from phase to phase."""

import json
import logging
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from mlmdist import dist
from mlmdist.config.pretrain import Pretrain
from mlmdist.data.held_out import HeldOut
from mlmdist.data.loader import Loader
from mlmdist.dist import Place
from mlmdist.tracking.metrics import Sink
from mlmdist.train import checkpoint, init_from
from mlmdist.train.budget import Budget
from mlmdist.train.checkpoint import Record
from mlmdist.train.engine import Engine
from mlmdist.train.laps import BESIDE
from mlmdist.train.meter import Meter
from mlmdist.train.phase_data import entry, held_out_of, loader_of, rows_behind
from mlmdist.train.phases import Phase, identity_of
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
    phases: tuple[Phase, ...]
    budget: Budget
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

    started: float
    """When this process began, less what earlier parts of the run took, on the monotonic clock."""

    guess: float
    """The loss in nats of a guess by word frequency on the text trained on."""

    @property
    def phase(self) -> Phase:
        """The phase that the run is in."""
        return self.phases[self.state.phase]

    @property
    def sources(self) -> Sources:
        """What the phase reads."""
        return self.phase.sources

    @property
    def is_in_last_phase(self) -> bool:
        """Whether no phase follows."""
        return self.state.phase == len(self.phases) - 1

    @property
    def is_by_clock(self) -> bool:
        """Whether time ends the run, not steps."""
        return self.phase.seconds is not None

    def clock_ms(self) -> int:
        """Time that the run has taken, as rank 0 has it; 0 on the others."""
        return round(1000 * (time.monotonic() - self.started)) if self.here.rank == 0 else 0

    @contextmanager
    def beside_training(self, kind: Literal["look_ms", "save_ms"]) -> Iterator[None]:
        """Work that is no step: left out of the meter, and its longest time kept in the state."""
        begin = time.monotonic()
        with self.engine.laps.inside(BESIDE):
            yield
        seconds = time.monotonic() - begin
        if self.is_by_clock:
            seconds = dist.broadcast_decision(seconds)
            self.budget.leave_out(seconds)
            setattr(self.state, kind, max(getattr(self.state, kind), 1000 * seconds))
        self.meter.leave_out()

    def enter_next_phase(self) -> None:
        """Close what the phase reads and open what the next one does. All ranks together."""
        rows = rows_behind(self.phase, self.loader, self.state.batch, self.state.rows_read)
        self.loader.close()
        self.state.next_phase(rows)
        position = entry(self.phase, self.state.batch, rows)
        self.watchdog.mark(f"opening the data of phase {self.phase.name}")
        last = self.budget.last_batch(self.phase.number)
        self.loader = loader_of(self.phase, self.here, position, last, self.watchdog.alive)
        self.held_out = held_out_of(self.phase, self.here)
        self.engine.follow(self.phase.config)
        log.info("phase %s begins behind step %d", self.phase.name, self.state.batch)

    def save(self) -> None:
        """Write a checkpoint of the run as it is. All ranks together."""
        self.watchdog.mark(f"checkpoint of step {self.state.batch}")
        with self.beside_training("save_ms"):
            self.sink.sync()
            meter = dist.gather(self.meter.own())
            path = checkpoint.save(
                self.config.run,
                self.engine,
                self.record(meter),
                self.here,
                keep=self.config.every.keep,
                best=self.state.best_step if self.config.ending.patience else None,
                alive=self.watchdog.alive,
            )
            self.saved_step = self.state.batch
        log.info("saved %s", path)

    def progress(self) -> dict[str, float]:
        """Epochs and tokens read of each corpus in this phase, by name where there are several."""
        figures = {"train/tokens_per_row": self.state.num_tokens / max(1, self.state.num_rows)}
        if len(self.phases) > 1:
            figures["train/phase"] = self.phase.number + 1.0
        if self.config.data.bad_blocks == "skip":
            figures["train/rows_left_out"] = float(self.state.num_left_out)
        return figures | self._epochs() | self._corpus_tokens()

    def _corpus_tokens(self) -> dict[str, float]:
        tokens, names = self.state.corpus_tokens, list(self.sources.train)
        if len(names) == 1 or len(tokens) != len(names):  # begun before they were kept
            return {}
        named = zip(names, tokens, strict=True)
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
            identity=identity_of(self.phases, self.state.phase)
            | {init_from.FIELD: self.began_from},
            config=self.config.model_dump(mode="json"),
            vocab_size=self.sources.tokenizer.vocabulary.size,
            git_commit=git_commit(),
            mlflow_run_id=_mlflow_run_id(self.config.run),
        )


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
