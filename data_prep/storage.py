"""How the result of a stage appears: whole or not at all, on a disk or on an object store.

On a disk the work is done in FOLDER.work, which is renamed to FOLDER when all of it is there.

An object store has no rename, so there the work is done in FOLDER itself, and what makes it a
result is FOLDER/stage.json, written last; until then FOLDER/stage.work.json says what it will be.
Before an old result is replaced, it loses its stage.json first and all its objects next.
"""

import json
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from upath import UPath

from mlmdist.files import AnyPath, remove_folder, rename_folder, write_json
from mlmdist.object_store import remove_below

STAMP_NAME = "stage.json"
WORK_STAMP_NAME = "stage.work.json"


@runtime_checkable
class Storage(Protocol):
    """A stage's folder, and the work on it that is not done yet."""

    @property
    def folder(self) -> AnyPath:
        """Where the result is, or will be."""
        ...

    @property
    def work(self) -> AnyPath:
        """Where the result is made."""
        ...

    @property
    def scratch(self) -> AnyPath:
        """What goes when the result stands."""
        ...

    def is_foreign(self) -> bool:
        """Whether a folder without a readable stamp holds what is not this program's."""
        ...

    def work_stamp(self) -> Any:
        """What the work left by an earlier try is going to be; None if there is none."""
        ...

    def begin(self, stamp: dict[str, Any]) -> None:
        """Throw away what work there is and begin anew, with this stamp."""
        ...

    def finish(self) -> None:
        """Make the work the result, in place of one that was there."""
        ...

    def tidy(self) -> None:
        """Remove what a killed program left beside a result that is there."""
        ...


def storage_of(folder: AnyPath) -> Storage:
    """The way that results appear where `folder` is."""
    return _Renamed(folder) if isinstance(folder, Path) else _Stamped(folder)


def read_json(path: AnyPath) -> Any:
    """The value in a JSON file; None if there is no file, or no JSON in it."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


class _Renamed:
    """A folder on a disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder.with_name(folder.name + ".work")
        self.old = folder.with_name(folder.name + ".old")
        self.scratch = folder.with_name(folder.name + ".scratch")

    def is_foreign(self) -> bool:
        return self.folder.exists()

    def work_stamp(self) -> Any:
        return read_json(self.work / STAMP_NAME)

    def begin(self, stamp: dict[str, Any]) -> None:
        remove_folder(self.scratch)
        remove_folder(self.work)
        write_json(self.work / STAMP_NAME, stamp)

    def finish(self) -> None:
        remove_folder(self.old)
        if self.folder.exists():
            self.folder.rename(self.old)
        rename_folder(self.work, self.folder)
        self.tidy()

    def tidy(self) -> None:
        remove_folder(self.old)
        remove_folder(self.scratch)


class _Stamped:
    """A prefix on an object store."""

    def __init__(self, folder: UPath) -> None:
        self.folder = self.work = folder
        self.scratch = folder.with_name(folder.name + ".scratch")
        self.stamp, self.mark = folder / STAMP_NAME, folder / WORK_STAMP_NAME

    def is_foreign(self) -> bool:
        return self.folder.exists() and not self.mark.exists()

    def work_stamp(self) -> Any:
        return read_json(self.mark)

    def begin(self, stamp: dict[str, Any]) -> None:
        # A kill on the way leaves a mark without a stamp: the next try begins here again.
        write_json(self.mark, None)
        self.stamp.unlink(missing_ok=True)
        remove_folder(self.scratch)
        remove_below(self.folder, keep=self.mark)
        write_json(self.mark, stamp)

    def finish(self) -> None:
        write_json(self.stamp, read_json(self.mark))
        self.tidy()

    def tidy(self) -> None:
        self.mark.unlink(missing_ok=True)
        remove_folder(self.scratch)
