"""Runs that end before their budget, or by the clock."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mlmdist.errors import DONE, NO_PROGRESS
from tests.train.jobs import exit_codes, run
from tests.train.runs import job_of

STILL = {"learning_rate": 1e-12}


def held_out(folder: Path) -> dict[int, float]:
    """The held-out losses by step."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = {line["step"]: line.get("held_out/mlm_loss") for line in lines}
    return {step: loss for step, loss in losses.items() if loss is not None}


@pytest.mark.dist
@pytest.mark.slow
def test_a_run_that_gets_no_better_is_done_and_keeps_its_best(corpus: Path, tmp_path: Path) -> None:
    sections: dict[str, Any] = {
        "train": {"steps": 40},
        "optimizer": STILL,
        "every": {"evaluate": 2, "save": 2, "keep": 1},
        "ending": {"patience": 3, "improvement": 0.001},
    }
    config = job_of(tmp_path / "job", corpus, **sections)
    job = run(2, config)
    assert exit_codes(job) == [DONE, DONE], job.output()
    folder = tmp_path / "job/run"
    assert list(held_out(folder)) == [2, 4, 6, 8]
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert names == ["step-00000002", "step-00000008"]  # the best and the newest
    assert "3 evaluations in a row were not better" in job.log(0)
    again = run(2, config)
    assert exit_codes(again) == [DONE, DONE]
    assert "nothing to do" in again.log(0)
    longer = run(2, config, "ending.patience=4")
    assert exit_codes(longer) == [DONE, DONE], longer.output()
    assert list(held_out(folder)) == [2, 4, 6, 8, 10]


@pytest.mark.dist
@pytest.mark.slow
def test_a_hopeless_run_ends_with_its_reason(corpus: Path, tmp_path: Path) -> None:
    config = job_of(
        tmp_path / "job",
        corpus,
        train={"steps": 20},
        optimizer=STILL,
        every={"log": 1, "save": 100},
        ending={"hopeless_after": 0.25},
    )
    job = run(2, config)
    assert exit_codes(job) == [NO_PROGRESS, NO_PROGRESS], job.output()
    assert "(step 7); must be under 6." in job.log(0)
    assert "at 35% of the budget" in job.log(0)
    assert not (tmp_path / "job/run/DONE").exists()


@pytest.mark.dist
@pytest.mark.slow
def test_a_run_by_the_clock_ends_within_its_time_and_is_done(corpus: Path, tmp_path: Path) -> None:
    config = job_of(
        tmp_path / "job",
        corpus,
        train={"steps": None, "time": "10s"},
        every={"log": 4, "evaluate": 20, "save": 1000},
    )
    begin = time.monotonic()
    job = run(2, config)
    taken = time.monotonic() - begin
    assert exit_codes(job) == [DONE, DONE], job.output()
    assert 7 < taken < 11.5, job.output()
    folder = tmp_path / "job/run"
    done = json.loads((folder / "DONE").read_bytes())
    assert done["seconds"] == 10.0
    looked = list(held_out(folder))
    assert looked[0] == 0  # to know how long it takes
    assert looked[-1] == done["steps"] > 3
    rates = [
        line["train/learning_rate"]
        for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        if "train/learning_rate" in line
    ]
    assert rates[-1] < 0.5 * max(rates)
    again = run(2, config)
    assert "nothing to do" in again.log(0)
    longer = run(2, config, "train.time=13s")
    assert exit_codes(longer) == [DONE, DONE], longer.output()
    assert json.loads((folder / "DONE").read_bytes())["steps"] > done["steps"]
