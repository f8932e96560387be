"""A real `mlflow server` that dies, hangs and comes back while a run goes on."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from mlmdist.tracking.metrics import Sink
from tests.tracking.mlflow_server import MlflowServer
from tests.tracking.recorded import (
    MLFLOW_WARNINGS,
    expected,
    log_steps,
    open_sink,
    points,
    runs,
    wait_until,
)

pytestmark = [MLFLOW_WARNINGS, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    server = MlflowServer(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def uri(server: MlflowServer) -> str:
    """The server's store, read past the server: it may be away."""
    return f"sqlite:///{server.folder}/mlflow.db"


@pytest.fixture(autouse=True)
def quick_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")


def timed_steps(sink: Sink, first: int, last: int) -> float:
    """Log steps at a hundred a second; the 99th percentile of a call's seconds."""
    seconds = []
    for step in range(first, last + 1):
        before = time.perf_counter()
        log_steps(sink, step, step)
        seconds.append(time.perf_counter() - before)
        time.sleep(0.01)
    return sorted(seconds)[len(seconds) * 99 // 100]


def run_named(uri: str, name: str) -> Run:
    """The one MLflow run of that name."""
    (found,) = [run for run in runs(uri) if run.info.run_name == name]
    return found


def num_points(uri: str, name: str) -> int:
    return sum(len(points(uri, r.info.run_id)) for r in runs(uri) if r.info.run_name == name)


def test_a_run_goes_through_the_death_and_return_of_the_server(
    tmp_path: Path, server: MlflowServer, uri: str, capfd: pytest.CaptureFixture[str]
):
    run = tmp_path / "killed"
    (run / "export").mkdir(parents=True)
    (run / "export" / "model.safetensors").write_bytes(b"\0" * 3_000_000)
    sink = open_sink(run, server.uri)
    log_steps(sink, 1, 100)
    wait_until(lambda: num_points(uri, "killed") == 100)
    server.kill()
    assert timed_steps(sink, 101, 400) < 0.005
    sink.artifact(run / "export")
    server.start()
    log_steps(sink, 401, 450)
    wait_until(lambda: num_points(uri, "killed") == 450)
    sink.close("FINISHED")
    found = run_named(uri, "killed")
    assert found.info.status == "FINISHED"
    assert points(uri, found.info.run_id) == expected(450)
    client = MlflowClient(server.uri)
    assert {file.path for file in client.list_artifacts(found.info.run_id)} == {
        "export",
        "loss.png",
    }
    (file,) = client.list_artifacts(found.info.run_id, "export")
    assert (file.path, file.file_size) == ("export/model.safetensors", 3_000_000)
    away, back = capfd.readouterr().err.splitlines()
    assert "connection refused" in away
    assert "answers again" in back


def test_a_hanging_server_stops_neither_training_nor_its_end(
    tmp_path: Path, server: MlflowServer, uri: str
):
    run = tmp_path / "frozen"
    sink = open_sink(run, server.uri)
    log_steps(sink, 1, 100)
    wait_until(lambda: num_points(uri, "frozen") == 100)
    server.freeze()
    try:
        assert timed_steps(sink, 101, 500) < 0.005
        started = time.monotonic()
        sink.close("KILLED", timeout_seconds=2.0)
        assert time.monotonic() - started < 3.0
    finally:
        server.thaw()  # the requests that were given up are still in its queue, and are served
    sink = open_sink(run, server.uri, resume_step=300)  # the checkpoint that training goes on from
    log_steps(sink, 301, 600)
    sink.close("FINISHED")
    found = run_named(uri, "frozen")
    assert found.info.status == "FINISHED"
    assert points(uri, found.info.run_id) == expected(600)
    assert len(points(uri, found.info.run_id, "train/gradient_norm")) == 600


def test_a_server_that_hangs_when_the_run_is_made_makes_one(
    tmp_path: Path, server: MlflowServer, uri: str
):
    run = tmp_path / "early"
    server.freeze()
    try:
        sink = open_sink(run, server.uri)
        log_steps(sink, 1, 50)
        time.sleep(6)
    finally:
        server.thaw()
    sink.close("FINISHED")
    assert points(uri, run_named(uri, "early").info.run_id) == expected(50)


@pytest.mark.parametrize("moment", range(4))
def test_no_point_twice_wherever_a_server_hangs(
    tmp_path: Path, server: MlflowServer, uri: str, moment: int
):
    """What a thawed server still serves of requests given up races with what is sent again."""
    run = tmp_path / f"race{moment}"
    sink = open_sink(run, server.uri)
    timed_steps(sink, 1, 150 + 25 * moment)
    server.freeze()
    timed_steps(sink, 151 + 25 * moment, 400)
    time.sleep(1)
    server.thaw()
    log_steps(sink, 401, 500)
    sink.close("FINISHED")
    found = run_named(uri, run.name)
    assert points(uri, found.info.run_id) == expected(500)
    assert len(points(uri, found.info.run_id, "train/gradient_norm")) == 500
