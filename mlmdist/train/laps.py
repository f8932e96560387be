"""Where the time of steps goes: a stopwatch that always runs for exactly one name.

On a GPU, whose work goes on behind the program's back, its own clock is read, when the figures are
asked for and not before: nothing waits for it in between.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch

DATA, FORWARD, BACKWARD = "data", "forward", "backward"
COMMUNICATION, OPTIMIZER, OTHER = "communication", "optimizer", "other"
BESIDE = "beside"  # evaluations and checkpoints, which no share counts
NAMES = (DATA, FORWARD, BACKWARD, COMMUNICATION, OPTIMIZER, OTHER)


class Laps:
    """Seconds by name since the last reading."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.stamps: list[tuple[str, Any]] = [(OTHER, self._now())]

    @property
    def name(self) -> str:
        """What the time runs for."""
        return self.stamps[-1][0]

    def to(self, name: str) -> None:
        """Let the time run for `name` from here on."""
        self.stamps.append((name, self._now()))

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Let the time run for `name` inside the block, behind it for what it ran before."""
        before = self.name
        self.to(name)
        try:
            yield
        finally:
            self.to(before)

    def read(self) -> dict[str, float]:
        """The seconds of each name in NAMES, and begin anew."""
        self.to(self.name)
        seconds: dict[str, float] = dict.fromkeys((*NAMES, BESIDE), 0.0)
        for (name, begin), (_, end) in pairwise(self.stamps):
            seconds[name] += self._between(begin, end)
        self.stamps = self.stamps[-1:]
        return {name: seconds[name] for name in NAMES}

    def _now(self) -> Any:
        if not self.on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, begin: Any, end: Any) -> float:
        if not self.on_gpu:
            return end - begin
        end.synchronize()
        return begin.elapsed_time(end) / 1000


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """`speed/share/NAME`: what each name takes of the time of steps, on this rank."""
    whole = sum(seconds.values())
    return {f"speed/share/{name}": part / whole for name, part in seconds.items()} if whole else {}
