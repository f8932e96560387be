"""The ranks of a job and what they agree on: sums of integers, rank 0's decisions, barriers.

The place of a rank comes from the launcher's environment; without a launcher a process is the only
rank. All of this travels over a control group of its own on the CPU (gloo), so that agreeing on a
number never waits for a GPU.
"""

import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mlmdist.errors import ConfigError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

# Read when torch is imported: a failed meeting would print thirty C++ frames beside our one line.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")

Decision = TypeVar("Decision")

_control: "ProcessGroup | None" = None


@dataclass(frozen=True)
class Place:
    """Where a process stands among the ranks of its job, and on its machine."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_size: int = 1
    launched: bool = False
    """True under a launcher: then the parent process is the launcher, and lives as long as we."""


def place() -> Place:
    """Where this process stands, from the launcher's environment; rank 0 of 1 without a launcher.

    Raises ConfigError if the environment holds only a part of what a launcher sets, or no numbers.
    """
    environment = os.environ
    if "RANK" not in environment and "WORLD_SIZE" not in environment:
        return Place()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise ConfigError(
            f"the environment has no {', '.join(missing)}; a launcher sets {', '.join(names)}: "
            "start with `deepspeed launch/pretrain.py ...`, or unset RANK and WORLD_SIZE"
        )
    world_size = _number("WORLD_SIZE")
    return Place(
        rank=_number("RANK"),
        world_size=world_size,
        local_rank=_number("LOCAL_RANK"),
        local_size=_number("LOCAL_SIZE") if "LOCAL_SIZE" in environment else world_size,
        launched="CROSS_RANK" in environment,
    )


def _number(name: str) -> int:
    text = os.environ[name]
    if not text.isdecimal():
        raise ConfigError(
            f"{name}={text!r} in the environment must be a whole number; a launcher sets it: start "
            "with `deepspeed launch/pretrain.py ...`, or unset RANK and WORLD_SIZE"
        )
    return int(text)


def start(here: Place, *, timeout_seconds: float) -> None:
    """Join the job's ranks; returns when all are there.

    Raises ConfigError if they are not there after `timeout_seconds`, or if the port is taken.
    """
    import torch
    import torch.distributed as ranks

    global _control
    _complete_environment(here)
    if torch.cuda.is_available():
        torch.cuda.set_device(here.local_rank)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    timeout = timedelta(seconds=timeout_seconds)
    try:
        ranks.init_process_group(backend, timeout=timeout)
        _control = cast("ProcessGroup", ranks.new_group(backend="gloo", timeout=timeout))
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigError(_start_failure(here, timeout_seconds, str(error))) from None


def _complete_environment(here: Place) -> None:
    """What torch and DeepSpeed read when no launcher has set it."""
    if here.world_size == 1 and "MASTER_PORT" not in os.environ:
        os.environ.update(
            RANK="0",
            WORLD_SIZE="1",
            LOCAL_RANK="0",
            LOCAL_SIZE="1",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(free_port()),
        )


def _start_failure(here: Place, timeout_seconds: float, reason: str) -> str:
    address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    first_line = reason.splitlines()[0] if reason else "no reason given"
    if "EADDRINUSE" in reason or "address already in use" in reason.lower():
        return (
            f"{address} is taken by another program; give the launcher a free port: "
            f"`deepspeed --master_port {free_port()} ...`"
        )
    return (
        f"rank {here.rank} of {here.world_size} did not meet the others at {address} within "
        f"{timeout_seconds:.0f} s (limits.start_seconds): {first_line}; every node must reach that "
        "address, and GLOO_SOCKET_IFNAME name the network interface where host names do not"
    )


def finish() -> None:
    """Leave the job."""
    import torch.distributed as ranks

    global _control
    if ranks.is_initialized():
        ranks.destroy_process_group()
    _control = None


def sum_integers(values: list[int]) -> list[int]:
    """The sums of `values` over all ranks, position by position; every rank waits for all."""
    return [int(total) for total in _sum(values, "int64")]


def sum_floats(values: list[float]) -> list[float]:
    """The sums of `values` over all ranks in double precision, the same bits on every rank."""
    return _sum(values, "float64")


def _sum(values: list[Any], dtype: str) -> list[Any]:
    import torch
    import torch.distributed as ranks

    totals = torch.tensor(values, dtype=getattr(torch, dtype))
    if ranks.is_initialized() and ranks.get_world_size() > 1:
        ranks.all_reduce(totals, group=_control)
    return totals.tolist()


def broadcast_decision(decision: Decision) -> Decision:
    """Rank 0's `decision`, on every rank: what a clock, a signal or a file says, one rank says."""
    import torch.distributed as ranks

    holder = [decision]
    if ranks.is_initialized():
        ranks.broadcast_object_list(holder, src=0, group=_control)
    return holder[0]


def gather(value: Decision) -> list[Decision]:
    """Every rank's `value`, in the order of the ranks, on every rank."""
    import torch.distributed as ranks

    if not ranks.is_initialized():
        return [value]
    values: list[Any] = [None] * ranks.get_world_size()
    ranks.all_gather_object(values, value, group=_control)
    return values


def barrier() -> None:
    """Return when every rank has come here."""
    sum_integers([0])


def free_port() -> int:
    """A TCP port that no program on this machine listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
