import json
import os
import sys
from pathlib import Path

import fsspec
import pytest

from data_prep.config import Source
from data_prep.sources.files import SourceFile, find_files
from mlmdist.errors import ConfigError
from tests.data_prep.sources.reading import entries, whole

NAMES = ["b.jsonl", "a/z.jsonl", "a-b/y.jsonl", "a/c/x.jsonl"]
HIDDEN = [".hidden.jsonl", ".git/x.jsonl", "a/.cache/y.jsonl", "_SUCCESS", "a/_metadata"]
ORDER = ["a/c/x.jsonl", "a/z.jsonl", "a-b/y.jsonl", "b.jsonl"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in [*NAMES, *HIDDEN]:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"text": name}))
    return tmp_path / "data"


@pytest.fixture
def url(folder: Path, request) -> str:
    store = fsspec.filesystem("memory")
    root = f"/{request.node.name}"
    for name in [*NAMES, *HIDDEN]:
        store.pipe(f"{root}/{name}", (folder / name).read_bytes())
    return f"memory:/{root}"


def found(path: str, base: str | Path) -> list[str]:
    files = find_files([Source(path=path, format="jsonl")])
    assert [file.index for file in files] == list(range(len(files)))
    return [str(file.path).removeprefix(f"{base}/") for file in files]


def check(base: str | Path) -> None:
    assert found(f"{base}", base) == ORDER
    assert found(f"{base}/", base) == ORDER
    assert found(f"{base}/b.jsonl", base) == ["b.jsonl"]
    assert found(f"{base}/*.jsonl", base) == ["b.jsonl"]
    assert found(f"{base}/*/*.jsonl", base) == ["a/z.jsonl", "a-b/y.jsonl"]
    assert found(f"{base}/**/*.jsonl", base) == ORDER
    assert found(f"{base}/a*", base) == ORDER[:3]
    for pattern in ("nowhere", "*.txt", "nowhere/*"):
        with pytest.raises(ConfigError, match="no such file, folder or match of the pattern"):
            found(f"{base}/{pattern}", base)


def test_folders_and_globs(folder: Path) -> None:
    check(folder)


def test_folders_and_globs_behind_a_url(url: str) -> None:
    check(url)


def test_what_is_behind_a_url_is_read_alike(folder: Path, url: str) -> None:
    local, remote = (find_files([Source(path=str(path), format="jsonl")]) for path in (folder, url))
    assert entries([whole(file) for file in local]) == entries([whole(file) for file in remote])
    assert [file.num_bytes for file in local] == [file.num_bytes for file in remote]


def test_indexes_go_on_over_the_sources(folder: Path) -> None:
    sources = [Source(path=str(folder / name), format="jsonl") for name in ("a", "b.jsonl")]
    files = find_files(sources)
    assert [(file.index, file.name) for file in files] == [
        (0, "x.jsonl"),
        (1, "z.jsonl"),
        (2, "b.jsonl"),
    ]
    assert [file.source for file in files] == [sources[0], sources[0], sources[1]]


def identity(path: Path) -> dict:
    (file,) = find_files([Source(path=str(path), format="jsonl")])
    return file.identity


def test_identity_changes_with_the_content_and_not_with_the_folder(folder: Path) -> None:
    path = folder / "b.jsonl"
    before = identity(path)
    assert identity(path) == before
    os.utime(path, ns=(1, 1))
    assert identity(path) != before
    moved = folder.with_name("moved.d")
    folder.rename(moved)
    os.utime(moved / "b.jsonl", ns=(1, 1))
    assert identity(moved / "b.jsonl") == before | {"version": "1"}


def test_a_scheme_without_its_package_names_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(ConfigError, match=r"s3:// needs the package s3fs; pip install s3fs"):
        find_files([Source(path="s3://bucket/folder", format="jsonl")])
    with pytest.raises(ConfigError, match=r"nonesuch://x: .*nonesuch"):
        find_files([Source(path="nonesuch://x", format="jsonl")])


def test_files_of_packages() -> None:
    (file,) = find_files(
        [Source(path="package:gensim/test/test_data/testcorpus.txt", format="text")]
    )
    assert isinstance(file, SourceFile)
    assert file.num_bytes > 0
    for named in ("package:nonesuch/x", "package:gensim/nonesuch"):
        with pytest.raises(ConfigError, match="package"):
            find_files([Source(path=named, format="text")])
