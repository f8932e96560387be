"""Where a Ray of our own keeps its files: a folder that is gone at the end, even after a kill.

A program holds a lock in its folder; the next one removes the folders that nobody holds.
"""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

FOLDER_PREFIX = "mlmdist-ray-"
SECONDS_UNTIL_LEFT = 60  # a folder without a lock is someone's who is just starting, until then


class OwnFolder:
    """A new folder of this process, held until it is removed or the process ends."""

    def __init__(self) -> None:
        # Ray's sockets need a short path.
        self.path = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
        self._lock = (self.path / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder and all in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def remove_leftovers() -> None:
    """Remove the folders of programs that were killed: those that nobody holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*-*"):
        if _left(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _left(folder: Path) -> bool:
    age = 0.0
    try:
        age = time.time() - folder.stat().st_mtime
        with (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return folder.exists() and age > SECONDS_UNTIL_LEFT
    except OSError:  # held, or another user's
        return False
    owner = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
    return not Path("/proc", owner).exists() or age > SECONDS_UNTIL_LEFT
