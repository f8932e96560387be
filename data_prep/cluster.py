"""The door to Ray: run a function over tasks, on this machine or on a cluster that is there."""

import logging
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import data_prep
import mlmdist
from data_prep.config import Ray
from data_prep.own_folder import OwnFolder, remove_leftovers
from data_prep.progress import SECONDS_BETWEEN_MESSAGES, Board, StageProgress, Teller, listen
from mlmdist.errors import ConfigError, DataError
from mlmdist.memory import keep_freed
from mlmdist.object_store import environment, user_error

log = logging.getLogger(__name__)

MAX_RETRIES = 3  # of a task whose worker died; an error in the task itself is not tried again
IN_FLIGHT_PER_WORKER = 2
OBJECT_STORE_BYTES = 100 << 20  # tasks pass file names and counts, never text
KNOCK_SECONDS = 10.0
MESSAGES_PER_SECOND = 200  # that the board gets from all tasks together
SECONDS_BETWEEN_LOOKS = 0.5

# Read by Ray when it is imported, and by the processes it starts.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_task_oom_retries", "0")  # by default without limit; we count tries

import ray  # noqa: E402
from ray._private import worker as ray_worker  # noqa: E402
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError  # noqa: E402


@dataclass(frozen=True)
class Call:
    """A task to run; a number below 0 is no task of the stage's, and not shown."""

    number: int
    arguments: tuple[Any, ...]
    tries: int = MAX_RETRIES + 1
    """How often it is run until its worker's death is its outcome."""


@dataclass(frozen=True)
class Died:
    """What comes of a task whose worker died at each of its tries."""

    tries: int
    reason: str


@dataclass(frozen=True)
class _Try:
    """One try of one call, with a ticket of its own."""

    ticket: int
    call: Call
    number: int
    """1 for the first try."""


