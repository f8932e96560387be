"""The list of a checkpoint's files: made of what was written, and checked before it is loaded.

Long work tells `alive` as it goes on, so that the watchdog does not take it for a hang (law T3).
"""

import hashlib
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlmdist.errors import DataError

PIECE_BYTES = 16 << 20
LOOK_SECONDS = 1.0
FEWEST_BYTES = 1 << 16  # more than looking itself reads

Alive = Callable[[], None]


def entry(path: Path, alive: Alive) -> dict[str, Any]:
    """Sync and check a file that was just written; its entry in the list."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    if path.suffix == ".pt":
        _check_zip(path, alive)
    return {"bytes": path.stat().st_size, "sha256": _sha256(path, alive)}


def fault(path: Path, listed: dict[str, Any], alive: Alive) -> str | None:
    """What is wrong with a file, by its entry in the list; None if nothing is."""
    if not path.is_file():
        return f"{path.name} is missing"
    if path.stat().st_size != listed["bytes"]:
        return f"{path.name} has {path.stat().st_size} bytes; its record says {listed['bytes']}"
    if _sha256(path, alive) != listed["sha256"]:
        return f"{path.name} does not match its checksum"
    return None


@contextmanager
def telling(alive: Alive) -> Iterator[None]:
    """While the block runs, tell `alive` as long as this process reads or writes.

    For calls that read or write for minutes and say nothing. A call that is stuck moves no bytes.
    """
    done = threading.Event()
    thread = threading.Thread(target=_tell, args=(alive, done), name="telling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _tell(alive: Alive, done: threading.Event) -> None:
    before = _moved_bytes()
    while not done.wait(LOOK_SECONDS):
        now = _moved_bytes()
        if now - before > FEWEST_BYTES:
            alive()
        before = now


def _moved_bytes() -> int:
    """Bytes that this process has read from and written to files so far (man 5 proc_pid_io)."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar", "wchar")))


def _check_zip(path: Path, alive: Alive) -> None:
    """Torch writes zip archives with a CRC a member: a check that is independent of ours."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                _read_member(archive, name, alive)
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path}: was not written whole ({error}); is the disk full?") from None


def _read_member(archive: zipfile.ZipFile, name: str, alive: Alive) -> None:
    """Read a member to its end, where its CRC is compared."""
    with archive.open(name) as member:
        while member.read(PIECE_BYTES):
            alive()


def _sha256(path: Path, alive: Alive) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            alive()
    return digest.hexdigest()
