"""Ranks forked from a parent that has imported torch and DeepSpeed: they start in two seconds.

What they would import later is imported here too, once.
"""

import importlib
import multiprocessing
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from mlmdist import dist
from mlmdist.train import engine  # noqa: F401 (brings DeepSpeed)

START_SECONDS = 60.0

for _name in ("torch._dynamo", "deepspeed.runtime.zero.muon.muon_optimizer"):
    importlib.import_module(_name)  # what an optimizer imports when it is made


def on_ranks(
    world_size: int, work: Callable[..., Any], *arguments: Any, seconds: float = 120
) -> list[Any]:
    """What `work(place, *arguments)` returns on each of `world_size` ranks that have met."""
    context = multiprocessing.get_context("fork")
    port = dist.free_port()
    processes: list[BaseProcess] = []
    ends: list[Any] = []
    for rank in range(world_size):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=_rank, args=(rank, world_size, port, sender, work, arguments)
        )
        process.start()
        sender.close()
        processes.append(process)
        ends.append(receiver)
    try:
        return _collect(ends, time.monotonic() + seconds)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _collect(ends: list[Any], deadline: float) -> list[Any]:
    answers: dict[int, Any] = {}
    while len(answers) < len(ends):
        waiting = [end for rank, end in enumerate(ends) if rank not in answers]
        ready = wait(waiting, timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"only ranks {sorted(answers)} answered in time")
        for end in ready:
            rank = ends.index(end)
            try:
                good, answer = pickle.loads(ends[rank].recv_bytes())
            except EOFError:
                raise AssertionError(f"rank {rank} died") from None
            if not good:
                raise AssertionError(f"rank {rank}:\n{answer}")
            answers[rank] = answer
    return [answers[rank] for rank in range(len(ends))]


def launcher_environment(rank: int, world_size: int, port: int) -> dict[str, str]:
    """What the deepspeed launcher sets for a rank."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank),
        "LOCAL_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _rank(
    rank: int,
    world_size: int,
    port: int,
    sender: Connection,
    work: Callable[..., Any],
    arguments: Any,
) -> None:
    os.environ.update(launcher_environment(rank, world_size, port))
    torch.set_num_threads(1)
    try:
        here = dist.place()
        dist.start(here, timeout_seconds=START_SECONDS)
        answer = (True, work(here, *arguments))
        dist.barrier()
    except BaseException:
        said = traceback.format_exc()
        answer = (False, f"{said.splitlines()[-1]}\n{said}")
    sender.send_bytes(pickle.dumps(answer))  # tensors by value: this process ends at once
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
