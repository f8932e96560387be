"""Real shipper processes, beside real training processes, to a real MLflow store on SQLite."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlmdist.errors import ConfigError, DataError
from mlmdist.tracking.metrics import Sink
from mlmdist.tracking.shipper import ship
from tests.tracking.recorded import (
    LOSS,
    MLFLOW_WARNINGS,
    expected,
    log_steps,
    open_sink,
    points,
    runs,
    the_run,
    wait_until,
)

pytestmark = MLFLOW_WARNINGS


@pytest.fixture
def silent_server() -> Iterator[str]:
    """The address of a server that hangs: it takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def dead_server() -> str:
    """The address of a server that is not there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def leave(sink: Sink) -> None:
    """What a shipper sees of a training process that dies."""
    assert sink._shipper
    assert sink._shipper._process
    assert sink._shipper._process.stdin
    sink._shipper._process.stdin.close()


@pytest.mark.slow
def test_a_run_arrives_with_all_that_belongs_to_it(tmp_path: Path, uri: str):
    run = tmp_path / "run"
    (run / "tokenizer").mkdir(parents=True)
    (run / "tokenizer" / "meta.json").write_text("{}")
    sink = open_sink(run, uri, tags={"data_fingerprint": "f00d"}, levels={"ln V": 9.0})
    sink.artifact(run / "tokenizer")
    log_steps(sink, 1, 300)
    sink.close("FINISHED")
    found = the_run(uri)
    assert (found.info.status, found.info.run_name) == ("FINISHED", "run")
    assert found.data.params == {"model.width": "8"}
    assert found.data.tags["data_fingerprint"] == "f00d"
    assert points(uri, found.info.run_id) == expected(300)
    assert (run / "loss.png").read_bytes().startswith(b"\x89PNG")


def kill_training(run: Path, uri: str, timeout_seconds: float) -> bytes:
    """Train 50 steps and die; what was on standard error when the shipper, too, had ended."""
    command = [sys.executable, "-m", "tests.tracking.training", str(run), uri, "50"]
    with subprocess.Popen(
        [*command, str(timeout_seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as training:
        assert training.stdout
        assert training.stderr
        assert training.stdout.readline() == b"logged\n"  # and nothing heavy was imported
        (shipper,) = children(training.pid)
        training.kill()
        training.wait()
        wait_until(lambda: not is_alive(shipper), timeout_seconds + 1.5)
        return training.stderr.read()


def test_a_killed_training_leaves_a_shipper_that_sends_the_rest_and_ends(tmp_path: Path, uri: str):
    assert kill_training(tmp_path / "run", uri, 20) == b""
    found = the_run(uri)
    assert found.info.status == "KILLED"
    assert len(points(uri, found.info.run_id)) == 50


def test_a_killed_training_leaves_no_process_for_long(tmp_path: Path, silent_server: str):
    assert kill_training(tmp_path / "run", silent_server, 1) == b""


@pytest.mark.slow
def test_a_killed_shipper_loses_nothing(tmp_path: Path, uri: str):
    run = tmp_path / "run"
    for kill_after in (0.0, 0.7, 1.4):
        sink = open_sink(run, uri)
        (shipper,) = children(os.getpid())
        log_steps(sink, 1, 200)
        time.sleep(kill_after)
        os.kill(shipper, signal.SIGKILL)
        wait_until(lambda pid=shipper: not is_alive(pid))
        log_steps(sink, 201, 300)
        sink.close("FINISHED", timeout_seconds=0.2)
    open_sink(run, uri, resume_step=300).close("FINISHED")
    assert points(uri, the_run(uri).info.run_id) == expected(300)


@pytest.mark.parametrize(
    "server", ["silent_server", pytest.param("dead_server", marks=pytest.mark.long)]
)
@pytest.mark.slow
def test_a_server_that_is_away_costs_training_no_time_and_one_line(
    tmp_path: Path,
    uri: str,
    server: str,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "s3cret")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    run, step, said = tmp_path / "run", 0, ""
    seconds: list[float] = []
    sink = open_sink(run, request.getfixturevalue(server))
    end = time.monotonic() + 30
    while time.monotonic() < end:
        step += 1
        before = time.perf_counter()
        log_steps(sink, step, step)
        seconds.append(time.perf_counter() - before)
        time.sleep(0.01)
        if not said and (said := capfd.readouterr().err):
            end = time.monotonic() + 2.5  # time for more failures, which must not say it again
    started = time.monotonic()
    sink.close("FINISHED", timeout_seconds=1.0)
    assert time.monotonic() - started < 2.0
    assert sorted(seconds)[int(len(seconds) * 0.99)] < 0.005
    assert [record.message for record in caplog.records] == [
        f"MLflow has not got everything after 1 s; the rest: mlmdist track {run}"
    ]
    (line,) = (said + capfd.readouterr().err).splitlines()  # the shipper's
    reason = "no answer in time" if server == "silent_server" else "connection refused"
    assert reason in line
    assert "s3cret" not in line
    open_sink(run, uri, resume_step=step).close("FINISHED")
    assert points(uri, the_run(uri).info.run_id) == expected(step)


@pytest.mark.slow
def test_a_restart_while_the_last_shipper_still_sends_keeps_one_run(tmp_path: Path, uri: str):
    run = tmp_path / "run"
    for first in (1, 21):
        sink = open_sink(run, uri, resume_step=first - 1)
        log_steps(sink, first, first + 19)
        if first == 1:
            leave(sink)
    sink.close("FINISHED")
    assert points(uri, the_run(uri).info.run_id) == expected(40)


def test_ship_sends_what_a_run_still_owes(tmp_path: Path, uri: str, dead_server: str):
    run = tmp_path / "run"
    sink = open_sink(run, dead_server, timeout_seconds=0.1)
    log_steps(sink, 1, 20)
    sink.close("FINISHED")
    with pytest.raises(ConfigError, match="connection refused"):
        ship(run)
    sink = open_sink(run, uri, resume_step=20, timeout_seconds=0.1)
    sink.close("FINISHED")
    run_id = ship(run)
    assert points(uri, run_id) == expected(20)
    assert ship(run) == run_id
    assert the_run(uri).info.status == "FINISHED"


def test_ship_refuses_what_it_cannot_do(tmp_path: Path, uri: str):
    with pytest.raises(DataError, match="no folder"):
        ship(tmp_path / "nothing")
    run = tmp_path / "run"
    sink = open_sink(run, uri)
    wait_until(lambda: (run / "tracking.json").exists())
    with pytest.raises(ConfigError, match="another process"):
        ship(run)
    sink.close("FINISHED")


@pytest.mark.slow
def test_a_store_that_mlflow_refuses_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    sink = open_sink(tmp_path / "run", "nonsense://somewhere")
    sink.log(1, {LOSS: 1.0})
    said: list[str] = []
    wait_until(lambda: bool(said.append(capfd.readouterr().err) or said[-1]))
    sink.close("FINISHED", timeout_seconds=0.3)
    (line,) = ("".join(said) + capfd.readouterr().err).splitlines()
    assert "nonsense" in line
    assert runs(f"sqlite:///{tmp_path / 'other.db'}") == []
