"""Training data from an object store: the batches of the local set, whatever befalls the cache."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlmdist.config import pretrain as config
from mlmdist.data import lookahead
from mlmdist.data.mixture import joined
from mlmdist.errors import ConfigError, DataError
from mlmdist.files import AnyPath, place, write_bytes
from mlmdist.shards import BlockEntry, Shard, ShardSet
from tests.data.corpus import random_block, write_set
from tests.data.test_loader import Entry, Loader, log_of, make, world_log
from tests.s3_server import BUCKET, S3Server

NUM_WINDOWS = 6500  # seven blocks in four shards
BLOCK_GIGABYTES = 1.31e-4  # of the largest block, a little more
COMMON: dict[str, Any] = {"batch": 300, "micro": 300, "num_batches": 22}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set")
    shards = write_set(folder, random_block(NUM_WINDOWS, windows_per_document=2))
    sizes = [entry.bytes for n in range(4) for entry in shards._shard(n).index]
    assert max(sizes) < BLOCK_GIGABYTES * 1e9 < 1.15 * sorted(sizes)[1]
    shards.close()
    return folder


@pytest.fixture(scope="module")
def remote(server: S3Server, local: Path) -> AnyPath:
    return copied(local, "set")


@pytest.fixture(scope="module")
def expected(local: Path) -> list[Entry]:
    return log_of(make(local, **COMMON))


def copied(local: Path, name: str) -> AnyPath:
    folder = place(f"s3://{BUCKET}/{name}")
    for path in local.iterdir():
        write_bytes(folder / path.name, path.read_bytes())
    return folder


def cache(folder: Path, blocks: float = 100, threads: int = 3) -> config.Cache:
    return config.Cache(folder=folder, gigabytes=blocks * BLOCK_GIGABYTES, threads=threads)


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("?" * 64 + "/*"))


@pytest.mark.parametrize(
    ("blocks", "threads", "workers"),
    [
        (0, 3, 0),
        (0.01, 3, 0),
        (1, 3, 0),
        (3, 0, 0),
        (5, 3, 0),
        (100, 3, 0),
        pytest.param(5, 2, 4, marks=pytest.mark.long),
    ],
)
def test_o2_a_remote_set_gives_the_batches_of_the_local_one(
    remote: AnyPath, expected: list[Entry], tmp_path: Path, blocks: int, threads: int, workers: int
) -> None:
    """Cold and again, for caches of every size, fetched ahead or not, by one process or four."""
    section = cache(tmp_path, blocks, threads)
    for _ in ("cold", "warm")[: 2 if blocks > 1 else 1]:
        assert log_of(make(remote, cache=section, workers=workers, **COMMON)) == expected
        assert used(tmp_path) <= section.gigabytes * 1e9


def test_o2_at_every_world_size(
    remote: AnyPath, local: Path, expected: list[Entry], tmp_path: Path
) -> None:
    found = world_log(remote, 3, 22, cache=cache(tmp_path), lanes=2, **COMMON)
    assert found == sorted(log_of(make(local, lanes=2, **COMMON)))


def test_a_warm_cache_asks_the_store_for_no_block(
    remote: AnyPath, server: S3Server, tmp_path: Path, expected: list[Entry]
) -> None:
    log_of(make(remote, cache=cache(tmp_path), **COMMON))
    loader = make(remote, cache=cache(tmp_path), **COMMON)
    for shard in range(4):
        loader.assembler.reader.shard_sets[0]._shard(shard)
    before = server.requests
    assert log_of(loader) == expected
    assert server.requests == before


def test_each_block_is_fetched_once_by_all_ranks_of_a_machine(
    remote: AnyPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    real = Shard._read

    def counted(shard: Shard, entry: BlockEntry) -> bytes:
        fetched.append(entry.key)
        return real(shard, entry)

    monkeypatch.setattr(Shard, "_read", counted)
    loaders = [make(remote, cache=cache(tmp_path), rank=r, world=4, **COMMON) for r in range(4)]
    threads = [threading.Thread(target=log_of, args=(loader,)) for loader in loaders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(fetched) == [f"{number:06}" for number in range(7)]


def test_s2_damaged_files_of_the_cache_change_nothing(
    remote: AnyPath, expected: list[Entry], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    section = cache(tmp_path)
    log_of(make(remote, cache=section, **COMMON))
    paths = sorted(tmp_path.glob("?" * 64 + "/*"))
    assert len(paths) == 7
    for number, path in enumerate(paths):
        data = path.read_bytes()
        path.write_bytes(data[: 90_000 * (number % 2)] or bytes([data[0] ^ 1]) + data[1:])
    assert log_of(make(remote, cache=section, **COMMON)) == expected
    damaged = [r.getMessage() for r in caplog.records if "damaged in the cache" in r.getMessage()]
    assert len(damaged) == len(set(damaged)) == 7


def test_a_store_that_is_away_for_some_requests_changes_nothing(
    remote: AnyPath, server: S3Server, expected: list[Entry], tmp_path: Path
) -> None:
    steps = iter(loader := make(remote, cache=cache(tmp_path, 2), **COMMON))
    next(steps)
    server.be_away(2)
    list(steps)
    loader.close()
    assert server.away == 0
    assert log_of(make(remote, cache=cache(tmp_path, 2), **COMMON)) == expected


def test_an_error_of_the_store_is_raised_where_the_block_is_used(
    remote: AnyPath, server: S3Server, tmp_path: Path
) -> None:
    loader = make(remote, cache=cache(tmp_path), prefetch_batches=1, **COMMON)
    steps = iter(loader)
    server.allow(0)
    try:
        with pytest.raises(ConfigError, match=r"s3://corpora/set/.*(Forbidden|Denied); mend"):
            list(steps)
    finally:
        server.allow(None)
    loader.close()
    assert not [t for t in threading.enumerate() if t.name == "lookahead"]


def test_s2_a_block_that_is_wrong_at_the_source_is_named_and_never_kept(
    local: Path, server: S3Server, tmp_path: Path
) -> None:
    folder = copied(local, "wrong")
    data = bytearray(server.read("wrong/000001.tar"))
    data[2000] ^= 4
    write_bytes(folder / "000001.tar", bytes(data))
    with pytest.raises(DataError, match=r"wrong/000001\.tar: block 000002 at byte 0 does not"):
        log_of(make(folder, cache=cache(tmp_path), **COMMON))
    assert not list(tmp_path.glob("*/000002"))


@pytest.mark.parametrize("group", [1, 5])
@pytest.mark.parametrize("world", [1, 3])
def test_what_is_planned_is_what_is_read(
    local: Path, monkeypatch: pytest.MonkeyPatch, group: int, world: int
) -> None:
    """Block by block, in order, over two epochs."""
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
    planned = [one.block for one in lookahead.planned(reader, mixture, parts)]
    for _ in loader.batches(numbers):
        pass
    assert planned == read
    assert len(read) >= 7


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
