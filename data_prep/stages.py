"""A stage: a folder of results that is made once, goes on after a kill, and knows its inputs.

A stage makes its result in FOLDER.work, with the help of what it keeps in FOLDER.scratch, and
renames FOLDER.work to FOLDER when all of it is there; only then the scratch goes. The result holds
stage.json: what it depends on. Workers, addresses and paths are no part of that.
"""

import fcntl
import json
import logging
import platform
import shutil
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mlmdist.errors import ConfigError, DataError
from mlmdist.files import TEMPORARY_MARK, sync_folder, write_json

log = logging.getLogger(__name__)

STAMP_NAME = "stage.json"
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

    result: Path
    """Becomes the result, and holds nothing else."""

    scratch: Path
    """What the next tasks need of the last ones; goes when the result stands."""


def stamp(settings: dict[str, Any], inputs: Any) -> Stamp:
    """The stamp of a stage with these settings and inputs, under the libraries that run now."""
    versions = {name: version(name) for name in LIBRARIES}
    versions |= {"python": platform.python_version(), "unicode": unicodedata.unidata_version}
    plain = json.loads(json.dumps({"settings": settings, "inputs": inputs}))
    return Stamp(versions=versions, **plain)


def open_stage(folder: Path, wanted: Stamp, *, overwrite: bool) -> Work | None:
    """The folders to work in, with what an earlier try left; None if the result is there.

    Raises DataError if another result stands in `folder`, or parts made by other library versions
    wait to be continued, unless `overwrite`.
    """
    found = read_stamp(folder)
    if found and _same_task(found, wanted):
        log.info("%s is there and its inputs are unchanged: skipped", folder)
        shutil.rmtree(_beside(folder, ".scratch"), ignore_errors=True)
        return None
    if folder.exists() and not found:
        raise DataError(
            f"{folder}: is there, but no {STAMP_NAME} says that it is a result of this program; "
            "remove it yourself or choose another output="
        )
    if found and not overwrite:
        raise DataError(
            f"{folder}: holds the result of other settings or inputs "
            f"({_difference(found, wanted)}); choose another output=, or say --overwrite"
        )
    return _work(folder, wanted, overwrite=overwrite)


def _beside(folder: Path, ending: str) -> Path:
    return folder.with_name(folder.name + ending)


def _work(folder: Path, wanted: Stamp, *, overwrite: bool) -> Work:
    result, scratch = _beside(folder, ".work"), _beside(folder, ".scratch")
    left = read_stamp(result)
    if left and _same_task(left, wanted) and left.versions != wanted.versions and not overwrite:
        raise DataError(
            f"{result}: its parts were made by other versions ({_difference(left, wanted)}); "
            "install those versions to go on, or say --overwrite to start again"
        )
    if left == wanted:
        log.info("%s: going on with what an earlier try left", result)
    else:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(result, ignore_errors=True)
        result.mkdir(parents=True)
        write_json(result / STAMP_NAME, asdict(wanted))
    scratch.mkdir(exist_ok=True)
    for leftover in [*result.rglob(f"*{TEMPORARY_MARK}*"), *scratch.rglob(f"*{TEMPORARY_MARK}*")]:
        leftover.unlink()
    return Work(result, scratch)


def finish_stage(work: Work) -> Path:
    """Make the work the result, in place of a result that was there; its path."""
    folder = work.result.with_name(work.result.name.removesuffix(".work"))
    old = _beside(folder, ".old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    sync_folder(work.result)
    work.result.rename(folder)
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(work.scratch, ignore_errors=True)
    return folder


def read_stamp(folder: Path) -> Stamp | None:
    """The stamp of a stage's folder; None if it has none that can be read."""
    try:
        return Stamp(**json.loads((folder / STAMP_NAME).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Hold `output` against a second program; raises ConfigError if one holds it."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        file = (output / ".lock").open("w")
    except OSError as error:
        raise ConfigError(f"output={output}: cannot be written ({error.strerror})") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"output={output}: another program works in it; wait for it or choose another"
            ) from None
        yield


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
