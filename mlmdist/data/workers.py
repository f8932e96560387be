"""Batches made ahead by processes of their own, where a thread beside the trainer is too slow.

Worker w of n makes every n-th batch from the w-th on, so the sequence is that of one worker. A
worker holds one batch that is not taken, and waits.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

import mlmdist
from mlmdist.data.batch import StepBatch
from mlmdist.data.worker import Task, read_frame, write_frame
from mlmdist.errors import DataError


class Workers:
    """Iterates over the batches of a task, made by processes; `close` ends them.

    An error in a worker is raised here, in the place of its batch; so is the death of one.
    """

    def __init__(self, task: Task, num_workers: int) -> None:
        self.task = task
        self.processes = [
            _start(replace(task, numbers=task.numbers[first::num_workers]))
            for first in range(min(num_workers, len(task.numbers)))
        ]

    def __iter__(self) -> Iterator[StepBatch]:
        try:
            for place, number in enumerate(self.task.numbers):
                yield self._take(self.processes[place % len(self.processes)], number)
        finally:
            self.close()

    def close(self) -> None:
        """End all processes and wait for them."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _take(self, process: subprocess.Popen[bytes], number: int) -> StepBatch:
        try:
            item = read_frame(_open(process.stdout))
        except (EOFError, OSError, ValueError):
            raise DataError(
                f"the loader's worker {process.pid} ended (exit code {process.wait()}) before "
                f"batch {number}; start again, with data.workers=0 if memory is short"
            ) from None
        if isinstance(item, BaseException):
            raise item
        return item


def _start(task: Task) -> "subprocess.Popen[bytes]":
    """A worker that has been told its task."""
    root = str(Path(mlmdist.__path__[0]).parent)
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mlmdist.data.worker"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)
    with suppress(BrokenPipeError):  # if it died at once, the first batch that it owes says so
        write_frame(_open(process.stdin), task)
    return process


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "started without this pipe"
    return pipe
