"""Two ways of doing the same work, timed in turn: A B B A, medians, one table, one line of JSON."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median


@dataclass
class Board:
    """The results of a benchmark, a ratio a case: how many times faster ours is."""

    ratios: dict[str, float] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def duel(
        self,
        case: str,
        ours: Callable[[], object],
        theirs: Callable[[], object],
        *,
        rounds: int = 3,
        work: float = 0.0,
        unit: str = "MB",
    ) -> float:
        """Time both in turn, `rounds` times A B B A; the ratio of the medians, theirs / ours.

        `work` units are done in a call; speeds are shown a second.
        """
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(2 * rounds):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                times[side].append(seconds(ours if side == 0 else theirs))
        fast, slow = (median(side) for side in times)
        speeds = f"{work / fast:.2f} against {work / slow:.2f} {unit}/s" if work else ""
        spread = max(max(side) / min(side) for side in times)
        self.note(case, slow / fast, f"{speeds} (spread {spread:.2f})")
        return slow / fast

    def note(self, case: str, ratio: float, remark: str = "") -> None:
        """Add a case that was measured otherwise."""
        self.ratios[case] = round(ratio, 4)
        self.say(f"{case:<34}{ratio:>8.2f}  {remark}")

    def say(self, line: str) -> None:
        """Add a line for people, and show it at once."""
        self.lines.append(line)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def end(self) -> None:
        """Print, last of all, every ratio as one JSON object."""
        sys.stdout.write(json.dumps(self.ratios) + "\n")


def seconds(work: Callable[[], object]) -> float:
    """The wall-clock time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
