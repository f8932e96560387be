"""Laws T1, T2 and S2 where saving goes wrong: damage, a full disk, steps that taught nothing."""

import hashlib
import json
import resource
import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlmdist.data import pair_report
from mlmdist.data.batch import StepBatch
from mlmdist.errors import BAD_CONFIG, BAD_DATA, DONE, NO_PROGRESS
from mlmdist.train import checkpoint, file_list, folder
from mlmdist.train.engine import Engine, StepResult
from mlmdist.train.state import Counts
from tests.train.jobs import Fault, before_step, exit_codes, run
from tests.train.runs import LAST, assert_same_state, job_of

pytestmark = pytest.mark.dist


def test_s2_a_changed_digit_in_the_record_is_passed_over(
    corpus: Path, straight: Path, tmp_path: Path
) -> None:
    config = job_of(tmp_path / "job", corpus)
    folder = config.parent / "run"
    shutil.copytree(straight, folder)
    (folder / "DONE").unlink()
    path = folder / "checkpoints" / LAST / "state.json"
    values = json.loads(path.read_bytes())
    values["position"]["cursors"][0] += 1
    path.write_text(json.dumps(values))
    resumed = run(2, config)
    assert exit_codes(resumed) == [DONE, DONE], resumed.output()
    assert f"{LAST} is passed over: {path}: does not match its checksum" in resumed.log(0)
    assert "resumed at step 4" in resumed.log(0)
    assert_same_state(folder / "checkpoints" / LAST, straight / "checkpoints" / LAST)


def fill_the_disk(*ranks: int) -> Fault:
    """The fault: from batch 6 on, no file that these ranks write may grow beyond 16 KiB."""

    def put_in(rank: int) -> None:
        if rank in ranks:
            resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 10, resource.RLIM_INFINITY))

    return before_step(6, put_in)


@pytest.mark.parametrize("ranks", [(0, 1), (1,)])
@pytest.mark.slow
def test_t1_a_full_disk_is_one_line_and_the_run_goes_on_when_there_is_room(
    corpus: Path, straight: Path, tmp_path: Path, ranks: tuple[int, ...]
) -> None:
    config = job_of(tmp_path / "job", corpus)
    folder = config.parent / "run"
    full = run(2, config, fault=fill_the_disk(*ranks))
    assert exit_codes(full) == [BAD_DATA, BAD_DATA], full.output()
    assert "Traceback" not in full.output()
    assert full.output().count("error: ") == 1
    assert f"{folder / 'checkpoints' / LAST} cannot be written" in full.log(0)
    assert "free space there, then the same command goes on" in full.log(0)
    (folder / "checkpoints" / "step-00000006.tmp-new").mkdir()
    resumed = run(2, config)
    assert exit_codes(resumed) == [DONE, DONE], resumed.output()
    assert "resumed at step 4" in resumed.log(0)
    assert_same_state(folder / "checkpoints" / LAST, straight / "checkpoints" / LAST)
    assert not list(folder.rglob("*.tmp-*"))


@pytest.mark.slow
def test_t2_a_refused_first_start_leaves_the_folder_free(corpus: Path, tmp_path: Path) -> None:
    config = job_of(tmp_path / "job", corpus)

    def too_few_labels(_rank: int) -> None:
        pair_report.MIN_LABELLED_SHARE = 1.1

    refused = run(2, config, fault=too_few_labels)
    assert exit_codes(refused) == [BAD_CONFIG, BAD_CONFIG], refused.output()
    assert "use data.pair=sop" in refused.log(0)
    assert not (config.parent / "run" / "config.yaml").exists()
    begun = run(2, config, "data.pair=sop")
    assert exit_codes(begun) == [DONE, DONE], begun.output()


@pytest.mark.slow
def test_skipped_steps_do_not_push_good_checkpoints_out(corpus: Path, tmp_path: Path) -> None:
    config = job_of(
        tmp_path / "job",
        corpus,
        train={"steps": 40},
        every={"save": 2, "keep": 2, "log": 50, "evaluate": 50},
    )

    def never_finite_from_batch_5(_rank: int) -> None:
        step = Engine.step

        def faulty(
            self: Engine, batch: StepBatch, counts: Counts, learning_rate: float
        ) -> StepResult:
            result = step(self, batch, counts, learning_rate)
            return replace(result, skipped=True) if batch.number >= 5 else result

        Engine.step = faulty

    job = run(1, config, fault=never_finite_from_batch_5)
    assert exit_codes(job) == [NO_PROGRESS], job.output()
    names = [path.name for path in checkpoint.candidates_in(config.parent / "run")]
    assert names == ["step-00000004", "step-00000002"]


def test_a_save_that_fell_on_a_skipped_step_is_made_at_the_next_good_one(
    corpus: Path, tmp_path: Path
) -> None:
    config = job_of(tmp_path / "job", corpus, train={"steps": 6}, every={"save": 2, "keep": 9})

    def skip_batch_3(_rank: int) -> None:
        step = Engine.step

        def faulty(
            self: Engine, batch: StepBatch, counts: Counts, learning_rate: float
        ) -> StepResult:
            return replace(step(self, batch, counts, learning_rate), skipped=batch.number == 3)

        Engine.step = faulty

    job = run(1, config, fault=skip_batch_3)
    assert exit_codes(job) == [DONE], job.output()
    names = [path.name for path in checkpoint.candidates_in(config.parent / "run")]
    assert names == ["step-00000006", "step-00000005", "step-00000002"]


def test_t3_a_done_run_is_rank_0s_decision(straight: Path) -> None:
    def sees_no_done(rank: int) -> None:
        if rank == 1:
            folder.DONE = "not visible yet"

    job = run(2, straight.parent / "recipe.yaml", fault=sees_no_done)
    assert exit_codes(job) == [DONE, DONE], job.output()
    assert "nothing to do" in job.log(0)


def slow_pieces(rank: int) -> None:
    """The fault: rank 0 hashes a little at a time, and longer than a hang may take."""
    if rank == 0:
        file_list.PIECE_BYTES = 1 << 13

        class Slow:
            def __init__(self) -> None:
                self.digest = hashlib.sha256()

            def update(self, piece: bytes) -> None:
                time.sleep(0.1)
                self.digest.update(piece)

            def hexdigest(self) -> str:
                return self.digest.hexdigest()

        file_list.hashlib = SimpleNamespace(sha256=Slow)  # pyright: ignore


@pytest.mark.slow
def test_t3_a_checkpoint_that_takes_long_is_no_hang(corpus: Path, tmp_path: Path) -> None:
    config = job_of(tmp_path / "job", corpus, limits={"peer_seconds": 2.0, "hang_seconds": 1.5})
    began = time.monotonic()
    job = run(2, config, fault=slow_pieces)
    assert exit_codes(job) == [DONE, DONE], job.output()
    assert time.monotonic() - began > 4