class Cluster:
    """Ray, joined at an address or started here and gone, with all its files, at the end.

    It starts with the first task, so a command that finds all its work done does not wait for it.
    """

    def __init__(self, config: Ray) -> None:
        self.config = config
        self.started = False
        self.folder: OwnFolder | None = None
        self.board: Any = None
        self.remote_work: Any = None
        self.tickets = 0
        self.most_workers: int | None = None  # once a worker was killed for memory

    def __enter__(self) -> "Cluster":
        return self

    def _start(self) -> None:
        handler = signal.getsignal(signal.SIGTERM)
        address = self.config.address or _address_of_this_job()
        if address is None:
            self._start_local()
        else:
            self._join(address)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray has put one there that exits with 15
        self.board = ray.remote(num_cpus=0, max_restarts=-1)(Board).remote()
        # One remote function for all tasks: each asks for workers of its own. Ray does not try
        # again by itself: its count would not be known here.
        self.remote_work = ray.remote(num_cpus=1, max_retries=0)(_work)
        self.started = True

    def _start_local(self) -> None:
        remove_leftovers()
        self.folder = OwnFolder()
        try:
            ray.init(
                address="local",
                num_cpus=self.config.workers or os.cpu_count(),
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=str(self.folder.path),
                _system_config=_NO_STATISTICS,
                **_QUIET,
            )
        except Exception as error:  # Ray raises nothing more special
            raise ConfigError(
                f"Ray does not start on this machine ({' '.join(str(error).split())}); if it is "
                "busy, run the same command again; else see that /tmp and /dev/shm have room"
            ) from error

    def _join(self, address: str) -> None:
        """The cluster's workers get this program's own packages, so that both sides are equal.

        And, but from a job, whose workers have it, what leads to object stores: keys, endpoint.
        """
        modules = [str(Path(package.__path__[0])) for package in (mlmdist, data_prep)]
        variables = {} if _address_of_this_job() else environment()
        try:
            runtime = {"py_modules": modules, "env_vars": variables}
            _knock(address)
            ray.init(address=address, runtime_env=runtime, **_QUIET)
        except (OSError, RayError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"ray.address={address}: no Ray cluster answers there ({error}); "
                "start one with `ray start --head`, or leave ray.address out"
            ) from None
        log.info("joined the Ray cluster at %s: %d tasks at once", address, self.workers)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.started:
            ray.shutdown()
        if self.folder:
            self.folder.remove()

    @property
    def workers(self) -> int:
        """Tasks that run at once."""
        found = self.config.workers or int(ray.cluster_resources().get("CPU", 1))
        return max(1, min(found, self.most_workers or found))

    def _in_flight(self) -> int:
        """Tasks that Ray knows of at once: some wait for a core, if cores are all that limits."""
        every_core = self.folder is not None or self.config.workers is None
        waiting = every_core and self.most_workers is None
        return self.workers * (IN_FLIGHT_PER_WORKER if waiting else 1)

    def run(
        self,
        function: Callable[..., Any],
        tasks: Iterable[tuple[Any, ...]],
        shown: StageProgress | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """(number, `function(*task)`) of each task as it ends, in no order.

        Few tasks are in flight at once, so memory does not grow with their number. A task may run
        more than once, if its worker dies: it must write whole files or none. Raises the task's own
        error, if it is one for the user, and DataError if its worker dies again and again.
        """
        calls = (Call(number, arguments) for number, arguments in enumerate(tasks))
        for number, outcome in self.outcomes(function, calls, shown):
            if isinstance(outcome, Died):
                raise DataError(
                    f"{function.__name__}, task {number}: its worker died {outcome.tries} times "
                    f"({outcome.reason}); if memory is short, say ray.workers=N for fewer at once; "
                    "the same command goes on"
                )
            yield number, outcome

    def outcomes(
        self,
        function: Callable[..., Any],
        calls: Iterable[Call],
        shown: StageProgress | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """(number, result) of each call as it ends, or (number, Died) after its last try.

        `calls` may come to an end and, after something was yielded, have more.
        """
        waiting = iter(calls)
        again: deque[_Try] = deque()
        running: dict[Any, _Try] = {}
        look = _Look(self, shown)
        try:
            while True:
                while not running or len(running) < self._in_flight():
                    following = again.popleft() if again else self._first_try(waiting)
                    if following is None:
                        break
                    running[self._submit(function, following)] = following
                if not running:
                    return
                if shown:
                    shown.begin()
                done, _ = ray.wait(list(running), timeout=SECONDS_BETWEEN_LOOKS)
                look.now(running.values())
                for reference in done:
                    this = running.pop(reference)
                    outcome = self._outcome(reference, this, shown)
                    if isinstance(outcome, Died) and this.number < this.call.tries:
                        again.append(self._next_try(this))
                    else:
                        yield this.call.number, outcome
        finally:
            for reference in running if ray.is_initialized() else ():
                ray.cancel(reference, force=True)

    def _first_try(self, waiting: Iterator[Call]) -> _Try | None:
        following = next(waiting, None)
        if following is None:
            return None
        if not self.started:
            self._start()
        self.tickets += 1
        return _Try(self.tickets, following, number=1)

    def _next_try(self, last: _Try) -> _Try:
        self.tickets += 1
        return _Try(self.tickets, last.call, last.number + 1)

    def _submit(self, function: Callable[..., Any], this: _Try) -> Any:
        interval = max(SECONDS_BETWEEN_MESSAGES, self.workers / MESSAGES_PER_SECOND)
        return self.remote_work.remote(
            self.board, this.ticket, interval, function, this.call.arguments
        )

    def _outcome(self, reference: Any, this: _Try, shown: StageProgress | None) -> Any:
        """The result of a try that is over, or Died."""
        try:
            result, totals, seconds = ray.get(reference)
        except RayTaskError as error:
            raise _mendable(error) from None
        except RayError as error:
            if isinstance(error, OutOfMemoryError):
                self._be_careful()
            reason = " ".join(str(error).split())
            log.debug("call %d: its worker died: %s", this.call.number, reason)
            return Died(this.number, reason.partition(". ")[0][:200])
        if shown:
            shown.finish(this.call.number, totals, seconds)
        return result

    def _be_careful(self) -> None:
        """Run fewer tasks at once from now on."""
        self.most_workers = max(1, self.workers // 2)
        log.warning("memory is short: at most %d tasks at once from now on", self.most_workers)


class _Look:
    """Asks the board for news, without ever waiting for it."""

    def __init__(self, cluster: Cluster, shown: StageProgress | None) -> None:
        self.cluster, self.shown = cluster, shown
        self.asked: Any = None
        self.at = 0.0

    def now(self, running: Iterable[_Try]) -> None:
        """Show the news that has come, and ask for more."""
        if self.shown is None:
            return
        tasks = {this.ticket: this.call.number for this in running}
        if self.asked is not None:
            there, _ = ray.wait([self.asked], timeout=0)
            if not there:
                return
            try:
                self.shown.hear(ray.get(self.asked), tasks)
            except RayError as error:
                log.debug("no news of running tasks: %s", error)
            self.asked = None
        if time.monotonic() - self.at >= SECONDS_BETWEEN_LOOKS:
            self.at = time.monotonic()
            self.asked = self.cluster.board.read.remote(list(tasks))


def _work(
    board: Any, ticket: int, interval: float, function: Callable[..., Any], arguments: Any
) -> tuple[Any, dict[str, Any], float]:
    """In a worker: the function's result, what it told in all, and the seconds it took."""
    keep_freed()
    teller = Teller(lambda totals: board.put.remote(ticket, totals), interval)
    listen(teller.add)
    try:
        result = function(*arguments)
    finally:
        listen(None)
    return result, teller.totals, teller.seconds


def _knock(address: str) -> None:
    """Raise OSError if nobody listens at HOST:PORT: Ray would try it for twelve minutes."""
    host, colon, port = address.rpartition(":")
    if colon and "/" not in host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS).close()


def _address_of_this_job() -> str | None:
    """Where `ray job submit` put this program, if it did: it belongs on that cluster."""
    return "auto" if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ else None


def _to_log(data: dict[str, Any], *_: Any, **__: Any) -> None:
    """Take what Ray would write on standard output, where only results belong."""
    for line in data.get("lines", ()):
        log.debug("ray: %s", line)


ray_worker.print_to_stdstream = _to_log
# Of a cluster that is gone at the end nobody looks at the tasks' events and metrics, which take 3 %
# of two cores.
_NO_STATISTICS = {
    "task_events_report_interval_ms": 0,
    "enable_metrics_collection": False,
    "event_stats": False,
    "enable_timeline": False,
}
_QUIET: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}


def _mendable(error: RayTaskError) -> Exception:
    """The task's own error, where it is one that the user can mend."""
    cause = getattr(error, "cause", None)
    return (cause and user_error(cause)) or error
