"""A step that does not fit into memory: what was asked, what there was, what would fit."""

import logging
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from mlmdist.config.pretrain import Pretrain
from mlmdist.config.train import Train
from mlmdist.data.batch import MicroBatch, StepBatch
from mlmdist.errors import ConfigError
from mlmdist.logs import quantity
from mlmdist.train import costs

log = logging.getLogger(__name__)

FAILURES = ("DefaultCPUAllocator", "can't allocate memory", "out of memory", "bad_alloc")
ASKED = re.compile(r"(?:[Tt]ried to allocate|allocate) ([\d.]+) ?(bytes|[KMGT]iB)")
VAGUE = ("could not create a ", "could not execute a primitive", "could not initialize a memory")
"""What oneDNN says where it finds no memory for its code and scratch, and for other reasons too."""

VAGUE_SHARE = 0.25  # of the activations' memory: if less is free, that is the reason
NEARLY_NOTHING = 16 << 20
"""Bytes: if less is free, libraries fail in words of their own, and that is the reason."""

UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
USABLE = 0.6  # of memory; the rest is lost between blocks, and to what the estimate leaves out
STATUS, MACHINE = Path("/proc/self/statm"), Path("/proc/meminfo")


class Memory:
    """The memory of a rank's device, as seen from when weights and optimizer state were there."""

    def __init__(
        self, device: torch.device, config: Pretrain, *, vocab_size: int, world_size: int
    ) -> None:
        self.device, self.config = device, config
        self.vocab_size, self.world_size = vocab_size, world_size
        self.base = self.used()

    def used(self) -> int:
        """Bytes that this process holds."""
        if self.device.type == "cuda":
            return torch.cuda.memory_allocated(self.device)
        addresses, resident, *_ = STATUS.read_text().split()
        pages = int(resident if _limit() is None else addresses)
        return pages * resource.getpagesize()

    def free(self) -> int:
        """Bytes that it could still have."""
        if self.device.type == "cuda":
            unused = torch.cuda.memory_reserved(self.device) - self.used()
            return torch.cuda.mem_get_info(self.device)[0] + unused
        there, limit = _of_machine("MemAvailable"), _limit()
        return there if limit is None else min(there, max(0, limit - self.used()))

    @contextmanager
    def explained(self, batch: StepBatch) -> Iterator[None]:
        """Raise ConfigError, with a way out, where a step over `batch` finds no memory."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
            largest = max(batch.micro_batches, key=lambda one: len(one.tokens))
            if not self._is_the_reason(error, largest):
                raise
            log.debug("memory: %s", error)
            raise ConfigError(self._message(largest, asked_bytes(str(error)))) from None

    def _message(self, micro_batch: MicroBatch, asked: int) -> str:
        train, rows = self.config.train, len(micro_batch.cu_lengths) - 1
        wanted = f"{quantity(asked)}B more" if asked else "more"
        begin = (
            f"train.micro_batch={train.micro_batch}: {rows} rows at once do not fit into memory "
            f"({wanted} was asked for, {quantity(self.free())}B was there); "
        )
        ways = other_ways(train, on_gpu=self.device.type == "cuda", shards=self.world_size > 1)
        if rows == 1:
            return begin + (f"try {ways}" if ways else "use a smaller model")
        fitting = self._fitting(micro_batch, rows, asked)
        return f"{begin}train.micro_batch={fitting} should fit{f', or try {ways}' if ways else ''}"

    def _fitting(self, micro_batch: MicroBatch, rows: int, asked: int) -> int:
        growth = max(0, self.used() - self.base)
        needed = max(self._estimate(micro_batch), growth + asked)
        return fitting_rows(rows, needed, growth + self.free())

    def _is_the_reason(self, error: BaseException, micro_batch: MicroBatch) -> bool:
        """Whether want of memory made a step fail; a GPU says so, and may answer nothing else."""
        if is_failure(error) or self.device.type != "cpu":
            return is_failure(error)
        enough = VAGUE_SHARE * self._estimate(micro_batch) if is_vague(error) else NEARLY_NOTHING
        return self.free() < max(enough, NEARLY_NOTHING)

    def _estimate(self, micro_batch: MicroBatch) -> int:
        """Bytes of the activations of a micro-batch."""
        return costs.activation_bytes(
            self.config.model,
            self.vocab_size,
            np.diff(micro_batch.cu_lengths).tolist(),
            len(micro_batch.labels),
            self.config.train.precision,
            recomputes=self.config.train.activation_checkpointing,
        )


def is_failure(error: BaseException) -> bool:
    """Whether an error says that memory was not given."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return any(word in str(error) for word in FAILURES)


def is_vague(error: BaseException) -> bool:
    """Whether an error may say that memory was not given, or something else."""
    return any(str(error).startswith(word) for word in VAGUE)


def asked_bytes(message: str) -> int:
    """The bytes that an allocator was asked for, as it says; 0 if it does not."""
    found = ASKED.search(message)
    return round(float(found.group(1)) * UNITS[found.group(2)]) if found else 0


def fitting_rows(rows: int, needed: int, there: int) -> int:
    """Rows of a micro-batch that would fit, at least 1: activations grow with rows.

    What is needed is known about, so some is left over, and at most half of the rows are said.
    """
    share = min(0.5, USABLE * there / needed) if needed else 0.5
    return max(1, int(rows * share))


def other_ways(train: Train, *, on_gpu: bool, shards: bool) -> str:
    """What else takes less memory than now; `shards`: there are ranks to share weights with."""
    ways = [] if train.activation_checkpointing else ["train.activation_checkpointing=true"]
    if shards and train.zero_stage < 3 and not train.compile:
        ways.append("train.zero_stage=3 in a new run folder")
    if on_gpu and train.offload == "none":
        ways.append("train.offload=optimizer")
    return " or ".join(ways)


def _limit() -> int | None:
    """The most bytes of addresses that this process may have; None if nobody limits them."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def _of_machine(name: str) -> int:
    """A figure of /proc/meminfo, in bytes; 0 where it is not there."""
    found = re.search(rf"^{name}:\s+(\d+) kB", MACHINE.read_text(), re.MULTILINE)
    return int(found.group(1)) << 10 if found else 0
