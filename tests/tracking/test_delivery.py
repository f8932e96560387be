"""Deliveries in this process, to a real MLflow store on SQLite, ended wherever they can be."""

import itertools
import logging
import math
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

from mlmdist.config.job import Tracking
from mlmdist.errors import DataError
from mlmdist.tracking import delivery as delivery_module
from mlmdist.tracking import state
from mlmdist.tracking.delivery import Delivery
from mlmdist.tracking.metrics import Sink
from mlmdist.tracking.mlflow_client import MlflowRun, Trouble, without_secrets
from tests.tracking.recorded import (
    LOSS,
    MLFLOW_WARNINGS,
    expected,
    log_steps,
    points,
    runs,
    the_run,
)

pytestmark = MLFLOW_WARNINGS


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def start(run: Path, uri: str, resume_step: int = 0, **parameters: object) -> Sink:
    """Training's side, without a shipper: the test delivers."""
    tracking = Tracking(enabled=False, uri=uri)
    return Sink.open(
        run,
        tracking,
        parameters=parameters,
        tags={"fingerprint": "f00d"},
        resume_step=resume_step,
        enabled=True,
    )


def deliver(run: Path, *, killed: bool = False) -> str:
    delivery = Delivery(run)
    delivery.finish(killed=killed)
    assert delivery.run_id
    return delivery.run_id


def own(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("mlmdist")]


class Killed(BaseException):
    """A process that ends here and now."""


def deliver_until_killed(run: Path, monkeypatch: pytest.MonkeyPatch, moment: int) -> bool:
    """Deliver, and end just before the `moment`-th write of the state or call into MLflow, or,
    for odd moments, just after; whether there was such a moment."""
    count = itertools.count()

    def killing(work):
        def wrapped(*args, **kwargs):
            number = next(count)
            if number == moment // 2 and moment % 2 == 0:
                raise Killed
            value = work(*args, **kwargs)
            if number == moment // 2:
                raise Killed
            return value

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(delivery_module.state, "save", killing(state.save))
        for name in ("log_points", "log_parameters", "log_tags", "upload", "set_ended"):
            patch.setattr(MlflowRun, name, killing(getattr(MlflowRun, name)))
        create = delivery_module.MlflowRun.open
        patch.setattr(MlflowRun, "open", killing(create))
        try:
            Delivery(run).finish(killed=False)
        except Killed:
            return True
    return False


@pytest.mark.slow
def test_no_point_twice_and_none_lost_wherever_the_shipper_is_killed(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delivery_module, "POINTS_PER_BATCH", 16)
    moment, ids, was_killed = 0, [], True
    while was_killed:
        run = tmp_path / f"run{moment}"
        log_steps(start(run, uri), 1, 20)
        was_killed = deliver_until_killed(run, monkeypatch, moment)
        log_steps(start(run, uri, resume_step=7), 8, 25)  # other times: other points to MLflow
        ids.append(deliver(run))
        assert points(uri, ids[-1]) == expected(25), moment
        assert len(points(uri, ids[-1], "train/gradient_norm")) == 25
        moment += 1
    assert moment > 15
    assert sorted(found.info.run_id for found in runs(uri)) == sorted(ids)


def test_what_was_sent_is_not_sent_again(run: Path, uri: str, monkeypatch: pytest.MonkeyPatch):
    sink = start(run, uri)
    log_steps(sink, 1, 30)
    (run / "config.yaml").write_text("a: 1")
    sink.artifact(run / "config.yaml")
    deliver(run)
    for name in ("log_points", "log_parameters", "upload"):
        monkeypatch.setattr(MlflowRun, name, lambda *_: pytest.fail("sent again"))
    deliver(run)


def test_one_mlflow_run_through_all_restarts(run: Path, uri: str):
    ids = set()
    for first in (1, 11, 21, 31):
        sink = start(run, uri, resume_step=first - 1)
        log_steps(sink, first, first + 9)
        ids.add(deliver(run))
        assert the_run(uri).info.status == "RUNNING"
    start(run, uri, resume_step=40).close("FINISHED")
    ids.add(deliver(run))
    assert len(ids) == 1
    assert the_run(uri).info.status == "FINISHED"
    assert points(uri, ids.pop()) == expected(40)


def test_a_changed_parameter_becomes_a_tag(run: Path, uri: str):
    start(run, uri, width=8, seed=1, text="x" * 10_000)
    deliver(run)
    start(run, uri, width=16, seed=1, text="x" * 10_000, layers=2)
    deliver(run)
    data = the_run(uri).data
    assert data.params | {"text": ""} == {"width": "8", "seed": "1", "layers": "2", "text": ""}
    changed = {name: value for name, value in data.tags.items() if name.startswith("changed.")}
    assert changed == {"changed.width": "16"}
    assert data.tags["fingerprint"] == "f00d"


def test_values_that_are_no_numbers_are_shown_as_nan(run: Path, uri: str):
    sink = start(run, uri)
    for step, value in enumerate([1.0, math.nan, math.inf, -math.inf, 2.0]):
        sink.log(step, {LOSS: value})
    run_id = deliver(run)
    values = [point[1] for point in points(uri, run_id)]
    assert (values[0], values[4]) == (1.0, 2.0)
    assert all(math.isnan(value) for value in values[1:4])
    deliver(run)
    assert len(points(uri, run_id)) == 5


