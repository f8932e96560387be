import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mlmdist.config.job import Tracking
from mlmdist.tracking.metrics import NoSink, Sink, flatten


def open_offline(run: Path, resume_step: int = 0) -> Sink:
    tracking = Tracking(enabled=False)
    return Sink.open(run, tracking, parameters={}, tags={}, resume_step=resume_step, enabled=True)


def lines(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_step_is_one_line_there_at_once(tmp_path: Path):
    sink = open_offline(tmp_path / "run")
    sink.log(10, {"train/mlm_loss": np.float32(2.5), "tokens": 7})
    sink.log(10, {"held_out/mlm_loss": math.nan, "a": math.inf, "b": -math.inf})
    first, second = lines(tmp_path / "run")  # before it is closed
    assert abs(float(str(first.pop("time"))) - time.time()) < 60
    assert first == {"step": 10, "train/mlm_loss": 2.5, "tokens": 7.0}
    assert second | {"time": 0} == {
        "step": 10,
        "time": 0,
        "held_out/mlm_loss": "nan",
        "a": "inf",
        "b": "-inf",
    }
    sink.close("FINISHED")


def test_a_resume_cuts_what_came_after_its_step(tmp_path: Path):
    sink = open_offline(tmp_path)
    for step in range(1, 21):
        sink.log(step, {"loss": step})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 21, "lo')  # killed while writing
    sink = open_offline(tmp_path, resume_step=12)
    sink.log(13, {"loss": -13})
    assert [(line["step"], line["loss"]) for line in lines(tmp_path)] == [
        *((step, step) for step in range(1, 13)),
        (13, -13),
    ]


def test_other_ranks_write_nothing(tmp_path: Path):
    sink = Sink.open(
        tmp_path / "run", Tracking(), parameters={}, tags={}, resume_step=0, enabled=False
    )
    assert isinstance(sink, NoSink)
    sink.log(1, {"loss": 1.0})
    sink.artifact(tmp_path)
    sink.sync()
    sink.close("FINISHED")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a b@c", "/a", "a//b", "../a", "step", "time", "a/"])
def test_a_name_that_mlflow_would_refuse_is_refused_at_once(tmp_path: Path, name: str):
    sink = open_offline(tmp_path)
    with pytest.raises(AssertionError, match="name"):
        sink.log(1, {name: 1.0})


def test_parameters_are_flattened():
    nested = {"model": {"width": 8, "dropout": 0.1}, "betas": [0.9, 0.99], "run": None}
    assert dict(flatten(nested)) == {
        "model.width": "8",
        "model.dropout": "0.1",
        "betas": "[0.9, 0.99]",
        "run": "None",
    }


def test_the_sink_imports_nothing_heavy():
    heavy = ["mlflow", "matplotlib", "torch", "sqlalchemy", "requests", "numpy"]
    code = f"import sys, mlmdist.tracking.metrics; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
