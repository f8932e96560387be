"""A process that makes batches for a trainer: `python -m mlmdist.data.worker`.

It reads what to make from its standard input (a pickled `Task`) and writes a frame for each batch
to its standard output: eight bytes of length, then a pickled batch or error. It is never alone: a
trainer that ends, however it ends, closes the pipes, and the next write ends the worker.
"""

import os
import pickle
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from mlmdist.block_cache import BlockCache
from mlmdist.files import AnyPath
from mlmdist.shards import ShardSet

LENGTH_BYTES = 8


@dataclass(frozen=True)
class Task:
    """Which batches a worker makes, and of what."""

    arguments: dict[str, Any]
    """Of a Loader, but for its shard sets."""

    folders: tuple[AnyPath, ...]
    """Of the shard sets, which every process opens for itself."""

    numbers: range


def write_frame(file: IO[bytes], item: Any) -> None:
    """One item, its length in front."""
    data = pickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL)
    file.write(len(data).to_bytes(LENGTH_BYTES, "little"))
    file.write(data)
    file.flush()


def read_frame(file: IO[bytes]) -> Any:
    """The next item; raises EOFError if the other side ended before it was complete."""
    length = int.from_bytes(_read(file, LENGTH_BYTES), "little")
    return pickle.loads(_read(file, length))  # noqa: S301 (from a process we started)


def _read(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _batches(task: Task) -> Iterator[Any]:
    """The batches, or in the place of one the error that it met, which is the last."""
    from mlmdist.data.loader import Loader

    try:
        section = task.arguments["data"].cache
        cache = BlockCache.open(section.folder, section.gigabytes)
        shards = tuple(ShardSet.open(folder, cache) for folder in task.folders)
        loader = Loader(**task.arguments, shards=shards, checked=True)
        yield from loader.batches(task.numbers)
    except Exception as error:
        yield error


def main() -> None:
    """Work until all batches are made or the trainer is gone."""
    for ignored in (signal.SIGINT, signal.SIGTERM):  # sent to the trainer's whole family
        signal.signal(ignored, signal.SIG_IGN)
    try:
        task = read_frame(sys.stdin.buffer)
        for item in _batches(task):
            write_frame(sys.stdout.buffer, item)
    except (EOFError, BrokenPipeError):
        os._exit(0)  # without a complaint about the closed pipe


if __name__ == "__main__":
    main()
