"""The metrics sink: what training says of itself, at the price of one line in a file.

Nothing here touches the network or imports mlflow: `Sink` writes to the run folder, and a process
beside it (`mlmdist.tracking.shipper`) carries that to MLflow whenever MLflow is there.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, SupportsFloat

from mlmdist.config.job import Tracking
from mlmdist.tracking.journal import METRICS, OUTBOX, STEP, TIME, Journal, Status, cut, to_json
from mlmdist.tracking.process import ShipperProcess

log = logging.getLogger(__name__)

METRIC_NAME = re.compile(r"\w[\w.\- ]*(/\w[\w.\- ]*)*", re.ASCII)


class Sink:
    """Where numbers, files and the end of a run go.

    Owned by rank 0; on other ranks `open` returns one whose methods do nothing.
    """

    def __init__(self, run: Path, shipper: ShipperProcess | None, timeout_seconds: float) -> None:
        self._run, self._shipper, self._timeout_seconds = run, shipper, timeout_seconds
        self._metrics, self._outbox = Journal(run / METRICS), Journal(run / OUTBOX)

    @classmethod
    def open(
        cls,
        run: Path,
        tracking: Tracking,
        *,
        parameters: Mapping[str, Any],
        tags: Mapping[str, str],
        resume_step: int,
        enabled: bool,
        levels: Mapping[str, SupportsFloat] | None = None,
    ) -> "Sink":
        """The sink of a run that starts after `resume_step` steps (-1: with an empty history).

        Lines of later steps, of a process that went further than its last checkpoint, are cut away.
        MLflow keeps the points it has of those steps: a point that is there is not sent again.
        `parameters` may be nested. `levels` are losses to compare with, in nats by name ("ln V");
        the picture shows them as lines. `enabled` is false on every rank but one.
        """
        if not enabled:
            return NoSink()
        run.mkdir(parents=True, exist_ok=True)
        cut(run / METRICS, resume_step)
        opening = _opening(run, tracking, dict(flatten(parameters)), dict(tags), levels or {})
        _write_opening(run, opening)
        shipper = ShipperProcess(run, tracking.timeout_seconds) if tracking.enabled else None
        return cls(run, shipper, tracking.timeout_seconds)

    def log(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Add a line to metrics.jsonl; takes well under a millisecond and never raises for I/O.

        Each metric is to be logged once a step, in rising order of steps.
        """
        values = {name: to_json(float(value)) for name, value in metrics.items()}
        for name in values:
            assert METRIC_NAME.fullmatch(name), f"{name!r} is no name for a metric"
            assert name not in (STEP, TIME), f"{name!r} names the line's own field"
        self._metrics.append({STEP: step, TIME: time.time(), **values})
        if self._shipper:
            self._shipper.keep_alive()

    def artifact(self, path: Path, folder: str = "") -> None:
        """Ask for a file or folder to be stored beside the run, under `folder`.

        It is read some time later, from `path`, and again if it is asked for again after a change.
        """
        self._outbox.append(_artifact(self._run, path, folder))

    def sync(self) -> None:
        """Wait until every line is on disk; for before a checkpoint that a resume may go from."""
        self._metrics.sync()

    def close(self, status: Status, timeout_seconds: float | None = None) -> None:
        """End the run in MLflow too, if that works within the time (default: the config's).

        What does not get through in time is sent by the next start, or by `mlmdist track RUN`.
        """
        self._outbox.append({"event": "end", "status": status, TIME: time.time()})
        self._metrics.close()
        self._outbox.close()
        limit = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        if self._shipper and not self._shipper.close(limit):
            text = "MLflow has not got everything after %g s; the rest: mlmdist track %s"
            log.warning(text, limit, self._run)


class NoSink(Sink):
    """A sink that does nothing, for the ranks that have nothing to say."""

    def __init__(self) -> None:
        pass

    def log(self, step: int, metrics: Mapping[str, SupportsFloat]) -> None:
        """Nothing."""

    def artifact(self, path: Path, folder: str = "") -> None:
        """Nothing."""

    def sync(self) -> None:
        """Nothing."""

    def close(self, status: Status, timeout_seconds: float | None = None) -> None:
        """Nothing."""


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of nested mappings as `a.b` and their text."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)


def add_artifact(run: Path, path: Path, folder: str = "") -> None:
    """Ask for a file or folder to be stored beside a run whose training is over."""
    outbox = Journal(run / OUTBOX)
    outbox.append(_artifact(run, path, folder))
    outbox.close()


def _artifact(run: Path, path: Path, folder: str) -> dict[str, Any]:
    """The outbox's line for an artifact; a path inside the run folder moves with it."""
    inside = path.resolve().is_relative_to(run.resolve())
    place = path.resolve().relative_to(run.resolve()) if inside else path.resolve()
    return {"event": "artifact", "path": str(place), "folder": folder}


def _opening(
    run: Path,
    tracking: Tracking,
    parameters: dict[str, str],
    tags: dict[str, str],
    levels: Mapping[str, SupportsFloat],
) -> dict[str, Any]:
    """The outbox's line for a start: all a shipper needs to know, on whatever day it comes."""
    return {
        "event": "open",
        TIME: time.time(),
        "uri": _absolute(tracking.uri) if tracking.uri else None,
        "default_uri": _absolute("sqlite:///mlruns.db"),
        "experiment": tracking.experiment,
        "name": tracking.name or run.resolve().name,
        "parameters": parameters,
        "tags": tags,
        "levels": {name: float(loss) for name, loss in levels.items()},
    }


def _write_opening(run: Path, opening: dict[str, Any]) -> None:
    outbox = Journal(run / OUTBOX)
    outbox.append(opening)
    outbox.close()


def _absolute(uri: str) -> str:
    """`uri`, with the path of an SQLite file made independent of the working folder."""
    scheme, path = "sqlite:///", uri.removeprefix("sqlite:///")
    return f"{scheme}{Path(path).absolute()}" if uri.startswith(scheme) else uri
