"""The process that carries a run to MLflow, beside training and apart from it.

`python -m mlmdist.tracking.shipper RUN PARENT_PID GRACE_SECONDS` follows the run folder until its
parent says "close" or is gone, then has GRACE_SECONDS for what is left. It may be killed at any
instant: whatever it left unsent is sent by the next one, or by `ship`.
"""

import fcntl
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlmdist import logs
from mlmdist.errors import ConfigError, DataError
from mlmdist.tracking import curve
from mlmdist.tracking.delivery import Delivery
from mlmdist.tracking.journal import METRICS
from mlmdist.tracking.mlflow_client import Trouble, without_secrets
from mlmdist.tracking.state import remove_temporaries

log = logging.getLogger(__name__)

ALL_SENT, NOT_SENT = 0, 1
LOCK = "tracking.lock"
POLL_SECONDS = 1.0
LOOK_SECONDS = 0.25
RETRY_SECONDS = 0.5
MAX_PAUSE = 30.0
LOWER_PRIORITY = 5


class Watch:
    """Knows when training is over, and from then on ends this process within `grace_seconds`.

    The end is hard, by a thread: a call into MLflow may hang for longer than that.
    """

    def __init__(self, parent: int, grace_seconds: float) -> None:
        self._parent, self._grace_seconds = parent, grace_seconds
        self.closing = threading.Event()
        self.killed = False
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self.closing.is_set():
            self._look()
        time.sleep(self._grace_seconds)
        os._exit(NOT_SENT)

    def _look(self) -> None:
        """Wait a moment for a word from training; no word and no parent either is its death."""
        readable, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
        said_close = bool(readable) and os.read(sys.stdin.fileno(), 64) != b""
        if readable or os.getppid() != self._parent:
            self.killed = not said_close
            self.closing.set()


def follow(run: Path, closing: threading.Event) -> Delivery | None:
    """Deliver what training writes until it is over; the delivery that is still good, if any.

    A server that is away costs one line, and one more when it answers again.
    """
    delivery: Delivery | None = None
    failures = 0
    while not closing.is_set():
        delivery = delivery or Delivery(run)
        try:
            delivery.deliver()
            _tell_of_recovery(failures)
            failures = 0
        except Trouble as trouble:
            failures += 1
            _tell_of_trouble(failures, trouble, delivery.address, run)
            delivery = None
        closing.wait(_pause(failures))
    return delivery


def finish(run: Path, delivery: Delivery | None, *, killed: bool) -> None:
    """Deliver the rest; tries until it succeeds or `Watch` ends the process."""
    curve.draw(run)
    while True:
        try:
            (delivery or Delivery(run)).finish(killed=killed)
        except Trouble:
            delivery = None
            time.sleep(RETRY_SECONDS)
        else:
            return


def ship(run: Path) -> str:
    """Send, in this process, what the run still owes to MLflow; the id of its MLflow run.

    A run whose training wrote no end, because it was killed, is shown as killed. Raises ConfigError
    if MLflow does not take it or another process is sending, DataError if `run` is no tracked run.
    """
    with _locked(run, wait=False):
        delivery = Delivery(run)
        curve.draw(run)
        try:
            delivery.finish(killed=True)
        except Trouble as trouble:
            raise ConfigError(
                f"MLflow at {delivery.address}: {trouble}; must answer: start it or set "
                "MLFLOW_TRACKING_URI to another, then give the same command again"
            ) from None
        assert delivery.run_id
        return delivery.run_id


def main(run: Path, parent: int, grace_seconds: float) -> int:
    """The shipper's life; its exit code says whether everything was sent."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a launcher ends whole trees: let training close
    os.nice(LOWER_PRIORITY)
    _keep_own_lines_only()
    watch = Watch(parent, grace_seconds)
    try:
        with _locked(run, wait=True):
            remove_temporaries(run)
            delivery = follow(run, watch.closing)
            finish(run, delivery, killed=watch.killed)
    except Exception as error:
        reason = without_secrets(" ".join(f"{type(error).__name__}: {error}".split()))
        log.warning("%s is no longer sent to MLflow: %s", run, reason)
        return NOT_SENT
    return ALL_SENT


def _tell_of_trouble(failures: int, trouble: Trouble, address: str, run: Path) -> None:
    """One line at the second failure in a row: the first may be a connection grown old."""
    if failures == 2:
        log.warning(
            "MLflow at %s: %s; training goes on, its figures wait in %s",
            address,
            trouble,
            run / METRICS,
        )


def _tell_of_recovery(failures: int) -> None:
    if failures >= 2:
        log.info("MLflow answers again and has all figures")


def _pause(failures: int) -> float:
    """Seconds until the next look: growing while MLflow is away."""
    return POLL_SECONDS if failures == 0 else min(RETRY_SECONDS * 2 ** (failures - 1), MAX_PAUSE)


def _keep_own_lines_only() -> None:
    """Leave standard error to our own log lines; whatever a library says goes nowhere."""
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    logs.set_up()
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: record.name.startswith(("mlmdist", "__main__")))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.stderr = sys.stdout


@contextmanager
def _locked(run: Path, *, wait: bool) -> Iterator[None]:
    """One sender a run. A file system without locks is taken as it is."""
    if not run.is_dir():
        raise DataError(f"{run} is no folder; must be the folder of a tracked run")
    with (run / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise ConfigError(f"{run} is being sent by another process; wait for its end") from None
        except OSError as error:
            log.debug("%s: no lock: %s", run, error)
        yield


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    os._exit(code)  # not waiting for the threads of libraries
