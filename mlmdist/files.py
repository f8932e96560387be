"""Files that are there whole or not at all: temporary name, fsync, rename, fsync of the folder."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

TEMPORARY_MARK = ".tmp-"


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """A binary file that appears under `path`, complete and on disk, when the block ends well.

    If the block raises, nothing is left behind. A process that is killed leaves only a file whose
    name holds `TEMPORARY_MARK`, which `remove_temporaries` clears.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}{TEMPORARY_MARK}{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically."""
    with atomic_writer(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path` atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON with sorted keys (the same value gives the same bytes), atomically."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: without it a rename may be lost with the power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporaries(folder: Path) -> None:
    """Remove what killed processes left under a temporary name directly in `folder`."""
    for path in folder.glob(f"*{TEMPORARY_MARK}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal, read in bounded memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
