"""Batches made by processes: the same ones, errors at the consumer, and no process left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlmdist.errors import DataError
from tests.data.corpus import random_block, write_set
from tests.data.test_loader import Loader, log_of, make


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_set(folder, random_block(1500, windows_per_document=2)).close()
    return folder


def children() -> set[int]:
    """Workers of this process that are there, dead ones that nobody waited for included."""
    listed = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(word) for path in listed for word in path.read_text().split()}


def test_o2_workers_make_the_same_batches_and_end(folder):
    before = children()
    assert log_of(make(folder, workers=3)) == log_of(make(folder))
    assert children() == before


def test_closing_in_the_middle_ends_the_workers(folder):
    before = children()
    loader = make(folder, workers=2, num_batches=10**6)
    step = next(iter(loader))
    assert step.number == 0
    assert len(children() - before) == 2
    loader.close()
    assert children() == before


def test_an_error_in_a_worker_is_raised_here(tmp_path):
    write_set(tmp_path, random_block(6000, seed=2)).close()
    loader = make(tmp_path, batch=300, micro=300, num_batches=40, workers=2)
    path = tmp_path / "000001.tar"
    content = bytearray(path.read_bytes())
    content[2000] ^= 4
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"000001\.tar"):
        log_of(loader)


def test_a_worker_that_is_killed_is_missed_at_once(folder):
    loader: Loader = make(folder, workers=2, num_batches=10**6)
    steps = iter(loader)
    next(steps)
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(DataError, match=r"worker \d+ ended \(exit code -9\) before batch \d+"):
        for _ in steps:
            pass


def test_the_signals_that_stop_a_trainer_leave_its_workers_at_work(folder):
    """A launcher signals the whole family; the trainer still needs the batch of this step."""
    before = children()
    loader = make(folder, workers=1, num_batches=50)
    steps = iter(loader)
    next(steps)
    for pid in children() - before:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
    assert [step.number for step in steps] == list(range(1, 50))


def test_no_worker_outlives_a_trainer_that_is_killed(folder):
    command = [sys.executable, "-m", "tests.data.test_workers", str(folder)]
    trainer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert trainer.stdout is not None
    workers = [int(word) for word in trainer.stdout.readline().split()]
    assert len(workers) == 2
    trainer.kill()
    trainer.wait()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() and not zombie(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker lives on"
        time.sleep(0.05)


def zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def trainer(folder: Path) -> None:
    """Reads a batch, says who its workers are, and waits for its end."""
    loader = make(folder, workers=2, num_batches=10**6)
    steps = iter(loader)
    next(steps)
    print(*children(), flush=True)
    time.sleep(600)


def test_no_more_processes_than_batches(folder):
    loader = make(folder, workers=3, num_batches=1)
    assert [step.number for step in loader] == [0]


if __name__ == "__main__":
    trainer(Path(sys.argv[1]))
