"""Whole pretraining jobs on forked ranks: what the launcher would start, with faults put in."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from launch import pretrain
from mlmdist import dist
from mlmdist.data.batch import StepBatch
from mlmdist.train import check, command, loop, meeting  # noqa: F401 (forked ranks have them)
from mlmdist.train.engine import Engine, StepResult
from mlmdist.train.state import Counts
from tests.train.ranks import launcher_environment

POLL_SECONDS = 0.02
Fault = Callable[[int], None]


@dataclass
class Job:
    """The ranks of a job; rank r's output goes to `folder`/rank{r}.log."""

    processes: list[BaseProcess]
    folder: Path

    def wait(self, seconds: float = 90) -> list[int | None]:
        """Exit codes of all ranks; None for one that still runs after `seconds`."""
        deadline = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        return [process.exitcode for process in self.processes]

    def wait_for(self, path: Path, seconds: float = 60) -> None:
        """Return when `path` is there; fails if the job ends or the time is up before."""
        deadline = time.monotonic() + seconds
        while not path.exists():
            alive = all(process.is_alive() for process in self.processes)
            assert alive or path.exists(), self.output()
            assert time.monotonic() < deadline, self.output()
            time.sleep(POLL_SECONDS)

    def signal(self, rank: int, number: int) -> None:
        """Send a signal to one rank."""
        pid = self.processes[rank].pid
        assert pid is not None
        os.kill(pid, number)

    def kill(self) -> None:
        """End whatever still runs."""
        for process in self.processes:
            if process.is_alive():
                process.kill()
                process.join()

    def log(self, rank: int) -> str:
        """What a rank said."""
        path = self.folder / f"rank{rank}.log"
        return path.read_text() if path.exists() else ""

    def output(self) -> str:
        """What all ranks said."""
        return "\n".join(self.log(rank) for rank in range(len(self.processes)))


def before_step(number: int, act: Callable[[int], None]) -> Fault:
    """The fault that each rank calls `act(rank)` when it comes to batch `number`."""

    def put_in(rank: int) -> None:
        step = Engine.step

        def faulty(
            self: Engine, batch: StepBatch, counts: Counts, learning_rate: float
        ) -> StepResult:
            if batch.number == number:
                act(rank)
            return step(self, batch, counts, learning_rate)

        Engine.step = faulty

    return put_in


def start(
    world_size: int, config: Path, *words: str, fault: Fault | None = None, launched: bool = False
) -> Job:
    """Start `launch/pretrain.py --config config words...` on so many ranks.

    `fault(rank)` runs in each rank first, to break something in that process.
    """
    context = multiprocessing.get_context("fork")
    port = dist.free_port()
    folder = config.parent
    processes = []
    for rank in range(world_size):
        environment = launcher_environment(rank, world_size, port)
        arguments = ["--config", str(config), *words]
        process = context.Process(
            target=_rank, args=(rank, environment, arguments, folder, fault, launched)
        )
        process.start()
        processes.append(process)
    return Job(processes, folder)


def run(world_size: int, config: Path, *words: str, fault: Fault | None = None) -> Job:
    """A job that has ended; see `start`."""
    job = start(world_size, config, *words, fault=fault)
    try:
        job.wait()
    finally:
        job.kill()
    return job


def exit_codes(job: Job) -> list[int | None]:
    """How the ranks ended."""
    return [process.exitcode for process in job.processes]


def _rank(
    rank: int,
    environment: dict[str, str],
    words: list[str],
    folder: Path,
    fault: Fault | None,
    launched: bool,
) -> None:
    log = os.open(folder / f"rank{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(environment)
    if launched:
        os.environ["CROSS_RANK"] = "0"
    torch.set_num_threads(1)
    sys.argv = ["launch/pretrain.py", *words]
    if fault is not None:
        fault(rank)
    command.end(command.run_rank(pretrain.main))
