"""Laws T1 and T2: a killed run goes on to the bit; a run that is another one is refused by name."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from mlmdist.errors import BAD_CONFIG, BAD_DATA, DONE, PREEMPTED
from mlmdist.train import checkpoint, partitions
from mlmdist.train.checkpoint import load_weights
from tests.data.corpus import random_block, write_set
from tests.train.jobs import before_step, exit_codes, run, start
from tests.train.runs import LAST, assert_same, assert_same_state, job_of, metrics

KILLED = -signal.SIGKILL

LONG = pytest.mark.long

pytestmark = pytest.mark.dist


def die(_rank: int) -> None:
    """What kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


DIE_AT_STEP_5 = before_step(5, die)  # every rank, between two checkpoints


def die_while_publishing(_rank: int) -> None:
    """The fault: rank 0 is killed when all files of its second checkpoint are written."""
    publish = checkpoint._publish

    def dying(run: Path, temporary: Path, final: Path, record: Any) -> None:
        if record.step == 8:
            os.kill(os.getpid(), signal.SIGKILL)
        publish(run, temporary, final, record)

    checkpoint._publish = dying  # pyright: ignore[reportPrivateUsage]


def test_t1_a_killed_run_goes_on_to_the_bit(corpus: Path, straight: Path, tmp_path: Path) -> None:
    config = job_of(tmp_path / "job", corpus)
    killed = run(2, config, fault=DIE_AT_STEP_5)
    assert exit_codes(killed) == [KILLED, KILLED], killed.output()
    resumed = run(2, config)
    assert exit_codes(resumed) == [DONE, DONE], resumed.output()
    assert "resumed at step 4" in resumed.log(0)
    folder = config.parent / "run"
    assert_same_state(folder / "checkpoints" / LAST, straight / "checkpoints" / LAST)
    assert metrics(folder) == metrics(straight)


@pytest.mark.slow
def test_t1_a_kill_inside_a_save_leaves_the_checkpoint_before(
    corpus: Path, straight: Path, tmp_path: Path
) -> None:
    config = job_of(tmp_path / "job", corpus)
    killed = run(2, config, fault=die_while_publishing)
    assert exit_codes(killed)[0] == KILLED, killed.output()
    folder = config.parent / "run"
    assert [path.name for path in checkpoint.candidates_in(folder)] == ["step-00000004"]
    assert (folder / "latest").read_text() == "step-00000004\n"
    resumed = run(2, config)
    assert exit_codes(resumed) == [DONE, DONE], resumed.output()
    assert_same_state(folder / "checkpoints" / LAST, straight / "checkpoints" / LAST)
    names = {path.name for path in (folder / "checkpoints").iterdir()}
    assert names == {"step-00000004", LAST}


