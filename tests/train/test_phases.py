"""Phases: one run through several shard sets, entered, left and resumed like any other."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlmdist.data.sequence import Position
from mlmdist.dist import Place
from mlmdist.errors import BAD_CONFIG, DONE, PREEMPTED, ConfigError
from mlmdist.train import folder, identity, plan
from mlmdist.train.budget import budget_of
from mlmdist.train.phase_data import entry, loader_of, rows_behind
from mlmdist.train.phases import Phase, config_of, identity_of, open_phases
from mlmdist.train.samples import show
from tests.train.corpus import recipe
from tests.train.jobs import before_step, exit_codes, run
from tests.train.runs import assert_same_state, job_of, metrics


def two_phases(corpus: Path, **second: Any) -> dict[str, Any]:
    """5 steps of rows of 32, then 3 of rows of 64 in smaller batches."""
    phases = [{"steps": 5, "name": "short"}, {"steps": 3, "train": corpus / "long", **second}]
    return {
        "model": {"max_positions": 64},
        "train": {"steps": None},
        "phases": phases,
        "every": {"log": 1, "evaluate": 4, "save": 3},
    }


def windows_read(phase: Phase, position: Position, num_batches: int) -> list[tuple[int, ...]]:
    """(document, window, epoch) of every row of a phase, in order."""
    loader = loader_of(phase, Place(), position, position.batch + num_batches, lambda: None)
    numbers = range(position.batch, position.batch + num_batches)
    steps = [loader.batch(number) for number in numbers]
    ids = np.concatenate([micro.sample_ids for step in steps for micro in step.micro_batches])
    return [tuple(row[1:]) for row in ids.tolist()]


def test_o1_phases_on_one_shard_set_read_each_window_once_an_epoch(
    corpus: Path, tmp_path: Path
) -> None:
    phases = [{"steps": 20}, {"steps": 30, "global_batch": 10}, {"steps": 6}]
    config = recipe(corpus, tmp_path / "run", train={"steps": None}, phases=phases)
    opened = open_phases(config)
    rows: dict[str, int] = {}
    read, first = [], 0
    for phase in opened:
        position = entry(phase, first, rows)
        count = phase.num_batches or 0
        read += windows_read(phase, position, count)
        loader = loader_of(phase, Place(), position, first + count, lambda: None)
        first += count
        rows = rows_behind(phase, loader, first, rows)
    assert len(read) == 20 * 12 + 30 * 10 + 6 * 12
    assert len({row for row in read if row[2] == 0}) == 600
    assert len(set(read)) == len(read)
    assert list(rows.values()) == [len(read)]


def test_a_phase_reads_its_own_set_from_its_beginning(corpus: Path, tmp_path: Path) -> None:
    sections = two_phases(corpus, global_batch=8)
    sections["train"]["batch_warmup"] = {"first": 2, "steps": 4}
    short, long = open_phases(recipe(corpus, tmp_path / "run", **sections))
    assert [phase.batch_size.rows(0) for phase in (short, long)] == [2, 8]
    assert entry(long, 5, {"another#0": 60}).cursors == (0,)
    assert len(windows_read(long, entry(long, 5, {}), 3)) == 24
    assert long.config.train.global_batch == 8
    assert short.config.train.global_batch == 12


def test_a_step_of_a_later_phase_is_shown_where_it_reads_on(corpus: Path, tmp_path: Path) -> None:
    phases = [{"steps": 3}, {"steps": 3, "global_batch": 5}]
    config = recipe(corpus, tmp_path / "run", train={"steps": None}, phases=phases)
    config.run.mkdir()
    folder.save_config(config)
    shown = [{line for line in show(config.run, step) if "  A " in line} for step in range(1, 7)]
    assert [len(rows) for rows in shown] == [12, 12, 12, 5, 5, 5]
    assert len(set.union(*shown)) == 51


def test_a_budget_in_tokens_or_epochs_comes_to_steps(corpus: Path, tmp_path: Path) -> None:
    def phase_of(**train: Any) -> Phase:
        config = recipe(corpus, tmp_path / "run", train={"steps": None, **train})
        return open_phases(config)[0]

    assert phase_of(epochs=2.0).num_batches == 100  # of 600 windows in batches of 12
    per_step = plan.make_plan(phase_of(epochs=1.0), 1).tokens_per_step
    assert phase_of(tokens=round(per_step * 40)).num_batches in (40, 41)
    assert phase_of(time="1h").num_batches is None
    grown = phase_of(epochs=1.0, batch_warmup={"first": 4, "steps": 10, "sizes": 2})
    assert grown.batch_size.rows_before(grown.num_batches or 0) in range(600, 612)
    assert [grown.batch_size.rows(n) for n in (0, 4, 5, 9, 10)] == [4, 4, 8, 8, 12]


def test_t2_finished_phases_are_fixed_and_later_ones_are_free(corpus: Path, tmp_path: Path) -> None:
    def of(current: int, **second: Any) -> identity.Identity:
        config = recipe(corpus, tmp_path / "run", **two_phases(corpus, **second))
        return identity_of(open_phases(config), current)

    identity.refuse_changes(of(0), of(0, global_batch=4), where="it")
    with pytest.raises(ConfigError, match=r"phases\.1\.train\.global_batch is 4 here"):
        identity.refuse_changes(of(1, global_batch=6), of(1, global_batch=4), where="it")
    first = two_phases(corpus)
    first["phases"][0]["steps"] = 6
    longer = open_phases(recipe(corpus, tmp_path / "run", **first))
    identity.refuse_changes(of(0), identity_of(longer, 0), where="it")
    with pytest.raises(ConfigError, match=r"phases\.0\.steps is 6 here, 5 there"):
        identity.refuse_changes(of(1), identity_of(longer, 1), where="it")


def test_t2_another_growth_of_the_batches_is_another_run(corpus: Path, tmp_path: Path) -> None:
    def of(**train: Any) -> identity.Identity:
        return identity_of(open_phases(recipe(corpus, tmp_path / "run", train=train)), 0)

    grows = {"first": 4, "steps": 10, "sizes": 2}
    identity.refuse_changes(of(batch_warmup=grows), of(batch_warmup=grows), where="it")
    for other in (None, grows | {"steps": 20}, grows | {"first": 2}):
        with pytest.raises(ConfigError, match=r"train\.batch_warmup is '.*' here, '4 rows from"):
            identity.refuse_changes(of(batch_warmup=grows), of(batch_warmup=other), where="it")


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ({"warmup_steps": 51}, r"warmup_steps=51 must be at most the budget's steps=50"),
        ({"kind": "wsd", "warmup_steps": 46}, r"46 steps up and 5 down must be at most .*=50"),
    ],
)
def test_a_schedule_longer_than_the_budget_comes_to_is_refused(
    schedule: dict[str, Any], said: str, corpus: Path, tmp_path: Path
) -> None:
    train = {"steps": None, "epochs": 1.0}
    config = recipe(corpus, tmp_path / "run", train=train, schedule=schedule)
    with pytest.raises(ConfigError, match=said):
        open_phases(config)


def test_the_plan_shows_each_phase_and_their_sum(corpus: Path, tmp_path: Path) -> None:
    config = recipe(corpus, tmp_path / "run", **two_phases(corpus, global_batch=8))
    phases = open_phases(config)
    text = plan.text(phases, config, 2, plan.Speed(mfu=0.5, peak_flops=1e9))
    assert "phase 1       short\nsteps         5, of which 1 warm up\n" in text
    assert (
        "phase 2       \nsteps         3\nbatch         8 rows = 2 ranks x 2 micro-batches" in text
    )
    flops = sum(plan.make_plan(phase, 2).flops for phase in phases)
    assert f"time          {round(flops / 1e9) // 60}:" in text
    assert config_of(config, 1).data.train == corpus / "long"


def test_time_comes_to_about_so_many_steps(corpus: Path, tmp_path: Path) -> None:
    config = recipe(corpus, tmp_path / "run", train={"steps": None, "time": "2h"})
    phases = open_phases(config)
    assert "as many as 2h take, of which 10% warm up" in plan.text(phases, config, 2)
    speed = plan.Speed(mfu=0.5, peak_flops=1e9)
    steps = plan.make_plan(phases[0], 2, speed).num_steps or 0
    assert speed.seconds(plan.make_plan(phases[0], 2).flops_per_step * steps, 2) == pytest.approx(
        7200, rel=0.01
    )


@pytest.mark.dist
@pytest.mark.slow
@pytest.mark.parametrize(
    "number",  # in the first phase, in front of the second, in the second
    [pytest.param(4, marks=pytest.mark.long), 5, pytest.param(7, marks=pytest.mark.long)],
)
def test_t1_a_run_through_phases_goes_on_from_anywhere(
    corpus: Path, tmp_path: Path, number: int
) -> None:
    sections = two_phases(corpus, global_batch=8, held_out=corpus / "long")
    straight = job_of(tmp_path / "straight", corpus, **sections)
    job = run(2, straight)
    assert exit_codes(job) == [DONE, DONE], job.output()
    lines = metrics(tmp_path / "straight" / "run")
    assert [line["train/phase"] for line in lines if "train/phase" in line] == [1.0] * 5 + [2.0] * 3
    assert [line["step"] for line in lines if "held_out/mlm_loss" in line] == [4, 5, 8]
    killed = job_of(tmp_path / "killed", corpus, **sections)
    run(2, killed, fault=before_step(number, lambda _: os.kill(os.getpid(), signal.SIGKILL)))
    job = run(2, killed)
    assert exit_codes(job) == [DONE, DONE], job.output()
    step = "run/checkpoints/step-00000008"
    assert_same_state(tmp_path / "straight" / step, tmp_path / "killed" / step)
    assert metrics(tmp_path / "killed" / "run") == lines
    assert "8 rows" in next(show(tmp_path / "straight/run", 7))
    assert "12 rows" in next(show(tmp_path / "straight/run", 5))
    with pytest.raises(ConfigError, match="must be from 1 to 8"):
        next(show(tmp_path / "straight/run", 9))


@pytest.mark.dist
@pytest.mark.slow
def test_a_stop_at_the_end_of_a_phase_is_no_end_of_the_run(corpus: Path, tmp_path: Path) -> None:
    config = job_of(tmp_path / "job", corpus, **two_phases(corpus, global_batch=8))
    job = run(1, config, fault=before_step(3, lambda _: os.kill(os.getpid(), signal.SIGTERM)))
    assert exit_codes(job) == [PREEMPTED], job.output()
    assert "saved at step 5 of 8" in job.output()
    assert not (tmp_path / "job/run/DONE").exists()
    job = run(1, config)
    assert exit_codes(job) == [DONE], job.output()
    assert "phase 2 begins behind step 5" in job.output()


@pytest.mark.dist
@pytest.mark.slow
def test_phases_may_follow_a_run_that_is_done(corpus: Path, tmp_path: Path) -> None:
    model = {"max_positions": 64}
    first = job_of(tmp_path / "job", corpus, model=model)
    assert exit_codes(run(1, first)) == [DONE]
    more = recipe(
        corpus,
        tmp_path / "job/run",
        model=model,
        train={"steps": None},
        phases=[{"steps": 8}, {"steps": 2, "train": corpus / "long"}],
    )
    path = tmp_path / "job/more.yaml"
    from mlmdist.config.loading import dump

    path.write_text(dump(more))
    job = run(1, path)
    assert exit_codes(job) == [DONE], job.output()
    assert "goes on to 10" in job.output()
    assert "phase 2 begins behind step 8" in job.output()
    again = run(1, path)
    assert exit_codes(again) == [DONE]
    assert "nothing to do" in again.output()
    fewer = run(1, first)
    assert exit_codes(fewer) == [DONE]  # its own eight steps are done
    (tmp_path / "job/run/DONE").unlink()
    fewer = run(1, first)
    assert exit_codes(fewer) == [BAD_CONFIG]
    assert "is in phase 2; phases holds 1: give them all" in fewer.output()


@pytest.mark.dist
@pytest.mark.slow
def test_l1_growing_batches_give_the_same_losses_on_any_number_of_ranks(
    corpus: Path, tmp_path: Path
) -> None:
    sections = {
        "train": {"precision": "fp32", "batch_warmup": {"first": 2, "steps": 4, "sizes": 4}},
        "model": {"dropout": 0.0, "attention_dropout": 0.0},
        "optimizer": {"kind": "sgd", "clip": 0.0, "learning_rate": 0.1},
        "every": {"log": 1},
    }
    curves = []
    for ranks in (1, 3):
        job = run(ranks, job_of(tmp_path / f"on{ranks}", corpus, **sections))
        assert exit_codes(job) == [DONE] * ranks, job.output()
        lines = metrics(tmp_path / f"on{ranks}" / "run")
        curves.append([line["train/mlm_loss"] for line in lines if "train/mlm_loss" in line])
        rows = [line["train/epochs"] * 600 for line in lines if "train/epochs" in line]
    assert np.diff([0, *rows]).round(3).tolist() == [2, 4, 7, 9, 12, 12, 12, 12]
    assert curves[0] == pytest.approx(curves[1], rel=1e-6)


def test_phases_by_the_clock_are_budgets_by_the_clock(corpus: Path, tmp_path: Path) -> None:
    phases = [{"time": "1m"}, {"time": "2m"}]
    config = recipe(corpus, tmp_path / "run", train={"steps": None}, phases=phases)
    assert (budget_of(open_phases(config)).total, budget_of(open_phases(config)).unit) == (180, "s")
