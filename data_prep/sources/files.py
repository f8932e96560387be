"""From a source's path in the config to the files it names, in an order that machines agree on."""

import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import fsspec
from upath import UPath

from data_prep.config import Source
from mlmdist.errors import ConfigError, DataError
from mlmdist.files import AnyPath
from mlmdist.object_store import store_options

PACKAGE_SCHEME = "package:"
SOURCE_BITS = 24  # of a document id; the other 40 are the place in the source
NOT_DATA = {"_SUCCESS", "_metadata", "_common_metadata"}  # what writers of Parquet put beside it
VERSION_KEYS = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "mtime", "updated")
CLIENTS = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
}


@dataclass(frozen=True)
class SourceFile:
    """A file to read; `index` is what the ids of its documents start with."""

    index: int
    path: AnyPath
    source: Source
    num_bytes: int
    """Its size when it was found: what is written behind that later is not read."""

    version: str
    """What changes with the content: the time of change, or the tag that a store gives."""

    @property
    def name(self) -> str:
        """The file's name without its folder, for reports."""
        return self.path.name

    @property
    def identity(self) -> dict[str, Any]:
        """What tells whether the file is the one an earlier result was made of."""
        return {
            "name": self.name,
            "bytes": self.num_bytes,
            "version": self.version,
            "source": self.source.model_dump(mode="json", exclude={"path"}),
        }


@dataclass(frozen=True)
class _Found:
    path: AnyPath
    num_bytes: int
    version: str


def find_files(sources: Iterable[Source]) -> list[SourceFile]:
    """The files of all sources: sources in the order given, a source's files by name.

    A folder gives all files below it; what is hidden (`.name`) is passed over. Raises ConfigError
    naming the source that names no file, or whose scheme needs a package that is not there. Memory
    grows with the number of files, some 500 bytes each.
    """
    found = [(file, source) for source in sources for file in _files(source.path)]
    if len(found) > 1 << SOURCE_BITS:
        raise DataError(f"{len(found)} files; at most {1 << SOURCE_BITS}: join small ones")
    return [
        SourceFile(index, file.path, source, file.num_bytes, file.version)
        for index, (file, source) in enumerate(found)
    ]


def _files(named: str) -> list[_Found]:
    if named.startswith(PACKAGE_SCHEME):
        return [_local(_package_file(named))]
    found = _remote_files(named) if "://" in named else list(map(_local, _local_paths(named)))
    if not found:
        raise ConfigError(f"sources: {named}: no such file, folder or match of the pattern")
    return sorted(found, key=lambda file: file.path.as_posix().split("/"))


def _local(path: Path) -> _Found:
    status = path.stat()
    return _Found(path, status.st_size, str(status.st_mtime_ns))


def _local_paths(named: str) -> set[Path]:
    """The files that a path or pattern names; a pattern's folders give what is below them."""
    path = Path(named).expanduser()
    if path.exists():
        return {path} if path.is_file() else _below(path)
    matches = [Path(match) for match in glob(str(path), recursive=True)]  # noqa: PTH207 (of any root)
    files = {match for match in matches if match.is_file() and match.name not in NOT_DATA}
    return files.union(*(_below(match) for match in matches if match.is_dir()))


def _below(folder: Path) -> set[Path]:
    return {
        path
        for path in folder.rglob("*")
        if _is_data(path.relative_to(folder).parts) and path.is_file()
    }


def _is_data(parts: Iterable[str]) -> bool:
    """False for what is hidden, and for the notes that writers of Parquet leave."""
    return not any(part.startswith(".") or part in NOT_DATA for part in parts)


def _remote_files(url: str) -> list[_Found]:
    """The same as for local paths, behind a URL: a file, a folder, or a pattern."""
    scheme = url.partition("://")[0]
    try:
        store, root = fsspec.url_to_fs(url, **store_options(scheme))
    except ImportError:
        package = CLIENTS.get(scheme, f"fsspec client for {scheme}")
        raise ConfigError(
            f"sources: {url}: {scheme}:// needs the package {package}; pip install {package}"
        ) from None
    except ValueError as error:
        raise ConfigError(f"sources: {url}: {error}; give a path or another URL") from None
    store.invalidate_cache()
    try:
        return [_remote(store, found) for found in _remote_listing(store, root)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(
            f"sources: {url}: cannot be listed ({error}); check the address, the access keys and "
            "the network"
        ) from error


def _remote_listing(store: Any, root: str) -> list[dict[str, Any]]:
    if any(mark in root for mark in "*?["):
        matches = store.glob(root, detail=True).values()
        fixed = len(re.split(r"[*?[]", root)[0].rpartition("/")[0])
        inside = [match for match in matches if _is_data(match["name"][fixed:].split("/"))]
        folders = [match["name"] for match in inside if match["type"] == "directory"]
        found = {match["name"]: match for match in inside if match["type"] == "file"}
        for folder in folders:
            found |= {inner["name"]: inner for inner in _remote_below(store, folder)}
        return list(found.values())
    about = store.info(root)
    return [about] if about["type"] == "file" else _remote_below(store, root)


def _remote_below(store: Any, folder: str) -> list[dict[str, Any]]:
    listing = store.find(folder, detail=True).values()
    start = len(store._strip_protocol(folder).rstrip("/")) + 1
    return [found for found in listing if _is_data(found["name"][start:].split("/"))]


def _remote(store: Any, found: dict[str, Any]) -> _Found:
    version = next((str(found[key]) for key in VERSION_KEYS if found.get(key) is not None), "")
    path = UPath(store.unstrip_protocol(found["name"]), **store.storage_options)
    return _Found(path, int(found["size"] or 0), version)


def _package_file(named: str) -> Path:
    """A data file of an installed package, found without importing the package."""
    name, _, inner = named.removeprefix(PACKAGE_SCHEME).partition("/")
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"sources: {named}: package {name!r} is not installed; pip install it")
    path = Path(spec.submodule_search_locations[0]) / inner
    if not path.is_file():
        raise ConfigError(f"sources: {named}: the installed {name} holds no such file")
    return path
