"""What is fetched ahead: the blocks that will be read, in that order, up to the limit."""

import time
from pathlib import Path

import pytest

from mlmdist.config import data as config
from mlmdist.data import lookahead
from mlmdist.data.mixture import joined
from mlmdist.errors import DataError
from mlmdist.shards import ShardSet
from tests.data.corpus import random_block, write_set
from tests.data.test_loader import Loader, make


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven blocks."""
    folder = tmp_path_factory.mktemp("set")
    write_set(folder, random_block(6500)).close()
    return folder


@pytest.mark.parametrize("group", [1, 5])
@pytest.mark.parametrize("world", [1, 3])
def test_what_is_planned_is_what_is_read(
    local: Path, monkeypatch: pytest.MonkeyPatch, group: int, world: int
) -> None:
    """Block by block, in order, over two epochs; and again by a reader that holds some already."""
    section = config.Order(lanes=2, group_blocks=group)
    loader: Loader = make(local, rank=1 % world, world=world, batch=300, num_batches=44)
    loader = type(loader)(
        loader.arguments["data"].model_copy(update={"order": section}),
        shards=(ShardSet.open(local),), micro_batch=300, position=loader.position, checked=True,
        **{k: loader.arguments[k] for k in (
            "vocabulary", "seed", "global_batch", "rank", "world_size", "num_batches"
        )},
    )  # fmt: skip
    read: list[int] = []
    real = ShardSet.read_block
    monkeypatch.setattr(
        ShardSet, "read_block", lambda self, n: (read.append(n), real(self, n))[1]
    )  # fmt: skip
    numbers = range(44)
    parts = [(chunk[0], joined(loader._shares(chunk))) for chunk in loader._chunks(numbers)]
    reader, mixture = loader.assembler.reader, loader.assembler.mixture
    for least in (7, 0):
        read.clear()
        planned = lookahead.planned(reader, mixture, parts)
        for _ in loader.batches(numbers):
            pass
        assert [one.block for one in planned] == read
        assert len(read) >= least


class Asked(ShardSet):
    """A shard set that notes which blocks it is asked for ahead."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def fetch_ahead(self, number: int) -> None:
        self.asked.append(number)
        if number == 2:
            raise DataError("not now")


def test_no_more_blocks_are_fetched_ahead_than_the_limit() -> None:
    reads = (lookahead.Read(number // 2, 0, number) for number in range(100))
    noted = Asked()
    ahead = lookahead.Lookahead((noted,), reads, 4, 3)
    for reached, most in ((None, 4), (0, 6), (1, 8), (10, 26)):
        if reached is not None:
            ahead.reached(reached)
        wait_for(lambda most=most: len(noted.asked) == most)
        time.sleep(0.05)
        assert sorted(noted.asked) == list(range(most))
    ahead.close()
    assert not any(thread.is_alive() for thread in ahead.threads)
    assert len(noted.asked) == 26


def wait_for(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
