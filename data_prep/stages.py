"""A stage: a folder of results that is made once, goes on after a kill, and knows its inputs.

A stage makes its result with the help of what it keeps in FOLDER.scratch. The result appears in
FOLDER when all of it is there (`data_prep/storage.py`); only then the scratch goes. It holds
stage.json: what it depends on. Workers, addresses and paths are no part of that.
"""

import json
import logging
import platform
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from data_prep.storage import STAMP_NAME, Storage, read_json, storage_of
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, existing, make_folder, remove_temporaries

log = logging.getLogger(__name__)

LIBRARIES = ("numpy", "sentencepiece", "sentencex", "rensa", "google-crc32c")


@dataclass(frozen=True)
class Stamp:
    """What the bytes of a stage's result depend on."""

    settings: dict[str, Any]
    inputs: Any
    versions: dict[str, str]


@dataclass(frozen=True)
class Work:
    """The two folders of a stage that is being done; a kill at any moment leaves both usable."""

    storage: Storage

    @property
    def result(self) -> AnyPath:
        """Becomes the result, and holds nothing else."""
        return self.storage.work

    @property
    def scratch(self) -> AnyPath:
        """What the next tasks need of the last ones; goes when the result stands."""
        return self.storage.scratch


def stamp(settings: dict[str, Any], inputs: Any) -> Stamp:
    """The stamp of a stage with these settings and inputs, under the libraries that run now."""
    versions = {name: version(name) for name in LIBRARIES}
    versions |= {"python": platform.python_version(), "unicode": unicodedata.unidata_version}
    plain = json.loads(json.dumps({"settings": settings, "inputs": inputs}))
    return Stamp(versions=versions, **plain)


def open_stage(folder: AnyPath, wanted: Stamp, *, overwrite: bool) -> Work | None:
    """The folders to work in, with what an earlier try left; None if the result is there.

    Raises DataError if another result stands in `folder`, or parts made by other library versions
    wait to be continued, unless `overwrite`.
    """
    storage, found = storage_of(folder), read_stamp(folder)
    if found and _same_task(found, wanted):
        log.info("%s is there and its inputs are unchanged: skipped", folder)
        storage.tidy()
        return None
    if found is None and storage.is_foreign():
        raise DataError(
            f"{folder}: is there, but no {STAMP_NAME} says that it is a result of this program; "
            "remove it yourself or choose another output="
        )
    if found and not overwrite:
        raise DataError(
            f"{folder}: holds the result of other settings or inputs "
            f"({_difference(found, wanted)}); choose another output=, or say --overwrite"
        )
    _begin_or_go_on(storage, wanted, overwrite=overwrite)
    return Work(storage)


def _begin_or_go_on(storage: Storage, wanted: Stamp, *, overwrite: bool) -> None:
    left = _stamp_of(storage.work_stamp())
    if left and _same_task(left, wanted) and left.versions != wanted.versions and not overwrite:
        raise DataError(
            f"{storage.work}: its parts were made by other versions ({_difference(left, wanted)}); "
            "install those versions to go on, or say --overwrite to start again"
        )
    if left == wanted:
        log.info("%s: going on with what an earlier try left", storage.work)
    else:
        storage.begin(asdict(wanted))
    make_folder(storage.scratch)
    for folder in (storage.work, storage.scratch):
        remove_temporaries(folder, below=True)


def still_to_do(results: Sequence[AnyPath], sizes: Sequence[int]) -> list[int]:
    """The numbers of the tasks whose result is not there, the largest first.

    So no large task is waited for at the end (Graham 1969, "Bounds on multiprocessing timing
    anomalies": longest processing time first).
    """
    missing = [number for number, done in enumerate(existing(results)) if not done]
    return sorted(missing, key=lambda number: -sizes[number])


def finish_stage(work: Work) -> AnyPath:
    """Make the work the result, in place of a result that was there; its path."""
    work.storage.finish()
    return work.storage.folder


def read_stamp(folder: AnyPath) -> Stamp | None:
    """The stamp of a stage's result in `folder`; None if it has none that can be read."""
    return _stamp_of(read_json(folder / STAMP_NAME))


def _stamp_of(value: Any) -> Stamp | None:
    try:
        return Stamp(**value)
    except TypeError:
        return None


def _same_task(one: Stamp, other: Stamp) -> bool:
    return (one.settings, one.inputs) == (other.settings, other.inputs)


def _difference(found: Stamp, wanted: Stamp) -> str:
    """Which settings differ, as `key: there / here`."""
    there, here = _flat(asdict(found)), _flat(asdict(wanted))
    keys = [key for key in sorted(there | here) if there.get(key) != here.get(key)]
    shown = [f"{key}: {there.get(key)!r} there, {here.get(key)!r} here" for key in keys[:3]]
    return "; ".join(shown) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return {path: value}
    flat: dict[str, Any] = {}
    for key, inner in items:
        flat |= _flat(inner, f"{path}.{key}" if path else str(key))
    return flat
