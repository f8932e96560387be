"""MLflow's only door: one MLflow run, and what is written to it.

Importing mlflow takes seconds and its calls may hang, so training never comes through here; the
shipper does. mlflow is imported when a run is opened.
"""

import logging
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mlmdist.tracking.journal import Status
from mlmdist.tracking.state import Point

if TYPE_CHECKING:
    from mlflow import MlflowClient
else:
    MlflowClient = object  # imported when a run is opened

log = logging.getLogger(__name__)

KEY_TAG = "mlmdist.run_key"
CHANGED_TAG = "changed."

SQLITE = "sqlite:///"
ANSWER_SECONDS = 5
UPLOAD_SECONDS = 120  # a server that hands a large file on to an object store answers late
SETTLE_SECONDS = 1.0
MAX_PER_BATCH = 100  # parameters or tags a call, MLflow's limit
MAX_PARAMETER_CHARACTERS = 6000
MAX_TAG_CHARACTERS = 8000

Item = TypeVar("Item")


class Trouble(Exception):
    """MLflow did not do what it was asked: one line that says why. It may be asked again."""


class RunGone(Trouble):
    """The server answers, but the MLflow run is deleted or was never there."""


@dataclass(frozen=True)
class Target:
    """Where the MLflow run stands, or shall stand."""

    uri: str
    experiment: str
    name: str