def test_t1_a_broken_newest_checkpoint_is_passed_over_loudly(
    corpus: Path, straight: Path, tmp_path: Path
) -> None:
    config = job_of(tmp_path / "job", corpus)
    folder = config.parent / "run"
    shutil.copytree(straight, folder)
    (folder / "DONE").unlink()
    broken = next((folder / "checkpoints" / LAST).glob("*rank_1*optim_states.pt"))
    data = bytearray(broken.read_bytes())
    data[len(data) // 2] ^= 1
    broken.write_bytes(data)
    resumed = run(2, config)
    assert exit_codes(resumed) == [DONE, DONE], resumed.output()
    assert f"{LAST} is passed over: {broken.name} does not match its checksum" in resumed.log(0)
    assert "resumed at step 4" in resumed.log(0)
    assert_same_state(folder / "checkpoints" / LAST, straight / "checkpoints" / LAST)


@pytest.mark.slow
def test_t1_a_stopped_run_saves_at_the_next_step_and_goes_on_to_the_bit(
    corpus: Path, straight: Path, tmp_path: Path
) -> None:
    config = job_of(tmp_path / "job", corpus)

    def signal_rank_1(rank: int) -> None:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    stopped = run(2, config, fault=before_step(4, signal_rank_1))
    assert exit_codes(stopped) == [PREEMPTED, PREEMPTED], stopped.output()
    assert "saved at step 6 of 8" in stopped.log(0)
    assert stopped.output().count("error:") == 1
    resumed = run(2, config)
    assert exit_codes(resumed) == [DONE, DONE], resumed.output()
    folder = config.parent / "run"
    assert_same_state(folder / "checkpoints" / LAST, straight / "checkpoints" / LAST)
    assert metrics(folder) == metrics(straight)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "stage"),
    [
        ("fp32", 3),
        ("bf16", 0),
        *[pytest.param("fp32", stage, marks=LONG) for stage in (0, 2)],
        *[pytest.param("bf16", stage, marks=LONG) for stage in (2, 3)],
    ],
)
def test_t1_every_zero_stage_goes_on_to_the_bit(
    corpus: Path, tmp_path: Path, stage: int, precision: str
) -> None:
    train = {"zero_stage": stage, "precision": precision}
    whole = job_of(tmp_path / "whole", corpus, train=train)
    parts = job_of(tmp_path / "parts", corpus, train=train)
    assert exit_codes(run(2, whole)) == [DONE, DONE]
    assert exit_codes(run(2, parts, fault=DIE_AT_STEP_5)) == [KILLED, KILLED]
    assert exit_codes(run(2, parts)) == [DONE, DONE]
    places = [config.parent / "run" / "checkpoints" / LAST for config in (whole, parts)]
    assert_same_state(*places)


def resumed_elsewhere(corpus: Path, tmp_path: Path, stage: int, before: int, after: int) -> None:
    """Steps 5 to 8 on `after` ranks behind 1 to 4 on `before`, against all on `before`."""
    sections = {
        "train": {"zero_stage": stage, "precision": "fp32"},
        "model": {"dropout": 0.0, "attention_dropout": 0.0},
        "every": {"log": 1},
    }
    whole = job_of(tmp_path / "whole", corpus, **sections)
    moved = job_of(tmp_path / "moved", corpus, **sections)
    assert exit_codes(run(before, whole)) == [DONE] * before
    assert exit_codes(run(before, moved, fault=DIE_AT_STEP_5)) == [KILLED] * before
    saved = moved.parent / "run" / "checkpoints" / "step-00000004"
    weights = load_weights(saved)
    job = run(after, moved)
    assert exit_codes(job) == [DONE] * after, job.output()
    expected, found = (metrics(config.parent / "run") for config in (whole, moved))
    tokens = [[line.get("train/tokens") for line in lines] for lines in (expected, found)]
    assert tokens[0] == tokens[1]  # the same batches
    assert_close(found[4], expected[4], 1e-6)  # the first step: weights are the same to the bit
    assert_close(found[5], expected[5], 1e-4)  # the next: so are Adam's moments
    assert all(torch.isfinite(value).all() for value in weights.values())


def assert_close(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    for name in ("train/mlm_loss", "train/nsp_loss", "train/grad_norm"):
        assert found[name] == pytest.approx(expected[name], rel=tolerance)


def test_t1_a_checkpoint_cut_for_three_ranks_and_back_is_the_same(straight: Path) -> None:
    saved = partitions.read(straight / "checkpoints" / LAST)
    again = partitions.for_world_size(partitions.for_world_size(saved, 3), 2)
    for one, other in zip(saved.states(), again.states(), strict=True):
        for name in ("single_partition_of_fp32_groups", "base_optimizer_state", "group_paddings"):
            assert_same(one[name], other[name])


@pytest.mark.slow
def test_t1_another_world_size_sees_the_same_batches(corpus: Path, tmp_path: Path) -> None:
    resumed_elsewhere(corpus, tmp_path, stage=1, before=2, after=1)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(1, 2), pytest.param(2, 4, marks=LONG), (4, 2)])
