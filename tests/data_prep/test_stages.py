"""A stage goes on where it was, skips what is done, and refuses what it cannot tell apart."""

import dataclasses
import os
from pathlib import Path

import pytest

from data_prep.stages import Stamp, Work, finish_stage, locked, open_stage, read_stamp, stamp
from mlmdist.errors import ConfigError, DataError

WANTED = stamp({"windows": {"overlap": 16}}, [{"name": "a", "bytes": 5}])
OTHER_SETTINGS = dataclasses.replace(WANTED, settings={"windows": {"overlap": 0}})
OTHER_VERSIONS = dataclasses.replace(WANTED, versions=WANTED.versions | {"sentencex": "0.1"})


def begin(folder: Path, wanted: Stamp = WANTED, *, overwrite: bool = False) -> Work:
    work = open_stage(folder, wanted, overwrite=overwrite)
    assert work is not None
    return work


def test_s1_a_killed_stage_goes_on_with_its_parts(tmp_path: Path) -> None:
    work = begin(tmp_path / "shards")
    for folder in (work.result, work.scratch):
        (folder / "part").write_text("whole")
        (folder / f"half.tmp-{os.getpid()}").write_text("hal")
    again = begin(tmp_path / "shards")
    assert sorted(path.name for path in again.result.iterdir()) == ["part", "stage.json"]
    assert [path.name for path in again.scratch.iterdir()] == ["part"]


def test_a_finished_stage_is_skipped_and_appears_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    work = begin(folder)
    (work.result / "part").write_text("whole")
    (work.scratch / "part").write_text("of the way")
    assert not folder.exists()
    assert finish_stage(work) == folder
    assert (folder / "part").read_text() == "whole"
    assert open_stage(folder, WANTED, overwrite=False) is None
    assert read_stamp(folder) == WANTED
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


def test_a_finished_stage_of_other_libraries_stands(tmp_path: Path) -> None:
    finish_stage(begin(tmp_path / "shards", OTHER_VERSIONS))
    assert open_stage(tmp_path / "shards", WANTED, overwrite=False) is None


def test_another_result_is_not_overwritten_unasked(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    finish_stage(begin(folder))
    with pytest.raises(DataError, match=r"settings\.windows\.overlap: 16 there, 0 here"):
        open_stage(folder, OTHER_SETTINGS, overwrite=False)
    work = begin(folder, OTHER_SETTINGS, overwrite=True)
    assert read_stamp(folder) == WANTED, "the old result stands until the new one is whole"
    finish_stage(work)
    assert read_stamp(folder) == OTHER_SETTINGS
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


def test_parts_of_other_library_versions_are_not_continued(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    (begin(folder, OTHER_VERSIONS).scratch / "part").write_text("old")
    with pytest.raises(DataError, match=r"versions\.sentencex: '0\.1' there"):
        open_stage(folder, WANTED, overwrite=False)
    assert not (begin(folder, overwrite=True).scratch / "part").exists()


def test_parts_of_other_settings_are_thrown_away(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    (begin(folder, OTHER_SETTINGS).scratch / "part").write_text("old")
    assert not (begin(folder).scratch / "part").exists()


def test_a_folder_that_is_no_result_is_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "precious").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(DataError, match="remove it yourself"):
            open_stage(folder, WANTED, overwrite=overwrite)
    assert (folder / "precious").read_text() == "mine"


def test_a_held_folder_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(ConfigError, match="another program works in it")
    with locked(tmp_path), refused, locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