class MlflowRun:
    """One MLflow run. Every method raises `Trouble` if MLflow does not do it."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        self._client, self.run_id = client, run_id

    @classmethod
    def open(cls, target: Target, key: str, run_id: str | None) -> "MlflowRun":
        """The MLflow run `run_id`, or without one the run that carries `key`, made if need be.

        Raises RunGone if `run_id` is deleted or unknown to the server.
        """
        client = _connect(target.uri)
        with _told_as_trouble():
            if run_id is None:
                return cls(client, _find(client, target, key) or _create(client, target, key))
            _check_alive(client, run_id)
            return cls(client, run_id)

    def log_points(self, points: Sequence[Point]) -> None:
        """Write points, all or none of them; a point that is there already stays one point.

        MLflow would show an infinite value as 1.8e308 and spoil the chart, so it gets NaN for it.
        """
        from mlflow.entities import Metric

        metrics = [
            Metric(point.name, _finite_or_nan(point.value), point.time_ms, point.step)
            for point in points
        ]
        with _told_as_trouble():
            self._client.log_batch(self.run_id, metrics=metrics)

    def log_parameters(self, parameters: Mapping[str, str]) -> None:
        """Write parameters. MLflow keeps the first value: a new one becomes tag `changed.NAME`."""
        from mlflow.entities import Param

        texts = {_name(k): _shorten(v, MAX_PARAMETER_CHARACTERS) for k, v in parameters.items()}
        with _told_as_trouble():
            there = self._client.get_run(self.run_id).data.params
            added = [Param(name, text) for name, text in texts.items() if name not in there]
            for chunk in chunks(added, MAX_PER_BATCH):
                self._client.log_batch(self.run_id, params=chunk)
        changed = {n: text for n, text in texts.items() if n in there and there[n] != text}
        self.log_tags({CHANGED_TAG + name: text for name, text in changed.items()})

    def log_tags(self, tags: Mapping[str, str]) -> None:
        """Write tags; a tag that is there gets the new value."""
        from mlflow.entities import RunTag

        entries = [RunTag(_name(k), _shorten(v, MAX_TAG_CHARACTERS)) for k, v in tags.items()]
        with _told_as_trouble():
            for chunk in chunks(entries, MAX_PER_BATCH):
                self._client.log_batch(self.run_id, tags=chunk)

    def upload(self, path: Path, folder: str) -> None:
        """Store a file, or a folder with all in it, under its own name in the artifact `folder`."""
        with _told_as_trouble(), _patience(UPLOAD_SECONDS):
            if path.is_dir():
                inner = f"{folder}/{path.name}" if folder else path.name
                self._client.log_artifacts(self.run_id, str(path), inner)
            else:
                self._client.log_artifact(self.run_id, str(path), folder or None)

    def set_running(self) -> None:
        """Show the run as running."""
        with _told_as_trouble():
            self._client.update_run(self.run_id, status="RUNNING")

    def set_ended(self, status: Status, time_seconds: float) -> None:
        """Show the run as ended at that Unix time."""
        with _told_as_trouble():
            self._client.set_terminated(self.run_id, status, int(time_seconds * 1000))


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """`items` in runs of at most `size`."""
    return (items[start : start + size] for start in range(0, len(items), size))


def without_secrets(text: str) -> str:
    """`text` with what stands before the @ of an address taken out."""
    return re.sub(r"//[^/@\s]+@", "//***@", text)


def _connect(uri: str) -> MlflowClient:
    """A client that notices a dead server within seconds and keeps its chatter to itself.

    No retries inside: a request sent twice is only safe where `State.pending` watches over it.
    """
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(ANSWER_SECONDS))
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    with _told_as_trouble():
        from mlflow import MlflowClient

        for chatty in ("mlflow", "alembic", "urllib3"):  # mlflow's import sets its level
            logging.getLogger(chatty).setLevel(logging.CRITICAL)
        if uri.startswith(SQLITE):
            _make_store(Path(uri.removeprefix(SQLITE)))
        return MlflowClient(tracking_uri=uri)


def _make_store(path: Path) -> None:
    """Make an SQLite store if there is none: whole, or not at all.

    MLflow makes some fifty tables over seconds; killed meanwhile, it leaves a file that neither it
    nor we could ever open again.
    """
    if path.exists():
        return
    from mlflow import MlflowClient

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.", dir=path.parent) as folder:
        unfinished = Path(folder) / path.name
        MlflowClient(tracking_uri=f"{SQLITE}{unfinished}").search_experiments()
        with suppress(FileExistsError):  # another run was quicker
            path.hardlink_to(unfinished)


def _find(client: MlflowClient, target: Target, key: str) -> str | None:
    """The run that an earlier, unanswered attempt may have created."""
    experiment = client.get_experiment_by_name(target.experiment)
    if experiment is None:
        return None
    found = client.search_runs(
        [experiment.experiment_id], f"tags.`{KEY_TAG}` = '{key}'", order_by=["start_time ASC"]
    )
    return found[0].info.run_id if found else None


def _create(client: MlflowClient, target: Target, key: str) -> str:
    experiment = client.get_experiment_by_name(target.experiment)
    if experiment is None:
        experiment_id = client.create_experiment(target.experiment)
    elif experiment.lifecycle_stage != "active":
        raise Trouble(f"experiment {target.experiment!r} is deleted; restore it or name another")
    else:
        experiment_id = experiment.experiment_id
    tags = {KEY_TAG: key, "mlflow.source.name": "launch/pretrain.py"}
    try:
        return client.create_run(experiment_id, tags=tags, run_name=target.name).info.run_id
    except Exception:
        time.sleep(SETTLE_SECONDS)  # the request may still be served: the next search shall see it
        raise


def _check_alive(client: MlflowClient, run_id: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST" and "API request" not in error.message:
            raise RunGone("is not on the server") from None  # not: some proxy's bare 404
        raise
    if found.info.lifecycle_stage != "active":
        raise RunGone("was deleted")


@contextmanager
def _told_as_trouble() -> Iterator[None]:
    """Whatever goes wrong inside (HTTP, database, disk, object store) becomes one line."""
    try:
        yield
    except Trouble:
        raise
    except Exception as error:
        raise Trouble(_reason(error)) from error


def _reason(error: Exception) -> str:
    """One line for a person, without what a person cannot use and without secrets."""
    text = " ".join(str(error).split())
    if "refused" in text:
        return "connection refused"
    if "timed out" in text or "timeout" in text.lower():
        return "no answer in time"
    if "Failed to resolve" in text or "Name or service not known" in text:
        return "host name not known"
    return without_secrets(f"{type(error).__name__}: {text:.200}")


@contextmanager
def _patience(seconds: int) -> Iterator[None]:
    """Let MLflow's requests take longer; it reads its environment at each."""
    name = "MLFLOW_HTTP_REQUEST_TIMEOUT"
    before = os.environ[name]
    os.environ[name] = str(max(seconds, int(before)))
    try:
        yield
    finally:
        os.environ[name] = before


def _finite_or_nan(value: float) -> float:
    return value if value - value == 0 else float("nan")


def _name(text: str) -> str:
    """`text` with the characters that MLflow allows in a name."""
    return re.sub(r"[^\w\-. :/]", "_", text, flags=re.ASCII)[:250]


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
