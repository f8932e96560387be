"""Records that are left out: those a task names itself, and those that kill its worker.

A guarded task works through numbered records and takes, as its last keywords, `only` (a range of
numbers: work on these, write nothing, return how many records there are) and `skip` (leave these
out). A task whose worker dies at every try is searched for the record that does it, by halves; the
record is quarantined and the task goes on without it.
"""

import json
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from data_prep.cluster import Call, Cluster, Died
from data_prep.progress import StageProgress
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, atomic_writer, write_json

log = logging.getLogger(__name__)

FILE_NAME = "quarantine.jsonl"
QUARANTINED = "quarantined"
KILLED = "killed its worker"
MOST_SHOWN = 10  # in an error
NO_RECORD = range(1 << 48, (1 << 48) + 1)  # beyond the end of any file
TRIES_TO_CONFIRM = 3
TRIES_AFTER_A_SEARCH = 2

Search = Generator[range, Any, int | None]


class Killers:
    """The records that killed the workers of a stage's tasks, kept in a file from try to try.

    Once there are more than the allowance, no further one is searched for, so there are never many.
    """

    def __init__(self, path: AnyPath, allowance: int) -> None:
        self.path, self.allowance = path, allowance
        self.found: dict[str, list[int]] = json.loads(path.read_bytes()) if path.exists() else {}
        self.undone: list[str] = []
        """Tasks that were left undone because there are too many, by name."""

    def of(self, task: str) -> frozenset[int]:
        """The records to leave out of a task."""
        return frozenset(self.found.get(task, ()))

    def add(self, task: str, record: int) -> None:
        """Remember a record, on disk."""
        self.found[task] = sorted({*self.found.get(task, ()), record})
        write_json(self.path, self.found)

    @property
    def too_many(self) -> bool:
        """Whether more were found than the recipe allows."""
        return sum(map(len, self.found.values())) > self.allowance


def run_guarded(
    cluster: Cluster,
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    names: Sequence[str],
    killers: Killers,
    num_records: Sequence[int] | None = None,
    shown: StageProgress | None = None,
) -> Iterator[tuple[int, Any]]:
    """(number, `function(*task, skip=...)`) of each task as it ends, in no order.

    `num_records`, a number a task, is what a search is over; without it a probe finds it out. A
    task that never comes stands in `killers.undone`: too many records kill its worker. Raises
    DataError where a worker dies again and again and no single record is to blame.
    """
    run = _GuardedRun(function, tasks, names, killers, num_records)
    for number, outcome in cluster.outcomes(_guarded, run, shown):
        if number < 0:
            run.take_probe(-1 - number, outcome)
        elif isinstance(outcome, Died):
            run.take_death(number, outcome)
        else:
            yield number, outcome


def _guarded(
    function: Callable[..., Any],
    task: tuple[Any, ...],
    only: range | None,
    skip: frozenset[int],
) -> Any:
    result = function(*task, only=only, skip=skip)
    return result if only is None or isinstance(result, int) else result["records"]


