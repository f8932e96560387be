"""What a run is in MLflow, read back through MLflow's own client; and runs to record."""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run, ViewType

from mlmdist.config.job import Tracking
from mlmdist.tracking.metrics import Sink

LOSS = "train/mlm_loss"
EXPERIMENT = "mlmdist"
MLFLOW_WARNINGS = pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning")
"""For tests that open an MLflow store in their own process: what SQLAlchemy says of MLflow."""


def open_sink(run: Path, uri: str, *, resume_step: int = 0, **changes: object) -> Sink:
    """A sink as training opens it."""
    values: dict[str, object] = {"parameters": {"model": {"width": 8}}, "tags": {}} | changes
    timeout = float(str(values.pop("timeout_seconds", 30.0)))
    tracking = Tracking(uri=uri, timeout_seconds=timeout)
    return Sink.open(run, tracking, resume_step=resume_step, enabled=True, **values)  # type: ignore


def loss(step: int) -> float:
    """The loss that every run in these tests has at a step."""
    return 9.0 * math.exp(-step / 50)


def log_steps(sink: Sink, first: int, last: int) -> None:
    """Log every step from `first` to `last`, both included."""
    for step in range(first, last + 1):
        sink.log(step, {LOSS: loss(step), "train/gradient_norm": 1.0 / step})


def runs(uri: str) -> list[Run]:
    """All MLflow runs that are not deleted, oldest first."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        return []
    ids = [experiment.experiment_id]
    return list(
        client.search_runs(ids, run_view_type=ViewType.ACTIVE_ONLY, order_by=["start_time ASC"])
    )


def the_run(uri: str) -> Run:
    """The one MLflow run there is."""
    (only,) = runs(uri)
    return only


def points(uri: str, run_id: str, metric: str = LOSS) -> list[tuple[int, float]]:
    """Every point of a metric, as (step, value), sorted."""
    history = MlflowClient(uri).get_metric_history(run_id, metric)
    return sorted((point.step, point.value) for point in history)


def expected(last: int) -> list[tuple[int, float]]:
    """The points of a run of `last` steps, each once."""
    return [(step, loss(step)) for step in range(1, last + 1)]


def wait_until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something that another process brings about; fails if it does not."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)
