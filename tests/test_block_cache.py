"""The cache of blocks: right bytes whatever befalls its folder, and never more than its bound."""

import errno
import fcntl
import logging
import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import google_crc32c
import pytest

from mlmdist import block_cache
from mlmdist.block_cache import INDEX_KEY, BlockCache, CachedBlock, default_folder
from mlmdist.errors import DataError

SIZE = 1000
SHARDS = [f"{number:064x}" for number in range(3)]


def content(number: int) -> bytes:
    return random.Random(number).randbytes(SIZE)


def block(number: int) -> CachedBlock:
    """Block `number` of a made-up store."""
    data = content(number)
    return CachedBlock(
        SHARDS[number % 3], f"{number:06}", len(data), google_crc32c.value(data)
    )  # fmt: skip


class Store:
    """Where blocks come from, counting."""

    def __init__(self) -> None:
        self.fetched: list[int] = []

    def read(self, cache: BlockCache, number: int) -> bytes:
        def fetch() -> bytes:
            self.fetched.append(number)
            return content(number)

        return cache.read(block(number), fetch)


def nobody() -> NoReturn:
    raise AssertionError("fetched, though it is in the cache")


def blocks_in(folder: Path) -> list[str]:
    return sorted(path.name for shard in SHARDS for path in (folder / shard).glob("*"))


def used(folder: Path) -> int:
    """Bytes of the blocks, and of one that is being written."""
    total = 0
    for path in [folder / "incoming", *(p for s in SHARDS for p in (folder / s).glob("*"))]:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def test_indexes_are_evicted_behind_all_blocks(tmp_path: Path) -> None:
    cache, store = BlockCache(tmp_path, 4 * SIZE), Store()
    index = replace(block(0), key=INDEX_KEY)
    cache.read(index, lambda: content(0))
    for number in range(1, 9):
        store.read(cache, number)
    assert cache.read(index, nobody) == content(0)
    assert used(tmp_path) <= 4 * SIZE
    assert len(blocks_in(tmp_path)) == 3


