"""From a source's path in the config to the files it names, in an order that machines agree on."""

import importlib.util
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

from data_prep.config import Source
from mlmdist.errors import ConfigError, DataError

PACKAGE_SCHEME = "package:"
SOURCE_BITS = 24  # of a document id; the other 40 are the place in the source


@dataclass(frozen=True)
class SourceFile:
    """A file to read; `index` is what the ids of its documents start with."""

    index: int
    path: Path
    source: Source

    @property
    def identity(self) -> dict[str, Any]:
        """What tells whether the file is the one an earlier result was made of."""
        found = self.path.stat()
        return {
            "name": self.path.name,
            "bytes": found.st_size,
            "modified_ns": found.st_mtime_ns,
            "source": self.source.model_dump(mode="json", exclude={"path"}),
        }


def find_files(sources: list[Source]) -> list[SourceFile]:
    """The files of all sources: sources in the order given, a source's files by name.

    Raises ConfigError naming the source that names no file.
    """
    found = [(path, source) for source in sources for path in _paths(source.path)]
    if len(found) > 1 << SOURCE_BITS:
        raise DataError(f"{len(found)} files; at most {1 << SOURCE_BITS}: join small ones")
    return [SourceFile(index, path, source) for index, (path, source) in enumerate(found)]


def _paths(named: str) -> list[Path]:
    if named.startswith(PACKAGE_SCHEME):
        return [_package_file(named)]
    path = Path(named).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        paths = [inner for inner in path.rglob("*") if inner.is_file()]
    else:
        paths = [Path(match) for match in glob(str(path), recursive=True)]  # noqa: PTH207 (of any root)
    if not paths:
        raise ConfigError(f"sources: {named}: no such file, folder or match of the pattern")
    return sorted(paths)


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
