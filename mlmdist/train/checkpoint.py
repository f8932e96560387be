"""Checkpoints: a folder is there whole and verified, or not at all (contract "Training state").

    checkpoints/step-00000100/state.json    position, counters, identity, config, checksums
    checkpoints/step-00000100/*.pt          DeepSpeed's own files
    latest                                  the newest folder's name, written last

DeepSpeed names its pointer before its last barrier, checks nothing on loading, and can succeed on
one rank while another fails. So it writes to a temporary name here; each rank reads its files back,
checks and syncs them; rank 0 writes the list, renames, and points. On loading, all ranks check
their share of the files and come to one verdict; a broken folder is passed over for the one before.
"""

import json
import logging
import os
import shutil
import zipfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from mlmdist import dist, files
from mlmdist.dist import Place
from mlmdist.errors import DataError
from mlmdist.train import partitions
from mlmdist.train.engine_files import EngineFiles
from mlmdist.train.folder import CHECKPOINTS, LATEST

log = logging.getLogger(__name__)

RECORD = "state.json"
FORMAT = 1
PREFIX = "step-"
RECUT_TAG = f"recut{files.TEMPORARY_MARK}"


@dataclass(frozen=True)
class Record:
    """What stands in state.json."""

    step: int
    world_size: int
    threads: int
    """CPU threads a rank computed with: a resume to the bit needs the same."""

    position: dict[str, Any]
    counters: dict[str, Any]
    meter: list[list[float]]
    """Each rank's sums since the last logged step, so that a resume logs the same."""

    identity: dict[str, Any]
    config: dict[str, Any]
    vocab_size: int
    git_commit: str | None = None
    mlflow_run_id: str | None = None
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name -> {"bytes", "sha256"} of every other file of the folder."""

    format: int = FORMAT

    @classmethod
    def read(cls, folder: Path) -> "Record":
        """The record of a checkpoint folder; raises DataError if there is none to be read."""
        path = folder / RECORD
        try:
            values = json.loads(path.read_bytes())
            if values.get("format") != FORMAT:
                raise DataError(
                    f"{path}: format {values.get('format')}; this program reads {FORMAT}"
                )
            return cls(**values)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path}: not a checkpoint's record ({error})") from None


def step_name(step: int) -> str:
    """The name of the folder for a step."""
    return f"{PREFIX}{step:08d}"


def save(run: Path, engine: EngineFiles, record: Record, here: Place, *, keep: int) -> Path:
    """Write a checkpoint, called by all ranks together; its folder, complete and pointed at."""
    folder = run / CHECKPOINTS
    temporary = folder / f"{step_name(record.step)}{files.TEMPORARY_MARK}new"
    if here.rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        files.remove_temporaries(folder)
        temporary.mkdir()
    dist.barrier()
    engine.save(folder, temporary.name)
    parts = dist.gather(_own_entries(temporary, here.rank))
    final = folder / step_name(record.step)
    if here.rank == 0:
        entries = {name: entry for part in parts for name, entry in part.items()}
        _publish(run, temporary, final, replace(record, files=entries))
        _prune(folder, keep)
    dist.barrier()
    return final


def newest_good(run: Path, here: Place) -> Path | None:
    """The newest checkpoint of which all ranks together found every file whole.

    None if there is none at all. Raises DataError, on every rank, if all that are there are broken.
    """
    candidates = dist.broadcast_decision(candidates_in(run))
    for folder in candidates:
        faults = [fault for fault in dist.gather(_fault(folder, here)) if fault]
        if not faults:
            return folder
        if here.rank == 0:
            log.error("checkpoint %s is passed over: %s", folder, "; ".join(faults))
    if candidates:
        raise DataError(
            f"{run / CHECKPOINTS}: none of {len(candidates)} checkpoints is whole; restore one "
            "from a copy, or remove them all to begin anew"
        )
    return None


def load(folder: Path, engine: EngineFiles, here: Place) -> Record:
    """Read a checkpoint into the engine, at any world size; its record. All ranks together."""
    record = Record.read(folder)
    if record.world_size == here.world_size:
        engine.load(folder.parent, folder.name)
        return record
    recut = folder.parent / RECUT_TAG
    if here.rank == 0:
        log.info("cut %s of %d ranks for %d", folder, record.world_size, here.world_size)
        _recut(folder, recut, here.world_size, engine.constants())
    dist.barrier()
    engine.load(recut.parent, recut.name)
    dist.barrier()
    if here.rank == 0:
        shutil.rmtree(recut)
    return record


def load_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The fp32 weights in a checkpoint folder, by our names; every file is checked first.

    Raises DataError naming the file that is missing or damaged.
    """
    fault = _fault(checkpoint, Place())
    if fault:
        raise DataError(f"{checkpoint}: {fault}")
    return partitions.weights(partitions.read(checkpoint))


