"""Files that are there whole or not at all, on this machine or on an object store.

On this machine: temporary name, fsync, rename, fsync of the folder. On an object store an object
appears when its upload is complete; there are no temporary names, no renames and no folders.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

from upath import UPath

from mlmdist import object_store

AnyPath = Path | UPath
"""A path on this machine, or one that fsspec reaches, such as s3://bucket/folder."""

TEMPORARY_MARK = ".tmp-"
LOCAL_SCHEMES = ("file", "local")


def place(named: str | AnyPath) -> AnyPath:
    """The path of a name: on this machine, or behind a URL such as s3://bucket/folder.

    Raises ConfigError if the URL's scheme is unknown, or needs a package that is not installed.
    """
    scheme, _, rest = str(named).partition("://")
    if not rest:
        return Path(str(named)).expanduser()
    return Path(rest) if scheme in LOCAL_SCHEMES else object_store.object_path(str(named))


@contextmanager
def atomic_writer(path: AnyPath) -> Iterator[BinaryIO]:
    """A binary file that appears under `path`, complete and on disk, when the block ends well.

    If the block raises, nothing is left behind. A process that is killed leaves only a file whose
    name holds `TEMPORARY_MARK`, which `remove_temporaries` clears; on an object store, nothing.
    Memory holds at most two parts of an object (`object_store.PART_BYTES`).
    """
    if not isinstance(path, Path):
        with object_store.upload(path) as file:
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}{TEMPORARY_MARK}{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and not error.filename:
            error.filename = str(path)  # a full disk is told by write, which names no file
        raise
    sync_folder(path.parent)


def write_bytes(path: AnyPath, data: bytes) -> None:
    """Write `data` to `path` atomically."""
    with atomic_writer(path) as file:
        file.write(data)


def write_text(path: AnyPath, text: str) -> None:
    """Write `text` as UTF-8 to `path` atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: AnyPath, value: Any) -> None:
    """Write `value` as JSON with sorted keys (the same value gives the same bytes), atomically."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def existing(paths: Sequence[AnyPath]) -> list[bool]:
    """Whether each file is there; lists each folder once, so that many cost few requests."""
    names = {folder: _names_in(folder) for folder in {path.parent for path in paths}}
    return [path.name in names[path.parent] for path in paths]


def _names_in(folder: AnyPath) -> set[str]:
    try:
        return {path.name for path in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def make_folder(folder: AnyPath) -> None:
    """Make `folder` and its parents, if it is not there; object stores have no folders to make."""
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)


def remove_folder(folder: AnyPath) -> None:
    """Remove `folder` and all in it; one that is not there is no error."""
    if not isinstance(folder, Path):
        object_store.remove_below(folder)
    elif folder.exists():
        shutil.rmtree(folder)


def rename_folder(folder: Path, new: Path) -> None:
    """Rename a folder, durably; `new` must not be there. Object stores cannot do this."""
    sync_folder(folder)
    folder.rename(new)
    sync_folder(new.parent)


def sync_folder(folder: AnyPath) -> None:
    """Make the names in `folder` durable: without it a rename may be lost with the power."""
    if not isinstance(folder, Path):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporaries(folder: AnyPath, *, below: bool = False) -> None:
    """Remove what killed processes left under a temporary name directly in `folder`, or `below`."""
    if not isinstance(folder, Path):
        return
    pattern = f"*{TEMPORARY_MARK}*"
    for path in list(folder.rglob(pattern) if below else folder.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def sha256(path: AnyPath) -> str:
    """The SHA-256 of a file, in hexadecimal, read in bounded memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


@runtime_checkable
class RandomFile(Protocol):
    """A file that is read at any place; readers of several threads do not disturb each other."""

    size: int
    """Bytes in the file when it was opened."""

    def read(self, offset: int, size: int) -> bytes:
        """The `size` bytes from `offset` on, fewer only where the file ends."""
        ...

    def close(self) -> None:
        """Let the file go; it is not read any more."""
        ...


def open_random(path: AnyPath) -> RandomFile:
    """A file to read from by place; raises OSError if there is none or it cannot be read.

    Raises ConfigError where an object store does not answer.
    """
    return _LocalFile(path) if isinstance(path, Path) else _Object(path)


class _LocalFile:
    """Positioned reads of a descriptor: a memory map would die by SIGBUS when the file is cut."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, offset)

    def close(self) -> None:
        self._file.close()


class _Object:
    """Range requests for an object."""

    def __init__(self, path: UPath) -> None:
        self._path = path
        self.size = object_store.size(path)

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self.size)
        return object_store.read_range(self._path, offset, end) if end > offset else b""

    def close(self) -> None:
        pass
