"""A stage goes on where it was, skips what is done, and refuses what it cannot tell apart."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from data_prep import lock
from data_prep.lock import locked
from data_prep.stages import (
    Stamp,
    Work,
    finish_stage,
    open_stage,
    read_stamp,
    stamp,
    still_to_do,
)
from mlmdist import object_store
from mlmdist.errors import ConfigError, DataError
from mlmdist.files import AnyPath, place, write_bytes, write_json, write_text
from tests.s3_server import BUCKET, S3Server

WANTED = stamp({"windows": {"overlap": 16}}, [{"name": "a", "bytes": 5}])
OTHER_SETTINGS = dataclasses.replace(WANTED, settings={"windows": {"overlap": 0}})
OTHER_INPUTS = dataclasses.replace(WANTED, inputs=[{"name": "a", "bytes": 6}])
OTHER_VERSIONS = dataclasses.replace(WANTED, versions=WANTED.versions | {"sentencex": "0.1"})


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(params=["disk", "s3"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> AnyPath:
    if request.param == "disk":
        return tmp_path
    server: S3Server = request.getfixturevalue("server")
    server.reset()
    return place(f"s3://{BUCKET}/out")


def begin(folder: AnyPath, wanted: Stamp = WANTED, *, overwrite: bool = False) -> Work:
    work = open_stage(folder, wanted, overwrite=overwrite)
    assert work is not None
    return work


def names(folder: AnyPath) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_what_is_not_there_is_done_largest_first(output: AnyPath) -> None:
    results = [output / "work" / f"{number}" for number in range(6)]
    write_text(results[3], "done")
    assert still_to_do(results, [4, 9, 1, 99, 9, 5]) == [1, 4, 5, 0, 2]


def test_s1_a_killed_stage_goes_on_with_its_parts(output: AnyPath) -> None:
    work = begin(output / "shards")
    for folder in (work.result, work.scratch):
        write_text(folder / "deep" / "part", "whole")
    if isinstance(output, Path):
        (output / "shards.work" / "deep" / f"half.tmp-{os.getpid()}").write_text("hal")
        (output / "shards.scratch" / f"half.tmp-{os.getpid()}").write_text("hal")
    again = begin(output / "shards")
    assert names(again.result)[0] == "deep"
    assert len(names(again.result)) == 2
    assert names(again.result / "deep") == ["part"]
    assert names(again.scratch) == ["deep"]


def test_a_finished_stage_is_skipped_and_appears_at_once(output: AnyPath) -> None:
    folder = output / "shards"
    work = begin(folder)
    write_text(work.result / "part", "whole")
    write_text(work.scratch / "part", "of the way")
    assert read_stamp(folder) is None
    assert finish_stage(work) == folder
    assert (folder / "part").read_text() == "whole"
    assert open_stage(folder, WANTED, overwrite=False) is None
    assert read_stamp(folder) == WANTED
    assert names(output) == ["shards"]
    assert names(folder) == ["part", "stage.json"]


def test_what_a_kill_left_beside_a_result_goes(output: AnyPath) -> None:
    """A program that dies once its result stands has not removed its scratch yet."""
    work = begin(output / "shards")
    write_text(work.result / "part", "whole")
    finish_stage(work)
    write_text(work.scratch / "part", "of the way")
    if isinstance(output, Path):
        write_text(output / "shards.old" / "part", "of the result before")
    else:
        write_text(output / "shards" / "stage.work.json", "{}")
    assert open_stage(output / "shards", WANTED, overwrite=False) is None
    assert names(output) == ["shards"]
    assert names(output / "shards") == ["part", "stage.json"]


def test_a_finished_stage_of_other_libraries_stands(output: AnyPath) -> None:
    finish_stage(begin(output / "shards", OTHER_VERSIONS))
    assert open_stage(output / "shards", WANTED, overwrite=False) is None


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (OTHER_SETTINGS, r"settings\.windows\.overlap: 16 there, 0 here"),
        (OTHER_INPUTS, r"inputs\.0\.bytes: 5 there, 6 here"),
    ],
)
def test_another_result_is_not_overwritten_unasked(
    other: Stamp, said: str, output: AnyPath
) -> None:
    folder = output / "shards"
    work = begin(folder)
    write_text(work.result / "deep" / "of the old", "x")
    finish_stage(work)
    with pytest.raises(DataError, match=said):
        open_stage(folder, other, overwrite=False)
    assert read_stamp(folder) == WANTED
    work = begin(folder, other, overwrite=True)
    if isinstance(output, Path):
        assert read_stamp(folder) == WANTED, "the old result stands until the new one is whole"
    else:
        assert read_stamp(folder) is None, "half of it is no result"
    write_text(work.result / "new", "x")
    finish_stage(work)
    assert read_stamp(folder) == other
    assert names(output) == ["shards"]
    assert names(folder) == ["new", "stage.json"]


def test_parts_of_other_library_versions_are_not_continued(output: AnyPath) -> None:
    folder = output / "shards"
    write_text(begin(folder, OTHER_VERSIONS).scratch / "part", "old")
    with pytest.raises(DataError, match=r"versions\.sentencex: '0\.1' there"):
        open_stage(folder, WANTED, overwrite=False)
    assert names(begin(folder, overwrite=True).scratch) == []


@pytest.mark.parametrize("other", [OTHER_SETTINGS, OTHER_INPUTS])
def test_parts_of_other_settings_or_inputs_are_thrown_away(other: Stamp, output: AnyPath) -> None:
    folder = output / "shards"
    work = begin(folder, other)
    write_text(work.scratch / "part", "old")
    write_text(work.result / "part", "old")
    work = begin(folder)
    assert names(work.scratch) == []
    assert len(names(work.result)) == 1


@pytest.mark.parametrize("note", [None, "not JSON", '{"made": "by another program"}'])
def test_a_folder_that_is_no_result_is_not_touched(note: str | None, output: AnyPath) -> None:
    folder = output / "shards"
    write_text(folder / "precious", "mine")
    if note:
        write_text(folder / "stage.json", note)
    for overwrite in (False, True):
        with pytest.raises(DataError, match="remove it yourself"):
            open_stage(folder, WANTED, overwrite=overwrite)
    assert (folder / "precious").read_text() == "mine"


@pytest.mark.parametrize("changes", range(7))
def test_s2_a_kill_while_a_result_is_replaced_leaves_no_half_of_it(
    changes: int, server: S3Server
) -> None:
    """A result with a stamp is the whole old one or the whole new one, and the way goes on."""
    server.reset()
    folder = place(f"s3://{BUCKET}/out/shards")
    work = begin(folder)
    old = {"manifest.json", "a", "train/manifest.json", "train/b"}
    for name in old:
        write_text(work.result / name, "old")
    finish_stage(work)
    server.allow(changes)
    with pytest.raises(ConfigError, match=r"Denied|Forbidden"), object_store.one_line_errors():
        finish_stage(begin(folder, OTHER_SETTINGS, overwrite=True))
    server.allow(None)
    left = set(server.tree("out/shards")) - {"stage.work.json"}
    if (stamped := read_stamp(folder)) == OTHER_SETTINGS:
        assert not left
    elif stamped == WANTED:
        assert left == old
    else:
        assert stamped is None
        assert left == old or not left & {"manifest.json", "train/manifest.json"}
    work = open_stage(folder, OTHER_SETTINGS, overwrite=True)
    if work:
        finish_stage(work)
    assert read_stamp(folder) == OTHER_SETTINGS
    assert server.tree("out/shards") == {}


def test_a_held_folder_is_refused(output: AnyPath) -> None:
    refused = pytest.raises(ConfigError, match="another program works in it")
    with locked(output), refused, locked(output):
        pass
    with locked(output):
        pass
    with pytest.raises(KeyError), locked(output):
        raise KeyError
    with locked(output):
        pass


def test_a_refusal_names_the_owner_and_the_way_out(server: S3Server) -> None:
    server.reset()
    output = place(f"s3://{BUCKET}/out")
    with (
        locked(output),
        pytest.raises(
            ConfigError,
            match=rf"\(process {os.getpid()} on .+, since 20.+Z\).* remove s3://corpora/out/\.lock$",
        ),
        locked(output),
    ):
        pass
    assert server.keys() == []


def killed_owner() -> dict[str, object]:
    """The lock of a process of this machine that was killed."""
    script = "from data_prep.lock import _this_process; from dataclasses import asdict; import json"
    words = [sys.executable, "-c", f"{script}; print(json.dumps(asdict(_this_process())))"]
    return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)


def test_the_lock_of_a_killed_program_is_taken_over(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reset()
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.01)
    output = place(f"s3://{BUCKET}/out")
    dead = killed_owner()
    write_json(output / ".lock", dead)
    with locked(output):
        assert json.loads(server.read("out/.lock"))["process"] == os.getpid()
    write_json(output / ".lock", dead | {"process": os.getpid()})  # the number, used again
    with locked(output):
        pass
    for other in (dead | {"machine": "another"}, dead | {"process": os.getppid(), "machine": "x"}):
        write_json(output / ".lock", other)
        with pytest.raises(ConfigError, match="another program works in it"), locked(output):
            pass
    write_bytes(output / ".lock", b"?")
    with pytest.raises(ConfigError, match="cannot be read"), locked(output):
        pass


def test_a_lock_that_is_lost_while_it_is_taken_over_is_given_up(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reset()
    output = place(f"s3://{BUCKET}/out")
    dead = killed_owner()
    write_json(output / ".lock", dead)
    other = dead | {"machine": "another"}
    monkeypatch.setattr(lock.time, "sleep", lambda _: write_json(output / ".lock", other))
    with pytest.raises(ConfigError, match="came in at the same time"), locked(output):
        pass
    assert json.loads(server.read("out/.lock")) == other


def test_a_store_without_conditions_is_asked_first(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reset()
    path = object_store.object_path(f"s3://{BUCKET}/out/.lock")
    store = object_store.filesystem(path)
    pipe = store.pipe_file

    def unconditional(path: str, data: bytes, mode: str = "overwrite") -> None:
        if mode == "create":
            raise NotImplementedError
        pipe(path, data)

    monkeypatch.setattr(store, "pipe_file", unconditional)
    object_store.create(path, b"first")
    with pytest.raises(FileExistsError):
        object_store.create(path, b"second")
    assert server.read("out/.lock") == b"first"


def test_an_output_that_cannot_be_written_is_one_line(server: S3Server, tmp_path: Path) -> None:
    server.reset()
    no_bucket = pytest.raises(ConfigError, match="bucket does not exist; make the bucket")
    with no_bucket, locked(place("s3://nowhere/out")):
        pass
    server.allow(0)
    with pytest.raises(ConfigError, match="Access Denied"), locked(place(f"s3://{BUCKET}/out")):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"), locked(tmp_path / "file" / "out"):
        pass
