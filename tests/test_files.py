"""A file is there whole or not at all, on a disk and on an object store."""

import gc
import hashlib
import io
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from upath import UPath

from mlmdist import object_store
from mlmdist.arrays import read_array
from mlmdist.errors import ConfigError, DataError, UserError
from mlmdist.files import (
    TEMPORARY_MARK,
    AnyPath,
    atomic_writer,
    existing,
    make_folder,
    open_random,
    place,
    remove_folder,
    remove_temporaries,
    sha256,
    write_bytes,
    write_json,
)
from tests.s3_server import BUCKET, S3Server

TWO_PARTS = object_store.PART_BYTES + 5


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(params=["disk", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> AnyPath:
    if request.param == "disk":
        return tmp_path
    server: S3Server = request.getfixturevalue("server")
    server.reset()
    return place(f"s3://{BUCKET}/folder")


def names(folder: AnyPath) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_name_is_a_path_or_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    assert place("data/x") == Path("data/x")
    assert place("~/x") == Path("/home/anna/x")
    assert place(Path("~/x")) == Path("/home/anna/x")
    assert place("file:///data/x") == Path("/data/x")
    remote = place("s3://bucket/folder/")
    assert str(remote) == "s3://bucket/folder"
    assert not isinstance(remote, Path)
    assert place(remote) == remote
    assert pickle.loads(pickle.dumps(remote)).storage_options == remote.storage_options
    assert (remote / "documents").with_name("documents.scratch").name == "documents.scratch"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)  # pyright: ignore
    with pytest.raises(ConfigError, match=r"^s3://b/x: .* missing; pip install mlmdist\[s3\]$"):
        place("s3://b/x")
    with pytest.raises(ConfigError, match="fax:// is no known kind of storage"):
        place("fax://b/x")


def test_what_is_written_is_read(folder: AnyPath) -> None:
    write_json(folder / "deep" / "value.json", {"b": 1, "a": "ü"})
    assert (folder / "deep" / "value.json").read_bytes() == '{\n  "a": "ü",\n  "b": 1\n}\n'.encode()
    with atomic_writer(folder / "array.npy") as file:
        np.save(file, np.arange(5))
    assert read_array(folder / "array.npy").tolist() == [0, 1, 2, 3, 4]
    write_bytes(folder / "empty", b"")
    assert (folder / "empty").read_bytes() == b""
    write_bytes(folder / "empty", b"now more")
    assert sha256(folder / "empty") == hashlib.sha256(b"now more").hexdigest()


def fail_after(path: AnyPath, size: int) -> None:
    with atomic_writer(path) as file:
        file.write(bytes(size))
        raise KeyError


@pytest.mark.parametrize("size", [3, TWO_PARTS])
def test_s2_a_writer_that_fails_leaves_nothing(size: int, folder: AnyPath) -> None:
    with pytest.raises(KeyError):
        fail_after(folder / "shard.tar", size)
    gc.collect()  # a writer that nobody closed must not upload what it has
    assert names(folder) == []
    write_bytes(folder / "shard.tar", b"old")
    with pytest.raises(KeyError):
        fail_after(folder / "shard.tar", size)
    gc.collect()
    assert (folder / "shard.tar").read_bytes() == b"old"
    assert names(folder) == ["shard.tar"]


def test_s2_a_failed_upload_leaves_no_upload_either(server: S3Server) -> None:
    server.reset()
    with pytest.raises(KeyError):
        fail_after(place(f"s3://{BUCKET}/x"), TWO_PARTS)
    assert server.uploads() == []
    assert server.keys() == []


@pytest.mark.parametrize("changes", [0, 1, 2, 3])
def test_s2_an_upload_that_the_store_refuses_leaves_no_object(
    changes: int, server: S3Server
) -> None:
    server.reset()
    server.allow(changes)  # of: begin, two parts, complete
    with (
        pytest.raises(ConfigError, match=r"^s3://corpora/x: Access Denied; "),
        atomic_writer(place(f"s3://{BUCKET}/x")) as file,
    ):
        file.writelines([bytes(object_store.PART_BYTES), b"more"])
    server.allow(None)
    assert server.keys() == []


def test_an_upload_holds_no_more_than_its_parts(server: S3Server) -> None:
    server.reset()
    largest = 0
    with atomic_writer(place(f"s3://{BUCKET}/large")) as file:
        for _ in range(20):
            file.write(bytes(1 << 20))
            largest = max(largest, file.buffer.getbuffer().nbytes)  # pyright: ignore
    assert largest <= object_store.PART_BYTES + (1 << 20)
    assert place(f"s3://{BUCKET}/large").stat().st_size == 20 << 20


@given(st.integers(-1, 12), st.integers(0, 14))
def test_a_random_file_reads_what_a_file_in_memory_does(offset: int, size: int) -> None:
    data = bytes(range(11))
    path = UPath("memory://random/file")
    path.write_bytes(data)
    offset = max(offset, 0)
    expected = io.BytesIO(data)
    expected.seek(offset)
    assert open_random(path).read(offset, size) == expected.read(size)


def test_a_random_file_is_read_at_any_place(folder: AnyPath) -> None:
    data = os.urandom(5000)
    write_bytes(folder / "data", data)
    file = open_random(folder / "data")
    assert file.size == 5000
    for offset, size in ((0, 5000), (17, 100), (4990, 100), (5000, 1), (6000, 1), (3, 0)):
        assert file.read(offset, size) == data[offset : offset + size]
    file.close()
    with pytest.raises(FileNotFoundError):
        open_random(folder / "nothing")


def test_a_fork_reads_on(server: S3Server) -> None:
    path = place(f"s3://{BUCKET}/forked")
    write_bytes(path, b"0123456789")
    file = open_random(path)
    assert file.read(2, 3) == b"234"
    process = os.fork()
    if process == 0:
        os._exit(0 if file.read(5, 2) == b"56" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def test_what_exists_is_found_by_one_look_at_its_folder(folder: AnyPath) -> None:
    for name in ("b", "deep/a"):
        write_bytes(folder / name, b"1")
    paths = [folder / name for name in ("a", "b", "deep/a", "deep/b", "none/a", "b/a")]
    assert existing(paths) == [False, True, True, False, False, False]
    assert existing([]) == []


def test_folders_go_with_all_that_is_in_them(folder: AnyPath) -> None:
    write_bytes(folder / "one" / "deep" / "a", b"1")
    write_bytes(folder / "one" / "b", b"1")
    write_bytes(folder / "one.more", b"1")
    remove_folder(folder / "one")
    assert names(folder) == ["one.more"]
    remove_folder(folder / "one")
    make_folder(folder / "new" / "er")
    write_bytes(folder / "new" / "er" / "a", b"1")
    assert (folder / "new" / "er" / "a").read_bytes() == b"1"


def test_temporaries_of_killed_processes_go(tmp_path: Path) -> None:
    for name in ("part", f"part{TEMPORARY_MARK}7", f"deep/part{TEMPORARY_MARK}8"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / f"folder{TEMPORARY_MARK}9" / "in").mkdir(parents=True)
    remove_temporaries(tmp_path)
    assert names(tmp_path) == ["deep", "part"]
    assert len(names(tmp_path / "deep")) == 1
    remove_temporaries(tmp_path, below=True)
    assert names(tmp_path / "deep") == []


def test_of_two_that_create_one_fails(server: S3Server) -> None:
    server.reset()
    path = object_store.object_path(f"s3://{BUCKET}/.lock")
    object_store.create(path, b"mine")
    with pytest.raises(FileExistsError):
        object_store.create(path, b"theirs")
    assert path.read_bytes() == b"mine"


def test_errors_of_a_store_are_one_line(server: S3Server) -> None:
    with pytest.raises(ConfigError, match="nowhere/x: The specified bucket does not exist; make"):
        write_bytes(place("s3://nowhere/x"), b"")
    server.allow(0)
    with pytest.raises(ConfigError, match="Access Denied; mend that"):
        write_bytes(place(f"s3://{BUCKET}/x"), b"x")
    with pytest.raises(ConfigError, match=r"Forbidden; mend that"):
        open_random(place(f"s3://{BUCKET}/x"))
    with (
        pytest.raises(ConfigError, match=r"^storage: .*HeadObject operation: Forbidden; mend"),
        object_store.one_line_errors(),
    ):
        place(f"s3://{BUCKET}/x").read_bytes()


def test_a_store_that_is_away_is_named_in_seconds(server: S3Server) -> None:
    server.reset()
    server.stop()
    try:
        started = time.monotonic()
        with pytest.raises(ConfigError, match=r"^s3://corpora/x: Could not connect .*AWS_ENDPOINT"):
            write_bytes(place(f"s3://{BUCKET}/x"), b"x")
        assert time.monotonic() - started < 20
    finally:
        server.start()
    write_bytes(place(f"s3://{BUCKET}/x"), b"x")


def test_missing_credentials_are_named() -> None:
    script = "import mlmdist.files as f; f.write_bytes(f.place('s3://b/x'), b'')"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")} | {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    }
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "ConfigError: s3://b/x: Unable to locate credentials; set AWS_ACCESS_KEY_ID" in (
        result.stderr
    )


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (OSError(28, "No space left on device", "/d/x"), ConfigError, "^/d/x: No space left"),
        (OSError(30, "Read-only file system", "/d/x"), ConfigError, "^/d/x: Read-only file"),
        (OSError("Not a gzipped file"), DataError, "Not a gzipped file; mend that"),
        (ConfigError("as it is"), ConfigError, "^as it is$"),
    ],
)
def test_errors_of_the_machine_are_one_line(
    error: Exception, kind: type[UserError], text: str
) -> None:
    with pytest.raises(kind, match=text), object_store.one_line_errors():
        raise error


def test_a_bug_stays_a_bug() -> None:
    with pytest.raises(ZeroDivisionError), object_store.one_line_errors():
        _ = 1 // 0


def test_workers_elsewhere_get_what_leads_to_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://here")
    monkeypatch.setenv("HOME_ALONE", "no")
    found = object_store.environment()
    assert found["AWS_ENDPOINT_URL"] == "http://here"
    assert "HOME_ALONE" not in found