def test_a_block_is_fetched_once_by_all_who_share_the_folder(tmp_path: Path) -> None:
    store = Store()
    assert store.read(BlockCache(tmp_path, 10 * SIZE), 1) == content(1)
    assert BlockCache(tmp_path, 10 * SIZE).read(block(1), nobody) == content(1)
    assert store.fetched == [1]
    assert (tmp_path / "total").read_text() == str(SIZE)


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "grown"])
def test_s2_a_damaged_file_is_dropped_and_fetched_again(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, cache = Store(), BlockCache(tmp_path, 10 * SIZE)
    store.read(cache, 1)
    path = tmp_path / SHARDS[1] / "000001"
    good = path.read_bytes()
    bad = {"flipped": bytes([good[0] ^ 1]) + good[1:], "cut": good[:-1], "empty": b""}
    path.write_bytes(bad.get(damage, good + b"x"))
    for _ in range(3):
        assert store.read(cache, 1) == good
    assert store.fetched == [1, 1]
    assert path.read_bytes() == good
    assert [r.getMessage() for r in caplog.records if "damaged" in r.getMessage()] == [
        f"{path}: damaged in the cache; removed, to be fetched again"
    ]


def test_the_block_used_longest_ago_goes_first(tmp_path: Path) -> None:
    store, cache = Store(), BlockCache(tmp_path, 4 * SIZE)
    for number in (0, 1, 2, 3, 0, 1):
        store.read(cache, number)
        time.sleep(0.02)  # clocks of file systems tick slowly
    cache.fetch_ahead(block(2), nobody)
    store.read(cache, 4)
    assert blocks_in(tmp_path) == ["000001", "000002", "000004"]
    assert not (tmp_path / SHARDS[0]).exists()
    assert store.fetched == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("max_bytes", [1, SIZE - 1])
def test_a_cache_smaller_than_a_block_keeps_nothing(tmp_path: Path, max_bytes: int) -> None:
    store, cache = Store(), BlockCache(tmp_path / "cache", max_bytes)
    assert [store.read(cache, 1) for _ in range(2)] == [content(1)] * 2
    cache.fetch_ahead(block(1), nobody)
    assert not (tmp_path / "cache").exists()


def test_a_cache_of_one_block_holds_the_last(tmp_path: Path) -> None:
    store, cache = Store(), BlockCache(tmp_path, SIZE)
    for number in (1, 2, 2):
        store.read(cache, number)
    assert (blocks_in(tmp_path), store.fetched) == (["000002"], [1, 2])


def test_the_default_is_the_users_cache_and_nothing_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert BlockCache.open(tmp_path, 0) is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "mlmdist"
    monkeypatch.delenv("XDG_CACHE_HOME")
    cache = BlockCache.open(None, 0.5)
    assert cache is not None
    assert (cache.folder, cache.max_bytes) == (Path.home() / ".cache/mlmdist", 500_000_000)


def test_errors_of_the_source_pass_and_leave_nothing(tmp_path: Path) -> None:
    def fetch() -> NoReturn:
        raise DataError("wrong at the source")

    with pytest.raises(DataError, match="wrong at the source"):
        BlockCache(tmp_path, 10 * SIZE).read(block(1), fetch)
    assert used(tmp_path) == 0


def test_of_threads_that_want_a_block_at_once_one_fetches(tmp_path: Path) -> None:
    store, cache = Store(), BlockCache(tmp_path, 10 * SIZE)

    def slow() -> bytes:
        store.fetched.append(1)
        time.sleep(0.1)
        return content(1)

    threads = [threading.Thread(target=cache.read, args=(block(1), slow)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.fetched == [1]


def on_processes(work: Callable[..., None], *arguments: Any, count: int = 1) -> list[Any]:
    """Processes that do `work(number, *arguments)`, started."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=work, args=(n, *arguments)) for n in range(count)]
    for process in processes:
        process.start()
    return processes


def read_at_random(seed: int, folder: Path, max_bytes: int, end: float) -> None:
    """Read blocks; when one has been written, under the lock, the folder is measured."""
    replace, measured = Path.replace, [0]

    def measure(path: Path, target: Path) -> Path:
        time.sleep(0.002)  # so that others come in between, if they can
        measured.append(used(folder))
        return replace(path, target)

    Path.replace = measure  # pyright: ignore[reportAttributeAccessIssue]
    draw, cache, store = random.Random(seed), BlockCache(folder, max_bytes), Store()
    while time.monotonic() < end:
        number = draw.randrange(12)
        assert store.read(cache, number) == content(number)
    assert 3 * SIZE < max(measured) <= max_bytes


def test_four_processes_never_fill_more_than_the_bound(tmp_path: Path) -> None:
    end, bound = time.monotonic() + 2.5, 5 * SIZE
    processes = on_processes(read_at_random, tmp_path, bound, end, count=4)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert int((tmp_path / "total").read_text()) == used(tmp_path) <= bound


def write_and_die(_: int, folder: Path, where: str) -> None:
    """Begin to keep a block, and be killed while it is written, or just before it appears."""

    def die(*_: object) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def write_half(path: Path, data: bytes) -> None:
        os.close(os.open(path, os.O_CREAT))
        with path.open("wb") as file:
            file.write(data[: SIZE // 2])
        die()

    if where == "writing":
        Path.write_bytes = write_half  # pyright: ignore[reportAttributeAccessIssue]
    else:
        Path.replace = die  # pyright: ignore[reportAttributeAccessIssue]
    Store().read(BlockCache(folder, 3 * SIZE), 5)


@pytest.mark.parametrize("where", ["writing", "renaming"])
def test_a_process_killed_while_it_writes_harms_nobody(tmp_path: Path, where: str) -> None:
    store, cache = Store(), BlockCache(tmp_path, 3 * SIZE)
    store.read(cache, 0)
    (process,) = on_processes(write_and_die, tmp_path, where)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (tmp_path / "incoming").exists()
    for number in (5, 1, 2, 3, 4):
        assert store.read(cache, number) == content(number)
        assert used(tmp_path) <= 3 * SIZE
    assert not (tmp_path / "incoming").exists()
    assert int((tmp_path / "total").read_text()) == used(tmp_path)


@pytest.mark.parametrize("noted", ["0", "", "none"])
def test_a_total_that_is_wrong_after_a_power_cut_is_counted_anew(
    tmp_path: Path, noted: str
) -> None:
    store = Store()
    for number in range(5):
        store.read(BlockCache(tmp_path, 5 * SIZE), number)
    (tmp_path / "total").write_text(noted)
    store.read(BlockCache(tmp_path, 5 * SIZE), 7)
    assert int((tmp_path / "total").read_text()) == used(tmp_path) <= 5 * SIZE


def test_a_lock_that_is_never_let_go_delays_but_does_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_cache, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(block_cache, "FETCH_SECONDS", 0.05)
    store, cache = Store(), BlockCache(tmp_path, 9 * SIZE)
    names = ["lock", *(f"fetching-{number:02}" for number in range(block_cache.NUM_FETCHES))]
    held = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in names]
    for descriptor in held:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    started = time.monotonic()
    for number in range(8):
        assert store.read(cache, number) == content(number)
    assert time.monotonic() - started < 2
    for descriptor in held:
        os.close(descriptor)
    assert blocks_in(tmp_path) == []


def test_a_full_disk_costs_speed_alone_and_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(block_cache, "PAUSE_SECONDS", 0.0)
    store, cache = Store(), BlockCache(tmp_path, 9 * SIZE)
    store.read(cache, 0)

    def refuse(path: Path, data: bytes) -> NoReturn:
        with path.open("wb") as file:
            file.write(data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", refuse)
        for number in (1, 2, 3, 0):
            assert store.read(cache, number) == content(number)
    assert store.fetched == [0, 1, 2, 3]
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(said) == 1
    assert "No space left on device; blocks are fetched without the cache" in said[0]
    assert not (tmp_path / "incoming").exists()
    store.read(cache, 1)
    assert blocks_in(tmp_path) == ["000000", "000001"]


def test_a_pause_follows_a_refusal(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("no folder can be made here")
    store, cache = Store(), BlockCache(folder / "cache", 9 * SIZE)
    assert [store.read(cache, 1) for _ in range(3)] == [content(1)] * 3
    assert cache.paused_until > time.monotonic()
    cache.fetch_ahead(block(1), nobody)


def test_a_disk_that_others_fill_gets_its_room_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, cache = Store(), BlockCache(tmp_path, 9 * SIZE)
    for number in range(6):
        store.read(cache, number)
    usage = shutil.disk_usage(tmp_path)
    free = block_cache.FREE_BYTES - 3 * SIZE  # three blocks more than we may
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free))
    store.read(cache, 7)
    assert used(tmp_path) <= 3 * SIZE
    assert "000007" in blocks_in(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    store.read(cache, 8)
    assert blocks_in(tmp_path) == []
