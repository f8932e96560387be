"""Live counts of running tasks: what a task tells, and what the driver shows of all of them.

A task's process sends its totals so far, never differences, under the ticket of this one try of
this one task: a lost message does not matter, and what a dead try had counted is forgotten with it.

    task: tell() -> Teller --(at most one message a second)--> Board -> driver: StageProgress
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from mlmdist.logs import Progress, clock, quantity

log = logging.getLogger(__name__)

Counts = Mapping[str, "int | Mapping[str, int]"]
Totals = dict[str, Any]
"""Counts added up: numbers, and under a name such as "dropped" numbers by reason."""

SECONDS_BETWEEN_MESSAGES = 1.0
NEARLY = 0.99  # what is told last may not have come

_listener: Callable[[Counts], None] | None = None


def listen(listener: Callable[[Counts], None] | None) -> None:
    """Send what this process tells to `listener`; None sends it nowhere."""
    global _listener  # a process runs one task at a time
    _listener = listener


def tell(**counts: "int | Mapping[str, int]") -> None:
    """Add to the running task's counts, for example bytes=4096, dropped={"short": 1}."""
    if _listener is not None:
        _listener(counts)


def add(totals: Totals, counts: Counts) -> None:
    """Add `counts` to `totals`, name by name and reason by reason."""
    for name, value in counts.items():
        if isinstance(value, Mapping):
            inner = totals.setdefault(name, {})
            for reason, number in value.items():
                inner[reason] = inner.get(reason, 0) + number
        else:
            totals[name] = totals.get(name, 0) + value


class Teller:
    """Adds up what a task tells and sends its totals on, no oftener than the interval."""

    def __init__(self, send: Callable[[Totals], None], interval: float) -> None:
        self.send, self.interval = send, interval
        self.totals: Totals = {}
        self.started = time.monotonic()
        self.sent = self.started
        send({})  # so that the driver knows that this try runs

    @property
    def seconds(self) -> float:
        """How long this try has been running."""
        return time.monotonic() - self.started

    def add(self, counts: Counts) -> None:
        """Take what the task tells."""
        add(self.totals, counts)
        if time.monotonic() - self.sent >= self.interval:
            self.sent = time.monotonic()
            self.send(self.totals)


class Board:
    """Where the totals of running tries stand for the driver to read, in a process of its own.

    Holds as many as are in flight at once.
    """

    def __init__(self) -> None:
        self.totals: dict[int, Totals] = {}

    def put(self, ticket: int, totals: Totals) -> None:
        """Replace the totals of a try."""
        self.totals[ticket] = totals

    def read(self, running: Sequence[int]) -> dict[int, Totals]:
        """The totals of those tries that have said something; all others are forgotten."""
        self.totals = {ticket: self.totals[ticket] for ticket in running if ticket in self.totals}
        return self.totals


@dataclass
class Running:
    """A try that is under way, as far as the driver knows."""

    task: int
    since: float
    """time.monotonic() when the driver first heard of it."""

    totals: Totals


class StageProgress:
    """The bar of one kind of task: work done and time left, rates, drops, the slowest task.

    `sizes` are the tasks' amounts of work in `unit`. A finished task counts with its size; a
    running one with what it tells under `measured_by`, never more than its size. `names` are what
    a person calls the tasks; `at_the_end` says what goes on when all is told and nothing is done.
    """

    def __init__(
        self,
        label: str,
        sizes: Sequence[int],
        names: Sequence[str],
        *,
        unit: str = "B",
        measured_by: str = "bytes",
        done_before: float = 0,
        at_the_end: str = "",
    ) -> None:
        self.at_the_end, self.begun = at_the_end, False
        self.sizes, self.names, self.unit, self.measured_by = sizes, names, unit, measured_by
        self.bar = Progress(label, sum(sizes) + done_before, unit)
        self.bar.resume_at(done_before)
        self.finished = 0.0
        self.totals: Totals = {}  # of finished tasks
        self.running: dict[int, Running] = {}
        self.slowest = (0.0, "")  # of finished tasks: seconds and name

    def __enter__(self) -> "StageProgress":
        self.bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._show()
        self.bar.__exit__(kind, value, trace)
        if kind is None and self.finished:
            log.info("%s", self.summary())

    def begin(self) -> None:
        """Start the clock, if it does not run: Ray is there now, and the first tasks are on."""
        if not self.begun:
            self.begun = True
            self.bar.started = time.monotonic()

    def hear(self, board: Mapping[int, Totals], tasks: Mapping[int, int]) -> None:
        """Take what stands on the board; `tasks` gives the task of each ticket in flight.

        A probe's number is below 0: it is not shown.
        """
        now = time.monotonic()
        self.running = {
            ticket: Running(
                tasks[ticket],
                self.running[ticket].since if ticket in self.running else now,
                totals,
            )
            for ticket, totals in board.items()
            if tasks.get(ticket, -1) >= 0
        }
        self._show()

    def finish(self, task: int, totals: Totals, seconds: float) -> None:
        """Count a task as done, with its final totals, after so many seconds at work."""
        self.running = {
            ticket: running for ticket, running in self.running.items() if running.task != task
        }
        if task < 0:
            return
        add(self.totals, totals)
        self.finished += self.sizes[task]
        self.slowest = max(self.slowest, (seconds, self.names[task]))
        self._show()

    def current(self) -> Totals:
        """The totals of finished tasks and, as far as they have told, of running ones."""
        totals: Totals = {}
        for counts in (self.totals, *(running.totals for running in self.running.values())):
            add(totals, counts)
        return totals

    def _show(self) -> None:
        under_way = sum(
            min(each.totals.get(self.measured_by, 0), self.sizes[each.task])
            for each in self.running.values()
        )
        self.bar.stand_at(self.bar.first + self.finished + under_way, self.note)

    def note(self) -> str:
        """What stands behind the bar: amounts, rates, drops, and the task that runs longest."""
        total = f"{quantity(self.bar.done)} of {quantity(self.bar.total)} {self.unit}"
        parts = [total, *_facts(self.current(), self.bar.seconds, self.unit)]
        if self.running:
            oldest = min(self.running.values(), key=lambda running: running.since)
            age = clock(time.monotonic() - oldest.since)
            if self.at_the_end and self.bar.done >= self.bar.total * NEARLY:
                return f"{self.at_the_end}, {age}"
            parts.append(f"longest at {self.names[oldest.task]} {age}")
        return ", ".join(parts)

    def summary(self) -> str:
        """One line on the finished stage: time, rates, documents, drops, slowest task."""
        seconds = self.bar.seconds
        rate = f"{quantity(self.finished / seconds)} {self.unit}/s"
        work = f"{quantity(self.finished)} {self.unit} in {clock(seconds)}"
        parts = [work, rate, *_facts(self.totals, seconds, self.unit)]
        if len(self.sizes) > 1:
            parts.append(f"slowest {self.slowest[1]} {clock(self.slowest[0])}")
        return f"{self.bar.label}: {', '.join(parts)}"


def _facts(totals: Totals, seconds: float, unit: str) -> Iterable[str]:
    """What the tasks told, in words."""
    if "bytes" in totals and unit != "B":
        yield f"{quantity(totals['bytes'] / seconds)} B/s"
    if tokens := totals.get("tokens", 0):
        yield f"{quantity(tokens / seconds)} tokens/s"
    if "documents" in totals:
        yield f"{totals['documents']:,} documents"
    if dropped := totals.get("dropped"):
        reasons = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
        yield "dropped " + " ".join(f"{number:,} {reason}" for reason, number in reasons)