def newest(run: Path) -> Path:
    """The newest whole checkpoint of a run folder, for a single process.

    Raises DataError if the folder has none.
    """
    for folder in candidates_in(run):
        fault = _fault(folder, Place())
        if fault is None:
            return folder
        log.error("checkpoint %s is passed over: %s", folder, fault)
    raise DataError(f"{run}: no whole checkpoint in it; give a run folder that has saved one")


def candidates_in(run: Path) -> list[Path]:
    """The checkpoint folders of a run, newest first. Only verified ones ever got their name."""
    names = [path for path in (run / CHECKPOINTS).glob(f"{PREFIX}*") if path.suffix == ""]
    return sorted(names, key=lambda path: path.name, reverse=True)


def _own_entries(folder: Path, rank: int) -> dict[str, dict[str, Any]]:
    """Sync and check the files that this rank has written; their list entries."""
    own = [path for path in folder.iterdir() if partitions.rank_of(path.name) == rank]
    return {path.name: _entry(path) for path in own}


def _entry(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        os.fsync(file.fileno())
    if path.suffix == ".pt":
        _check_zip(path)
    return {"bytes": path.stat().st_size, "sha256": files.sha256(path)}


def _check_zip(path: Path) -> None:
    """Torch writes zip archives with a CRC a member: a check that is independent of ours."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path}: was not written whole ({error}); is the disk full?") from None
    if broken is not None:
        raise DataError(f"{path}: its member {broken} was not written whole; is the disk full?")


def _publish(run: Path, temporary: Path, final: Path, record: Record) -> None:
    """Give a complete folder its name, durably, and then point at it."""
    missing = [name for name in record.files if not (temporary / name).is_file()]
    if missing:
        raise DataError(
            f"{temporary}: rank 0 does not see what other ranks wrote ({', '.join(missing)}); "
            "the run folder must be on storage that all nodes share"
        )
    files.write_json(temporary / RECORD, asdict(record))
    files.sync_folder(temporary)
    if final.exists():  # a broken one that was passed over
        final.rename(final.with_name(f"{final.name}{files.TEMPORARY_MARK}old"))
    temporary.rename(final)
    files.sync_folder(final.parent)
    files.write_text(run / LATEST, f"{final.name}\n")
    files.remove_temporaries(final.parent)


def _prune(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep`; a half-removed one has no checkpoint's name."""
    for old in candidates_in(folder.parent)[keep:]:
        doomed = old.with_name(f"{old.name}{files.TEMPORARY_MARK}old")
        old.rename(doomed)
        shutil.rmtree(doomed)


def _fault(folder: Path, here: Place) -> str | None:
    """What is wrong with this rank's share of a checkpoint's files; None if nothing is."""
    try:
        record = Record.read(folder)
    except DataError as error:
        return str(error)
    for name in sorted(record.files)[here.rank :: here.world_size]:
        path, entry = folder / name, record.files[name]
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != entry["bytes"]:
            return f"{name} has {path.stat().st_size} bytes; its record says {entry['bytes']}"
        if files.sha256(path) != entry["sha256"]:
            return f"{name} does not match its checksum"
    return None


def _recut(folder: Path, target: Path, world_size: int, constants: dict[str, Any]) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    recut = partitions.for_world_size(partitions.read(folder), world_size)
    for state in recut.states():
        state.update(constants)
    partitions.write(recut, target, folder)
