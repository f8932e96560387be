"""A real `mlflow server` that dies, hangs and comes back while a run goes on."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_no_point_twice_where_a_server_answers_too_late(
    tmp_path: Path, server: MlflowServer, uri: str
):
    """Its database is busy: it serves requests that we gave up, after we have sent them again."""
    run = tmp_path / "slow"
    sink = open_sink(run, server.uri)
    log_steps(sink, 1, 100)
    wait_until(lambda: num_points(uri, "slow") == 100)
    with closing(sqlite3.connect(f"{server.folder}/mlflow.db")) as database:
        database.execute("BEGIN IMMEDIATE")  # others may read, and have to wait to write
        log_steps(sink, 101, 200)
        time.sleep(4)
    log_steps(sink, 201, 300)
    sink.close("FINISHED")
    time.sleep(2)  # for what the server may still be doing
    found = run_named(uri, "slow")
    assert points(uri, found.info.run_id) == expected(300)
    assert len(points(uri, found.info.run_id, "train/gradient_norm")) == 300
