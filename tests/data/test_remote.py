"""Training data from an object store: the batches of the local set, whatever befalls the cache."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlmdist.block_cache import BlockCache
from mlmdist.config import data as config
from mlmdist.data.held_out import HeldOut
from mlmdist.errors import ConfigError, DataError
from mlmdist.files import AnyPath, place, write_bytes
from mlmdist.shard import BlockEntry, Shard
from mlmdist.shards import ShardSet
from tests.data.corpus import VOCABULARY, random_block, write_set
from tests.data.test_loader import Entry, log_of, logged, make, world_log
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


def test_a_warm_cache_asks_the_store_for_no_block_and_no_index(
    remote: AnyPath, server: S3Server, tmp_path: Path, expected: list[Entry]
) -> None:
    """A restart opens the set and asks twice for its table: how long it is, and its lines."""
    before = server.requests
    ShardSet.open(remote)
    opening = server.requests - before
    log_of(make(remote, cache=cache(tmp_path), **COMMON))
    before = server.requests
    assert log_of(make(remote, cache=cache(tmp_path), **COMMON)) == expected
    assert server.requests - before == opening + 2


def test_s2_a_damaged_index_of_the_cache_is_fetched_again(
    remote: AnyPath, expected: list[Entry], tmp_path: Path
) -> None:
    log_of(make(remote, cache=cache(tmp_path), **COMMON))
    for path in (indexes := sorted(tmp_path.glob("*/__index__"))):
        path.write_bytes(path.read_bytes().replace(b'"offset":', b'"offsat":'))
    assert len(indexes) == 4
    assert log_of(make(remote, cache=cache(tmp_path), **COMMON)) == expected
    assert all(b'"offset":' in path.read_bytes() for path in indexes)


def test_blocks_of_held_out_sets_are_fetched_ahead(
    remote: AnyPath, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[tuple[str, str]] = []
    real = Shard._read

    def noted(shard: Shard, entry: BlockEntry) -> bytes:
        fetched.append((entry.key, threading.current_thread().name))
        return real(shard, entry)

    def passes(folder: AnyPath) -> list[list[Entry]]:
        section = cache(tmp_path)
        held_out = HeldOut(
            config.Data(train=local, tokenizer=Path(), cache=section),
            shards=ShardSet.open(folder, BlockCache.open(section.folder, section.gigabytes)),
            vocabulary=VOCABULARY, global_batch=1000, micro_batch=1000, rank=0, world_size=1,
        )  # fmt: skip
        return [[entry for step in held_out for entry in logged(step)] for _ in range(2)]

    expected = passes(local)
    monkeypatch.setattr(Shard, "_read", noted)
    assert passes(remote) == expected
    assert sorted(key for key, _ in fetched) == [f"{number:06}" for number in range(7)]
    assert "lookahead" in {thread for _, thread in fetched}
    assert not [t for t in threading.enumerate() if t.name == "lookahead"]


def test_a_bad_shard_of_a_store_is_left_out_as_one_on_disk_is(
    local: Path, server: S3Server, tmp_path: Path
) -> None:
    """Cut or gone; also where its index is in the cache and its blocks are not."""
    plain: dict[str, Any] = {"batch": 1000, "micro": 1000, "num_batches": 6, "pair": "none"}
    skip = {**plain, "bad_blocks": "skip", "bad_blocks_share": 0.5}
    folder, section = copied(local, "hurt"), cache(tmp_path / "cache")
    (tmp_path / "set").mkdir()
    for path in local.iterdir():
        (tmp_path / "set" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "set/000001.tar").unlink()
    expected = log_of(make(tmp_path / "set", **skip))
    ShardSet.open(folder, BlockCache.open(section.folder, section.gigabytes))._shard(1)
    data = server.read("hurt/000001.tar")
    write_bytes(folder / "000001.tar", data[:9000])
    assert log_of(make(folder, cache=section, **skip)) == expected
    assert log_of(make(folder, cache=cache(tmp_path / "other"), **skip)) == expected
    (folder / "000001.tar").unlink()
    assert log_of(make(folder, cache=section, **skip)) == expected
    with pytest.raises(DataError, match=r"hurt/000001\.tar: .*skip leaves its 2048 rows"):
        log_of(make(folder, cache=cache(tmp_path / "third"), **plain))


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
    assert len(paths) == 11  # seven blocks, four indexes
    for number, path in enumerate(paths):
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2 * (number % 2)] or bytes([data[0] ^ 1]) + data[1:])
    assert log_of(make(remote, cache=section, **COMMON)) == expected
    damaged = [r.getMessage() for r in caplog.records if "damaged in the cache" in r.getMessage()]
    assert len(damaged) == len(set(damaged)) == 11


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
