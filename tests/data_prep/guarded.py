"""Tasks of the guarded kind for the tests: they work through records, some of which kill them."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from data_prep.cluster import Call, Cluster, Died
from data_prep.progress import tell

DEADLY = "xyzzy"


class Killed(Exception):
    """Stands for the death of a worker where there is no worker."""


class Mortal(Cluster):
    """Runs tasks where it stands; one that raises Killed has died, at each of its tries."""

    calls = 0

    def outcomes(
        self, function: Callable[..., Any], calls: Iterable[Call], shown: object = None
    ) -> Iterator[tuple[int, Any]]:
        for call in calls:
            outcome: Any = None
            for number in range(1, call.tries + 1):
                self.calls += 1
                try:
                    outcome = function(*call.arguments)
                except Killed:
                    outcome = Died(number, "killed")
                    continue
                break
            yield call.number, outcome


def work(
    records: int,
    killers: frozenset[int],
    *,
    only: range | None = None,
    skip: frozenset[int] = frozenset(),
) -> Any:
    """The records that were worked on; dies at a killer."""
    done = []
    for record in range(records):
        if (only is None or record in only) and record not in skip:
            if record in killers:
                raise Killed
            done.append(record)
    return records if only is not None else done


def work_and_exit(
    records: int,
    killers: frozenset[int],
    log: Path,
    *,
    only: range | None = None,
    skip: frozenset[int] = frozenset(),
) -> Any:
    """The same in a worker: it ends its process, and leaves a mark for each time it began."""
    with log.open("a") as file:
        file.write(f"{records} {only} {sorted(skip)}\n")
    try:
        return work(records, killers, only=only, skip=skip)
    except Killed:
        os._exit(1)


def count_slowly(documents: int, fails: Path | None) -> int:
    """Tell of documents for a while; the first try dies half-way if a place for a mark is given."""
    for number in range(documents):
        tell(documents=1, bytes=10, dropped={"short": 1})
        time.sleep(0.15)
        if fails and number == documents // 2 and not fails.exists():
            fails.touch()
            os._exit(1)
    return documents


def sleep(seconds: float, mark: Path) -> None:
    """Show that it has begun, and stay."""
    mark.touch()
    time.sleep(seconds)


def deadly_tagger(words: list[str]) -> list[int]:
    """A user's tagger that takes its process down at a word."""
    if DEADLY in words:
        os._exit(1)
    return [len(word) for word in words]


def begun_at(seconds: float) -> float:
    """Work for some seconds; when that began, on the machine's clock."""
    begun = time.monotonic()
    time.sleep(seconds)
    return begun
