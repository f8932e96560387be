"""Shards on an object store: the same bytes, the same checks and words, few requests."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from upath import UPath

from mlmdist import object_store
from mlmdist.blocks import Block
from mlmdist.errors import ConfigError, DataError
from mlmdist.files import AnyPath, atomic_writer, place, write_bytes
from mlmdist.shard import BadBlock, Shard, ShardEntry, write_shard
from mlmdist.shards import ShardSet
from tests.data.corpus import VOCABULARY, random_block, write_set
from tests.s3_server import BUCKET, S3Server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="module")
def both(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AnyPath]:
    """One set on disk, and its copy on the store."""
    local = tmp_path_factory.mktemp("set")
    write_set(local, random_block(2500)).close()
    with atomic_writer(local / "unigram.npy") as file:
        np.save(file, np.arange(VOCABULARY.size, dtype=np.uint64))
    remote = place(f"s3://{BUCKET}/set")
    for path in local.iterdir():
        write_bytes(remote / path.name, path.read_bytes())
    return local, remote


def assert_equal(one: Block, other: Block) -> None:
    for each in fields(Block):
        np.testing.assert_array_equal(getattr(one, each.name), getattr(other, each.name))


def test_a_remote_set_reads_as_a_local_one(both: tuple[Path, AnyPath]) -> None:
    local, remote = map(ShardSet.open, both)
    assert local.manifest == remote.manifest
    assert local.manifest.num_shards == 2
    for number in (2, 0, 1):
        assert_equal(local.read_block(number), remote.read_block(number))
    assert local.read_unigram().tolist() == remote.read_unigram().tolist()
    local.close()
    remote.close()


def test_s1_a_shard_on_a_store_has_the_bytes_of_one_on_disk(
    both: tuple[Path, AnyPath], server: S3Server
) -> None:
    local, _ = both
    opened = ShardSet.open(local)
    entry = opened.entry(0)
    blocks = [(f"{number:06d}", opened.read_block(number)) for number in range(entry.blocks)]
    assert write_shard(place(f"s3://{BUCKET}/again/000000.tar"), blocks) == entry
    assert server.read("again/000000.tar") == (local / "000000.tar").read_bytes()
    opened.close()


def test_opening_takes_two_requests_and_a_block_one(
    both: tuple[Path, AnyPath], server: S3Server
) -> None:
    _, remote = both
    entry = ShardSet.open(remote).entry(0)
    before = server.requests
    shard = Shard(remote / "000000.tar", entry)
    assert server.requests - before == 2
    shard.read_block(1)
    shard.read_block(0)
    assert server.requests - before == 4


def test_the_lines_of_many_shards_take_two_requests(
    both: tuple[Path, AnyPath], server: S3Server
) -> None:
    local, remote = map(ShardSet.open, both)
    before = server.requests
    assert [remote.entry(n) for n in (1, 0, 1)] == [local.entry(n) for n in (1, 0, 1)]
    assert server.requests - before == 2
    with pytest.raises(DataError, match=r"shards\.jsonl: line 3 cannot be read"):
        remote.entry(2)


DAMAGES: dict[str, Callable[[bytes, ShardEntry], bytes]] = {
    "cut": lambda data, _: data[:-1],
    "grown": lambda data, _: data + b"\0",
    "trailer": lambda data, _: data[:-3] + b"abc",
    "index": lambda data, e: data[: e.index_offset] + b"x" + data[e.index_offset + 1 :],
    "header": lambda data, _: b"x" + data[1:],
    "tokens": lambda data, _: data[:700] + bytes([data[700] ^ 1]) + data[701:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_s2_a_damaged_remote_shard_is_named_as_a_local_one(
    damage: str, both: tuple[Path, AnyPath], tmp_path: Path
) -> None:
    local, _ = both
    entry = ShardSet.open(local).entry(0)
    data = DAMAGES[damage]((local / "000000.tar").read_bytes(), entry)
    said: list[str] = []
    for folder in (tmp_path, place(f"s3://{BUCKET}/damaged")):
        write_bytes(folder / "000000.tar", data)
        with pytest.raises(DataError) as caught:
            Shard(folder / "000000.tar", entry).read_block(0)
        said.append(str(caught.value).replace(str(folder), "FOLDER"))
    assert said[0] == said[1]
    assert said[0].startswith("FOLDER/000000.tar: ")


def test_s2_an_object_that_changes_or_goes_under_a_reader_is_named(
    both: tuple[Path, AnyPath],
) -> None:
    local, _ = both
    entry = ShardSet.open(local).entry(0)
    data = (local / "000000.tar").read_bytes()
    path = place(f"s3://{BUCKET}/changing/000000.tar")
    write_bytes(path, data)
    shard = Shard(path, entry)
    write_bytes(path, data[:100_000])
    with pytest.raises(DataError, match=r"block 000001 at byte \d+: only \d+ of \d+ bytes"):
        shard.read_block(1)
    path.unlink()
    with pytest.raises(BadBlock, match=r"000000\.tar: block 000001 at byte \d+: cannot be read"):
        shard.read_block(1)


def test_a_missing_set_or_shard_is_named(both: tuple[Path, AnyPath], server: S3Server) -> None:
    _, remote = both
    with pytest.raises(DataError, match=r"s3://corpora/nothing: no manifest\.json"):
        ShardSet.open(place(f"s3://{BUCKET}/nothing"))
    opened = ShardSet.open(remote)
    with pytest.raises(DataError, match=r"set/000009\.tar: cannot be opened"):
        Shard(remote / "000009.tar", opened.entry(0))
    opened = ShardSet.open(remote)
    server.allow(0)
    with pytest.raises(ConfigError, match=r"shards\.jsonl: Forbidden; mend that"):
        opened.read_block(0)
    server.allow(None)
    assert opened.read_block(0).num_rows


def test_s2_a_shard_appears_when_its_upload_is_complete(
    both: tuple[Path, AnyPath], server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "PART_BYTES", 5 << 20)
    block = random_block(1024)
    server.allow(3)  # of an upload in several parts
    with pytest.raises(ConfigError, match="Access Denied"):
        write_shard(
            place(f"s3://{BUCKET}/half/000000.tar"), [(f"{n:06}", block) for n in range(60)]
        )
    server.allow(None)
    assert server.keys("half") == []


def test_s2_a_block_damaged_on_its_way_is_asked_for_again(
    both: tuple[Path, AnyPath], monkeypatch: pytest.MonkeyPatch
) -> None:
    local, remote = map(ShardSet.open, both)
    local.read_block(0)
    remote.read_block(0)  # the index is here
    real, asked = object_store.read_range, []

    def damaged_once(path: UPath, start: int, end: int) -> bytes:
        asked.append(start)
        data = real(path, start, end)
        return data if len(asked) > 1 else data[:700] + bytes([data[700] ^ 1]) + data[701:]

    monkeypatch.setattr(object_store, "read_range", damaged_once)
    assert_equal(remote.read_block(1), local.read_block(1))
    assert len(asked) == 2