def test_step_zero_is_a_step(run: Path, uri: str):
    start(run, uri).log(0, {LOSS: 9.0})
    assert points(uri, deliver(run)) == [(0, 9.0)]


@pytest.mark.parametrize("how", ["deleted", "unknown"])
def test_a_run_that_mlflow_lost_begins_anew_with_all_its_points(
    run: Path, uri: str, how: str, empty_store: Path, caplog: pytest.LogCaptureFixture
):
    sink = start(run, uri, width=8)
    (run / "config.yaml").write_text("a: 1")
    sink.artifact(run / "config.yaml")
    log_steps(sink, 1, 10)
    old = deliver(run)
    if how == "deleted":
        MlflowClient(uri).delete_run(old)
    else:
        uri = f"sqlite:///{shutil.copy(empty_store, run / 'another.db')}"
    start(run, uri, resume_step=10, width=8)
    caplog.clear()
    new = deliver(run)
    assert new != old
    assert [record.levelno for record in own(caplog)] == [logging.WARNING]
    assert old in caplog.text
    assert points(uri, new) == expected(10)
    assert the_run(uri).data.params == {"width": "8"}
    assert [file.path for file in MlflowClient(uri).list_artifacts(new)] == ["config.yaml"]


def test_a_run_deleted_while_it_goes_on_begins_anew(run: Path, uri: str):
    sink = start(run, uri)
    log_steps(sink, 1, 10)
    delivery = Delivery(run)
    delivery.deliver()
    assert delivery.run_id
    MlflowClient(uri).delete_run(delivery.run_id)
    log_steps(sink, 11, 20)
    with pytest.raises(Trouble, match="deleted"):
        delivery.deliver()
    assert points(uri, deliver(run)) == expected(20)


def test_a_copied_run_folder_gets_an_mlflow_run_of_its_own(
    run: Path, uri: str, caplog: pytest.LogCaptureFixture
):
    log_steps(start(run, uri), 1, 10)
    original = deliver(run)
    copy = Path(shutil.copytree(run, run.with_name("copy")))
    log_steps(start(copy, uri, resume_step=5), 6, 12)
    caplog.clear()
    copied = deliver(copy)
    assert copied != original
    assert [record.levelno for record in own(caplog)] == [logging.WARNING]
    assert points(uri, original) == expected(10)
    assert points(uri, copied) == expected(12)
    assert deliver(copy) == copied
    assert deliver(run) == original


def test_a_moved_run_folder_keeps_its_mlflow_run(run: Path, uri: str):
    log_steps(start(run, uri), 1, 10)
    before = deliver(run)
    moved = run.rename(run.with_name("moved"))
    log_steps(start(moved, uri, resume_step=10), 11, 12)
    assert deliver(moved) == before
    assert points(uri, before) == expected(12)


def test_a_broken_state_file_begins_anew_with_one_warning(
    run: Path, uri: str, caplog: pytest.LogCaptureFixture
):
    log_steps(start(run, uri), 1, 10)
    old = deliver(run)
    (run / state.STATE).write_text('{"key": "half a fi')
    caplog.clear()
    new = deliver(run)
    assert new != old
    assert [record.levelno for record in own(caplog)] == [logging.WARNING]
    assert points(uri, new) == expected(10)


def test_files_and_folders_stand_in_their_place_and_changes_follow(run: Path, uri: str):
    sink = start(run, uri)
    model = run / "export" / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (run / "config.yaml").write_text("a: 1")
    sink.artifact(model, "exported")
    sink.artifact(run / "config.yaml")
    sink.artifact(run / "gone")
    run_id = deliver(run)
    (run / "config.yaml").write_text("a: 2")
    sink.artifact(run / "config.yaml")
    deliver(run)
    stored = Path(MlflowClient(uri).download_artifacts(run_id, ""))
    files = {str(p.relative_to(stored)): p.read_text() for p in stored.rglob("*") if p.is_file()}
    assert files == {"config.yaml": "a: 2", "exported/model/config.json": "{}"}


def test_an_artifact_that_cannot_be_stored_keeps_nothing_else_back(
    run: Path, uri: str, monkeypatch: pytest.MonkeyPatch
):
    sink = start(run, uri)
    log_steps(sink, 1, 10)
    (run / "a").write_text("a")
    sink.artifact(run / "a")
    sink.close("FINISHED")

    def refuse(*_: object) -> None:
        raise Trouble("no bucket")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowRun, "upload", refuse)
        with pytest.raises(Trouble, match="no bucket"):
            deliver(run)
    assert the_run(uri).info.status == "FINISHED"
    assert points(uri, the_run(uri).info.run_id) == expected(10)
    run_id = deliver(run)
    assert [file.path for file in MlflowClient(uri).list_artifacts(run_id)] == ["a"]


def test_a_run_without_an_end_is_shown_as_killed_and_a_restart_as_running(run: Path, uri: str):
    log_steps(start(run, uri), 1, 10)
    deliver(run, killed=True)
    assert the_run(uri).info.status == "KILLED"
    start(run, uri, resume_step=10)
    deliver(run)
    assert the_run(uri).info.status == "RUNNING"


def test_a_folder_that_is_no_tracked_run_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"outbox\.jsonl"):
        Delivery(tmp_path)


def test_no_warning_repeats_a_password():
    text = "cannot reach postgresql://me:s3cret@host/db or http://token@host"
    assert without_secrets(text) == "cannot reach postgresql://***@host/db or http://***@host"