class _GuardedRun:
    """The calls of a guarded run, in order: probes first, which searches ask for, then tasks.

    The probes of task n have the number -1 - n; a task has one under way at most.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        names: Sequence[str],
        killers: Killers,
        num_records: Sequence[int] | None,
    ) -> None:
        self.num_records = num_records
        self.function, self.tasks, self.names, self.killers = function, tasks, names, killers
        self.urgent: deque[Call] = deque()
        self.first = iter(range(len(tasks)))
        self.searches: dict[int, Search] = {}
        self.in_vain: set[int] = set()  # tasks that were searched and no record was found

    def __iter__(self) -> "_GuardedRun":
        return self

    def __next__(self) -> Call:
        """The next call; after StopIteration there may be more, once an outcome was taken."""
        if self.urgent:
            return self.urgent.popleft()
        number = next(self.first)
        return Call(number, self._arguments(number))

    def take_death(self, number: int, death: Died) -> None:
        """Begin to search a task whose worker died at every try."""
        name = self.names[number]
        if number in self.in_vain:
            raise DataError(
                f"{name}: its worker dies ({death.reason}), but no single record does it; if "
                "memory is short, say ray.workers=N for fewer at once, or cut the work smaller "
                "(sources.N.split_bytes, cleaning.part_chars); the same command goes on"
            )
        if self.killers.too_many:
            self.killers.undone.append(name)
            return
        log.warning("%s: its worker died %d times; looking for the record", name, death.tries)
        known = self.killers.of(name)
        stop = None if self.num_records is None else self.num_records[number]
        self.searches[number] = _search(max(known, default=-1) + 1, stop, name)
        self._probe(number, next(self.searches[number]))

    def take_probe(self, number: int, outcome: Any) -> None:
        """Go on with a search, or end it."""
        try:
            self._probe(number, self.searches[number].send(outcome))
        except StopIteration as end:
            del self.searches[number]
            self._end_search(number, end.value)

    def _end_search(self, number: int, record: int | None) -> None:
        name = self.names[number]
        if record is None:
            self.in_vain.add(number)
        else:
            log.warning("%s: record %d %s", name, record, KILLED)
            self.killers.add(name, record)
            if self.killers.too_many:
                self.killers.undone.append(name)
                return
        self.urgent.append(Call(number, self._arguments(number), tries=TRIES_AFTER_A_SEARCH))

    def _probe(self, number: int, only: range) -> None:
        self.urgent.append(Call(-1 - number, self._arguments(number, only), tries=1))

    def _arguments(self, number: int, only: range | None = None) -> tuple[Any, ...]:
        return self.function, self.tasks[number], only, self.killers.of(self.names[number])


def _search(first: int, stop: int | None, name: str) -> Search:
    """Yields ranges of records to try and is sent what came of them; returns the one that kills.

    Records from `first` to below `stop` are halved, so n of them take log2(n) probes; where `stop`
    is not known, a probe that only reads tells it. Returns None if no record kills, or the one that
    was found does so only now and then. Raises DataError if reading alone kills: no record can be
    left out then.
    """
    seen = yield NO_RECORD
    if isinstance(seen, Died):
        raise DataError(
            f"{name}: reading it kills the worker ({seen.reason}), whatever is done with its "
            "records; cut the file to find the place, or leave it out"
        )
    low, high = first, seen if stop is None else stop
    while high - low > 1:
        middle = (low + high) // 2
        if isinstance((yield range(low, middle)), Died):
            high = middle
        else:
            low = middle
    for _ in range(TRIES_TO_CONFIRM):
        if not isinstance((yield range(low, low + 1)), Died):
            return None
    return low


@dataclass(frozen=True)
class Reported:
    """Where a task says which records it quarantined."""

    name: str
    """The task's, as `Killers` knows it."""

    source: str
    """The name of the file that the records are in."""

    path: AnyPath
    """Its report; of a task that was left undone there is none."""

    def number(self, killers: Killers) -> int:
        """How many records it quarantined."""
        if not self.path.exists():
            return len(killers.of(self.name))
        report = json.loads(self.path.read_bytes())
        by_reason = report["dropped"] if "dropped" in report else report["documents"]
        return by_reason["documents" if "dropped" in report else "dropped"].get(QUARANTINED, 0)

    def lines(self, killers: Killers, stage: str) -> list[dict[str, Any]]:
        """A line for each that is listed, by record."""
        listed = json.loads(self.path.read_bytes())[QUARANTINED] if self.path.exists() else []
        lines = {line["record"]: line for line in listed}
        for record in killers.of(self.name):
            known = {"source": self.source, "record": record, "place": None, "id": None}
            lines[record] = known | lines.get(record, {}) | {"stage": stage, "reason": KILLED}
        return [lines[record] for record in sorted(lines)]


def settle(
    tasks: Sequence[Reported],
    killers: Killers,
    *,
    stage: str,
    kept: AnyPath,
    refused: AnyPath,
    allowance: int,
    number_before: int = 0,
) -> int:
    """Write the list of the quarantined records to `kept`, if the recipe allows so many; how many.

    `number_before` is that of the stages before. Where they are too many the list goes to `refused`
    and DataError is raised; the work stays, so the same command with a larger allowance goes on.
    """
    number = sum(task.number(killers) for task in tasks)
    lines = chain.from_iterable(task.lines(killers, stage) for task in tasks)
    if number + number_before > allowance:
        shown = _write(refused, lines)
        raise DataError(_too_many(number, number_before, allowance, killers, shown, refused))
    refused.unlink(missing_ok=True)
    if number:
        _write(kept, lines)
    return number


def refuse_standing(number: int, allowance: int, result: AnyPath) -> None:
    """Raise DataError for a result that is there and lacks more records than the recipe allows."""
    if number > allowance:
        raise DataError(
            f"allow_quarantined={allowance}: {result} is there and was made without {number:,} "
            f"records that are damaged or break a worker (see {FILE_NAME} in it or in documents/); "
            f"say allow_quarantined={number} to use it, or mend them"
        )


def _write(path: AnyPath, lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write the lines as JSON Lines; the first ones, to show in an error."""
    shown: list[dict[str, Any]] = []
    with atomic_writer(path) as file:
        for line in lines:
            file.write(json.dumps(line, sort_keys=True, ensure_ascii=False).encode() + b"\n")
            if len(shown) < MOST_SHOWN:
                shown.append(line)
    return shown


def _too_many(
    number: int,
    number_before: int,
    allowance: int,
    killers: Killers,
    shown: Sequence[dict[str, Any]],
    path: AnyPath,
) -> str:
    total = number + number_before
    places = (f"{line['source']} record {line['record']} ({line['reason']})" for line in shown)
    more = f" and {number - len(shown):,} more" if number > len(shown) else ""
    before = f" ({number_before:,} of them in `clean`)" if number_before else ""
    undone = f"; not searched to the end: {', '.join(killers.undone[:3])}" if killers.undone else ""
    return (
        f"allow_quarantined={allowance}: records damaged or breaking a worker: {total:,}"
        f"{before}: {'; '.join(places)}{more}{undone}; all in {path}; mend them, or say "
        f"allow_quarantined={total} to go on without them (the work so far stays)"
    )
