"""Bringing MLflow level with a run folder: points, parameters, tags, artifacts, status, picture.

A `Delivery` is thrown away after any `Trouble` and the next begins from what is on disk, so there
is one way to start and no half-known state.
"""

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlmdist import files
from mlmdist.errors import DataError
from mlmdist.tracking import curve, state
from mlmdist.tracking.journal import METRICS, OUTBOX, STEP, TIME, Record, Tail
from mlmdist.tracking.mlflow_client import (
    MlflowRun,
    RunGone,
    Target,
    Trouble,
    chunks,
    without_secrets,
)
from mlmdist.tracking.opening import tracking_uri
from mlmdist.tracking.state import Point, State

log = logging.getLogger(__name__)

POINTS_PER_BATCH = 500
PICTURE_SECONDS = 300.0


@dataclass(frozen=True)
class Artifact:
    """A file or folder that stands in the MLflow run under `folder`."""

    path: Path
    folder: str

    @property
    def place(self) -> str:
        """Where it stands in the MLflow run."""
        return f"{self.folder}/{self.path.name}" if self.folder else self.path.name


class Delivery:
    """The way of one run folder to its MLflow run.

    Raises DataError if the folder holds no outbox.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._outbox, self._metrics = Tail(run / OUTBOX), Tail(run / METRICS)
        self._events: list[Record] = []
        self._num_checked = 0  # events whose artifacts are known to be in MLflow
        self._drawn = time.monotonic()
        self._picture_sent = 0  # when the picture that is in MLflow was drawn
        self._mlflow: MlflowRun | None = None
        self._read_events()
        if not any(event["event"] == "open" for event in self._events):
            raise DataError(f"{run} holds no {OUTBOX}; must be the folder of a tracked run")
        self._state = state.load(run)

    @property
    def target(self) -> Target:
        """Where the run is sent: as its last start said, or as the environment says."""
        opening = next(e for e in reversed(self._events) if e["event"] == "open")
        return Target(tracking_uri(opening), opening["experiment"], opening["name"])

    @property
    def address(self) -> str:
        """The server, as it may be shown."""
        return without_secrets(self.target.uri)

    @property
    def run_id(self) -> str | None:
        """The MLflow run, None until there is one."""
        return self._state.run_id

    def deliver(self) -> None:
        """Send all that MLflow lacks. Raises Trouble."""
        mlflow = self._mlflow = self._mlflow or self._open()
        self._send_pending(mlflow)
        self._send_points(mlflow)
        self._send_events(mlflow)
        self._send_artifacts(mlflow)
        self._send_picture(mlflow)

    def finish(self, *, killed: bool) -> None:
        """Send all, and the end that training could not write. Raises Trouble."""
        self.deliver()
        assert self._mlflow
        marks = [event["event"] for event in self._events if event["event"] in ("open", "end")]
        if killed and marks[-1] == "open":
            self._mlflow.set_ended("KILLED", time.time())

    def _open(self) -> MlflowRun:
        try:
            mlflow = self._open_as(self._state)
        except RunGone as gone:
            text = "MLflow run %s %s; a new MLflow run begins with all points"
            log.warning(text, self._state.run_id, gone)
            mlflow = self._open_as(state.fresh(self._run))
        self._save(replace(self._state, run_id=mlflow.run_id))
        return mlflow

    def _open_as(self, known: State) -> MlflowRun:
        """The MLflow run; the key is on disk before a run carries it, so that none is lost."""
        self._save(known)
        return MlflowRun.open(self.target, known.key, known.run_id)

    def _save(self, changed: State) -> None:
        state.save(self._run, changed)
        self._state = changed

    def _send_pending(self, mlflow: MlflowRun) -> None:
        if self._state.pending:
            mlflow.log_points(self._state.pending)
            self._save(replace(self._state, pending=()))

    def _send_points(self, mlflow: MlflowRun) -> None:
        while records := self._metrics.read():
            points = [point for record in records for point in _points(record)]
            for chunk in chunks(points, POINTS_PER_BATCH):
                self._claim(chunk)
                self._send_pending(mlflow)

    def _claim(self, points: Sequence[Point]) -> None:
        """Write down which points are about to be sent, leaving out those that were."""
        sent, new = dict(self._state.sent), []
        for point in points:
            if point.step > sent.get(point.name, -1):
                sent[point.name] = point.step
                new.append(point)
        if new:
            self._save(replace(self._state, sent=sent, pending=tuple(new)))

    def _read_events(self) -> None:
        while records := self._outbox.read():
            self._events += records

    def _send_events(self, mlflow: MlflowRun) -> None:
        self._read_events()
        for event in self._events[self._state.num_events :]:
            if event["event"] == "open":
                mlflow.set_running()
                mlflow.log_parameters(event["parameters"])
                mlflow.log_tags(event["tags"])
            elif event["event"] == "end":
                mlflow.set_ended(event["status"], event[TIME])
            self._save(replace(self._state, num_events=self._state.num_events + 1))

    def _send_artifacts(self, mlflow: MlflowRun) -> None:
        """Upload what is new or has changed; one that fails does not keep back the others."""
        troubles = []
        for artifact in self._asked_artifacts():
            try:
                self._send_artifact(mlflow, artifact)
            except Trouble as trouble:
                troubles.append(trouble)
        if troubles:
            raise troubles[0]
        self._num_checked = len(self._events)

    def _asked_artifacts(self) -> list[Artifact]:
        """What training asked for since the last look, each place once."""
        asked = [
            Artifact(self._run / event["path"], event["folder"])
            for event in self._events[self._num_checked :]
            if event["event"] == "artifact"
        ]
        return list({artifact.place: artifact for artifact in asked}.values())

    def _send_artifact(self, mlflow: MlflowRun, artifact: Artifact) -> None:
        if not artifact.path.exists():
            log.warning("%s is gone before it reached MLflow; left out", artifact.path)
            return
        fingerprint = _fingerprint(artifact.path)
        if fingerprint != self._state.artifacts.get(artifact.place):
            mlflow.upload(artifact.path, artifact.folder)
            known = {**self._state.artifacts, artifact.place: fingerprint}
            self._save(replace(self._state, artifacts=known))

    def _send_picture(self, mlflow: MlflowRun) -> None:
        """Draw it now and then, for a run whose end nobody will draw; send one that is new."""
        if time.monotonic() - self._drawn > PICTURE_SECONDS:
            self._drawn = time.monotonic()
            curve.draw(self._run)
        picture = self._run / curve.PICTURE
        if picture.exists() and picture.stat().st_mtime_ns != self._picture_sent:
            self._send_artifact(mlflow, Artifact(picture, ""))
            self._picture_sent = picture.stat().st_mtime_ns


def _points(record: Record) -> list[Point]:
    """The points of a line of metrics.jsonl, in MLflow's units."""
    time_ms = round(record[TIME] * 1000)
    return [
        Point(name, float(value), time_ms, record[STEP])
        for name, value in record.items()
        if name not in (STEP, TIME)
    ]


def _fingerprint(path: Path) -> str:
    """A hash of a file, or of the names and bytes of all files in a folder. Raises Trouble."""
    total = hashlib.sha256()
    try:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                total.update(f"{file.relative_to(path)} {files.sha256(file)}\n".encode())
    except OSError as error:
        raise Trouble(f"{path}: {error.strerror}") from error
    return total.hexdigest()