@pytest.mark.parametrize(
    "stage",
    [pytest.param(0, marks=LONG), 1, pytest.param(2, marks=LONG), pytest.param(3, marks=LONG)],
)
def test_t1_any_world_size_to_any_other(
    corpus: Path, tmp_path: Path, stage: int, before: int, after: int
) -> None:
    resumed_elsewhere(corpus, tmp_path, stage, before, after)


def test_t2_a_change_of_the_run_is_refused_by_name(straight: Path) -> None:
    config = straight.parent / "recipe.yaml"
    job = run(1, config, "seed=4", "data.mask.rate=0.2", "train.steps=9")
    assert exit_codes(job) == [BAD_CONFIG]
    assert "seed is 4 here, 3 there" in job.log(0)
    assert "data.mask.rate is 0.2 here, 0.15 there" in job.log(0)
    assert "steps" not in job.log(0)  # longer training is the same run


def test_t2_other_data_are_refused_unless_accepted(
    corpus: Path, straight: Path, tmp_path: Path
) -> None:
    manifest = json.loads((corpus / "train" / "manifest.json").read_bytes())
    other = random_block(600, 5, capacity=29, most_sentences=5)
    write_set(tmp_path / "other", other, capacity=29)
    made = json.loads((tmp_path / "other" / "manifest.json").read_bytes())
    facts = {name: manifest[name] for name in ("tokenizer_hash", "vocab_size")}
    (tmp_path / "other" / "manifest.json").write_text(json.dumps(made | facts))
    shutil.copytree(straight, tmp_path / "run")
    shutil.copy(straight.parent / "recipe.yaml", tmp_path)
    words = [f"run={tmp_path / 'run'}", f"data.train={tmp_path / 'other'}", "train.steps=9"]
    refused = run(1, tmp_path / "recipe.yaml", *words)
    assert exit_codes(refused) == [BAD_CONFIG], refused.output()
    assert "data.train is" in refused.log(0)
    assert "--accept data.train" in refused.log(0)


def test_t2_a_missing_rank_file_is_data_not_a_traceback(straight: Path, tmp_path: Path) -> None:
    shutil.copytree(straight, tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("*/*rank_1*optim_states.pt"):
        path.unlink()
    (tmp_path / "run" / "DONE").unlink()
    shutil.copy(straight.parent / "recipe.yaml", tmp_path)
    job = run(2, tmp_path / "recipe.yaml", f"run={tmp_path / 'run'}")
    assert exit_codes(job) == [BAD_DATA, BAD_DATA], job.output()
    assert job.output().count("none of 2 checkpoints is whole") == 1
    assert "Traceback" not in job.output()


def test_a_done_run_is_done_at_once(straight: Path) -> None:
    job = run(2, straight.parent / "recipe.yaml")
    assert exit_codes(job) == [DONE, DONE]
    assert "nothing to do" in job.log(0)
    assert "nothing to do" not in job.log(1)


def test_a_folder_in_use_is_refused(corpus: Path, tmp_path: Path) -> None:
    config = job_of(tmp_path / "job", corpus, train={"steps": 5000})
    first = start(1, config)
    try:
        first.wait_for(config.parent / "run" / "latest")
        words = f"run={config.parent / 'run'}"
        (tmp_path / "second").mkdir()
        shutil.copy(config, tmp_path / "second")
        second = run(1, tmp_path / "second" / "recipe.yaml", words)
        assert exit_codes(second) == [BAD_CONFIG]
        assert "another process trains in this folder" in second.log(0)
    finally:
        first.kill()


def test_weights_of_a_checkpoint_are_the_fp32_masters(straight: Path) -> None:
    weights = load_weights(straight / "checkpoints" / LAST)
    model = partitions.read(straight / "checkpoints" / LAST).models[0]["module"]
    assert list(weights) == list(model)
    assert all(value.dtype == torch.float32 for value in weights.values())
    assert all(torch.equal(weights[name].bfloat16(), model[name]) for name in model)
