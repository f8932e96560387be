"""The laws of order, pairs and masks together, under kill -9 (O1, O2, O3, M3, P2).

A log holds a line for each (batch, sample id, hash of the masked row, pair label). That of a run of
three epochs on one rank is compared with those of runs that are killed at random and go on with
other ranks, loader workers and micro-batches: line for line.
"""

import json
import multiprocessing
import random
import time
from itertools import islice
from pathlib import Path

import pytest

from mlmdist.data.batch_size import BatchSize
from mlmdist.data.sequence import Position
from tests.data.corpus import random_block, write_set
from tests.data.test_loader import Entry, Folders, log_of, logged, make

WORLD_SIZES, WORKERS, LANES = (1, 2, 3, 4, 6, 8), (0, 1, 3), (1, 4)
SIZES = (600, 540)
BATCHES = BatchSize([(0, 30), (20, 50)])
FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Folders:
    found = []
    for number, size in enumerate(SIZES):
        path = tmp_path_factory.mktemp(f"corpus{number}")
        write_set(path, random_block(size, seed=number, windows_per_document=2)).close()
        found.append((path, 3 - number))
    return found


def live(path: Path, folders: Folders, settings: dict, rank: int, most: int) -> None:
    """A rank: a line for each batch, until it is killed; it waits for that after `most` batches."""
    with path.open("w", buffering=1) as file:
        loader = make(folders, rank=rank, **settings)
        for step in islice(loader, most):
            position = loader.position_after(step.number).to_json()
            file.write(json.dumps([step.number, position, sorted(logged(step))]) + "\n")
        time.sleep(1000)


def lines_of(path: Path) -> list[list]:
    """The whole lines of a log; a kill may cut the last."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def one_life(
    folder: Path, folders: Folders, settings: dict, lived: int, most: int
) -> list[list[list]]:
    """The lines of each rank of a job that is killed once every rank has done `lived` batches.

    None does more than `most`, so that some are left for the lives after it.
    """
    paths = [folder / f"{rank}.jsonl" for rank in range(settings["world"])]
    ranks = [
        FORK.Process(target=live, args=(path, folders, settings, rank, most))
        for rank, path in enumerate(paths)
    ]
    for process in ranks:
        process.start()
    while min(len(lines_of(path)) for path in paths) < lived:
        assert all(process.is_alive() for process in ranks)
        time.sleep(0.01)
    for process in ranks:
        process.kill()
        process.join()
    return [lines_of(path) for path in paths]


def entries_of(lines: list[list]) -> list[Entry]:
    return [
        (n, tuple(sample), digest, label)
        for *_, found in lines
        for n, sample, digest, label in found
    ]


def check_lives(
    tmp_path: Path, folders: Folders, lanes: int, choices: list[tuple[int, int]], num_batches: int
) -> None:
    """Every (world size, workers) lives once, and at random until all batches are done."""
    draw = random.Random(lanes)
    settings = {"batch": BATCHES, "lanes": lanes, "num_batches": num_batches}
    straight = log_of(make(folders, **settings))
    assert len({sample for _, sample, _, _ in straight}) == BATCHES.rows_before(num_batches)
    position, done, life = Position(), [], 0
    waiting = draw.sample(choices, len(choices))
    while position.batch < num_batches:
        world, workers = waiting.pop() if waiting else draw.choice(choices)
        left = num_batches - position.batch
        lived = min(left, draw.randint(1, max(1, 2 * left // (len(waiting) + 2))))
        mine = settings | {
            "world": world, "workers": workers, "micro": draw.choice([1, 4, 7, 50]),
            "position": position,
        }  # fmt: skip
        folder = tmp_path / str(life)
        folder.mkdir()
        ranks = one_life(folder, folders, mine, lived, most=max(1, left - len(waiting)))
        ahead = min(map(len, ranks))  # what every rank has done is what a checkpoint can hold
        for lines in ranks:
            assert set(entries_of(lines)) <= set(straight)
        found = sorted(entry for lines in ranks for entry in entries_of(lines[:ahead]))
        done += found
        position = Position.from_json(ranks[0][ahead - 1][1])
        assert {tuple(lines[ahead - 1][1]["cursors"]) for lines in ranks} == {position.cursors}
        life += 1
    assert not waiting, f"{len(waiting)} settings were not tried"
    assert done == straight


def test_a_run_that_is_killed_and_moved_keeps_its_log(folders, tmp_path):
    check_lives(tmp_path, folders, 4, [(1, 0), (3, 0), (2, 1)], 12)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("lanes", LANES)
def test_every_world_size_and_workers_over_three_epochs(folders, tmp_path, lanes):
    choices = [(world, workers) for world in WORLD_SIZES for workers in WORKERS]
    num_batches = next(n for n in range(1000) if BATCHES.rows_before(n) >= 3 * sum(SIZES))
    check_lives(tmp_path, folders, lanes, choices, num_batches)
