"""Law S1 through faults: crashes, full and read-only disks, inputs that change between runs.

The tasks run in the process itself, one after another (`inline.py`); those marked `long` at the end
do the same to the real program with a real Ray.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from typing import Any

import pytest

from data_prep import stages
from data_prep.lock import locked
from mlmdist.errors import ConfigError, DataError
from tests.data_prep.corpus import command, prep, tree, write_recipe, write_slice
from tests.data_prep.inline import SETTINGS, left_over, make_all, write_corpus

CHANGES = ("rename", "replace", "unlink", "mkdir", "rmdir", "fsync")
CRASHED = 77
OTHER_WINDOWS = {"windows": SETTINGS["windows"] | {"overlap": 0}}


def crash_after(changes: int, counter: Any) -> None:
    """End the process just before it changes the disk once more than that; count the changes."""

    def guarded(change: Callable[..., Any]) -> Callable[..., Any]:
        def guard(*arguments: Any, **named: Any) -> Any:
            if counter.value == changes:
                os._exit(CRASHED)
            counter.value += 1
            return change(*arguments, **named)

        return guard

    for name in CHANGES:
        setattr(os, name, guarded(getattr(os, name)))


def run(output: Path, source: Path, *, changes: int = -1, **sections: Any) -> tuple[int, int]:
    """The exit code of a process that makes everything, or crashes; and its changes of the disk."""
    counter: Any = RawValue(ctypes.c_int, 0)
    process = os.fork()
    if process == 0:
        code = 1
        try:
            crash_after(changes, counter)
            make_all(output, source, **sections)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), counter.value


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "corpus.jsonl"
    write_corpus(path)
    return path


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], int]:
    """The files that a run gives which nothing disturbs, and the changes of the disk it takes."""
    make_all(tmp_path_factory.mktemp("first"), source)  # what it imports, the forks then have
    output = tmp_path_factory.mktemp("whole")
    code, changes = run(output, source)
    assert code == 0
    assert changes > 100
    assert not left_over(output)
    return tree(output), changes


MORE_STRIDES = (pytest.param(stride, marks=pytest.mark.long) for stride in (7, 8, 9, 10))


@pytest.mark.parametrize("stride", [11, *MORE_STRIDES])
def test_s1_a_process_that_crashes_again_and_again_comes_to_the_same_end(
    stride: int, source: Path, whole: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    """The n-th process dies at its n-th change of the disk after the first `stride`."""
    crashes = 0
    while (code := run(tmp_path, source, changes=stride + crashes)[0]) == CRASHED:
        crashes += 1
        assert crashes < whole[1], "no way on"
    assert code == 0
    assert crashes >= 5
    assert tree(tmp_path) == whole[0]
    assert not left_over(tmp_path)


@pytest.mark.long
def test_s1_a_crash_at_any_change_of_the_disk(
    source: Path, whole: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    for point in range(whole[1]):
        output = tmp_path / f"at-{point}"
        assert run(output, source, changes=point)[0] == CRASHED
        assert run(output, source)[0] == 0, f"no way on after a crash at {point}"
        assert tree(output) == whole[0], f"other bytes after a crash at {point}"
        assert not left_over(output), f"left behind after a crash at {point}"


@pytest.mark.long
def test_s1_a_crash_at_any_change_while_a_result_is_replaced(
    source: Path, whole: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    """A folder under its own name holds the old result or the new one, whole."""
    run(tmp_path / "other", source, **OTHER_WINDOWS)
    other = {name: data for name, data in tree(tmp_path / "other").items() if "shards/" in name}
    old = {name: data for name, data in whole[0].items() if "shards/" in name}
    for point in range(1000):
        output = tmp_path / f"at-{point}"
        run(output, source)
        code, _ = run(output, source, changes=point, overwrite=True, **OTHER_WINDOWS)
        there = {name: data for name, data in tree(output).items() if name.startswith("shards/")}
        assert there in ({}, old, other)
        run(output, source, overwrite=True, **OTHER_WINDOWS)
        there = {name: data for name, data in tree(output).items() if name.startswith("shards/")}
        assert there == other
        if code == 0:
            return
        assert code == CRASHED


@pytest.fixture(scope="module")
def crashed_once(
    whole: tuple[dict[str, bytes], int], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("crashed")
    write_corpus(folder / "corpus.jsonl")
    late = whole[1] - 20
    assert run(folder / "out", folder / "corpus.jsonl", changes=late)[0] == CRASHED
    assert (folder / "out" / "shards.work").is_dir()
    return folder


@pytest.fixture
def crashed(crashed_once: Path, tmp_path: Path) -> Path:
    """An output of a run that crashed while it made the shards, beside its source."""
    shutil.copytree(crashed_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "out"


def test_s1_parts_of_another_recipe_are_not_mixed_in(crashed: Path, tmp_path: Path) -> None:
    make_all(crashed, tmp_path / "corpus.jsonl", **OTHER_WINDOWS)
    make_all(tmp_path / "fresh", tmp_path / "corpus.jsonl", **OTHER_WINDOWS)
    assert tree(crashed) == tree(tmp_path / "fresh")
    assert not left_over(crashed)


def test_s1_a_source_that_changed_is_read_again(crashed: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.jsonl", 44)
    with pytest.raises(DataError, match=r"documents: holds the result of other .*inputs"):
        make_all(crashed, tmp_path / "corpus.jsonl")
    make_all(crashed, tmp_path / "corpus.jsonl", overwrite=True)
    make_all(tmp_path / "fresh", tmp_path / "corpus.jsonl")
    assert tree(crashed) == tree(tmp_path / "fresh")
    assert not left_over(crashed)


def test_s1_parts_of_other_libraries_are_not_continued(
    crashed: Path,
    whole: tuple[dict[str, bytes], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true_version = stages.version
    monkeypatch.setattr(
        stages, "version", lambda name: "0.1" if name == "sentencex" else true_version(name)
    )
    with pytest.raises(DataError, match=r"versions\.sentencex: '.*' there, '0\.1' here"):
        make_all(crashed, tmp_path / "corpus.jsonl")
    monkeypatch.undo()
    make_all(crashed, tmp_path / "corpus.jsonl")
    assert tree(crashed) == whole[0]


def test_a_second_program_is_refused_at_any_time(crashed: Path, tmp_path: Path) -> None:
    with locked(crashed), pytest.raises(ConfigError, match="another program works in it"):
        make_all(crashed, tmp_path / "corpus.jsonl")
    make_all(crashed, tmp_path / "corpus.jsonl")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which `remount` changes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)


def error_of(output: Path, source: Path) -> str:
    """What a run that fails says; nothing if it does not."""
    try:
        make_all(output, source)
    except ConfigError as error:
        return str(error)
    return ""


def test_s1_a_full_disk_is_one_line_and_the_way_goes_on(
    disk: Path, source: Path, whole: tuple[dict[str, bytes], int]
) -> None:
    full = 0
    for kilobytes in (100, 250, 400, 550, 700, 850, 1000, 1 << 16):
        remount(disk, f"size={kilobytes}k")
        said = error_of(disk / "out", source)
        assert said == "" or said.startswith(f"{disk}/out/")
        assert said == "" or "No space left on device; mend that, then the same command" in said
        assert not list((disk / "out").rglob("*.tmp-*")), "half a file"
        full += said != ""
    assert full >= 3
    assert tree(disk / "out") == whole[0]
    assert not left_over(disk / "out")


def test_s1_a_disk_that_turns_read_only_is_one_line_and_the_way_goes_on(
    disk: Path, source: Path, whole: tuple[dict[str, bytes], int]
) -> None:
    assert run(disk / "out", source, changes=whole[1] // 2)[0] == CRASHED
    remount(disk, "ro")
    with pytest.raises(ConfigError, match=r"output=.*/out: .*Read-only file system"):
        make_all(disk / "out", source)
    with pytest.raises(ConfigError, match=r"output=.*/new: .*Read-only file system"):
        make_all(disk / "new", source)
    remount(disk, "rw")
    make_all(disk / "out", source)
    assert tree(disk / "out") == whole[0]


@pytest.mark.slow
@pytest.mark.long
def test_the_real_program_names_a_full_and_a_read_only_disk(disk: Path, tmp_path: Path) -> None:
    write_slice(tmp_path / "pages.xml.bz2", 25_000)
    recipe = write_recipe(tmp_path, tmp_path / "pages.xml.bz2")
    words = ("shards", "--config", recipe, f"output={disk / 'out'}")
    remount(disk, "size=300k")
    result = prep(*words)
    assert (result.returncode, result.stderr.count("error: ")) == (2, 1), result.stderr
    assert "No space left on device; mend that" in result.stderr
    assert "Traceback" not in result.stderr
    remount(disk, "ro,size=64m")
    result = prep(*words)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    assert "Read-only file system" in result.stderr
    remount(disk, "rw")
    assert prep(*words).returncode == 0
    assert prep("shards", "--config", recipe).returncode == 0
    assert tree(disk / "out") == tree(tmp_path / "out")


PHASES = {
    "reading": "documents.scratch/read-*",
    "filtering": "documents.work/*.jsonl*",
    "tokenizer": "tokenizer.work/*",
    "encoding": "shards.scratch/part-*",
    "sealing": "shards.work/train/*.tar*",
}


@pytest.mark.slow
@pytest.mark.long
def test_s1_a_kill_of_the_whole_program_in_each_phase(tmp_path: Path) -> None:
    write_slice(tmp_path / "pages.xml.bz2", 25_000)
    (tmp_path / "kept").mkdir()
    recipe = write_recipe(tmp_path, tmp_path / "pages.xml.bz2")
    undisturbed = write_recipe(tmp_path / "kept", tmp_path / "pages.xml.bz2")
    for phase, pattern in PHASES.items():
        process = subprocess.Popen(
            command("shards", "--config", recipe),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + 120
        while not any((tmp_path / "out").glob(pattern)):
            assert process.poll() is None, f"ended before {phase}"
            assert time.monotonic() < until, f"never came to {phase}"
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    time.sleep(1)  # what Ray started sees its driver gone
    result = prep("shards", "--config", recipe)
    assert result.returncode == 0, result.stderr
    assert prep("shards", "--config", undisturbed).returncode == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "kept" / "out")
    assert not left_over(tmp_path / "out")
