"""Checkpoints: a folder is there whole and verified, or not at all (contract "Training state").

    checkpoints/step-00000100/state.json    position, counters, identity, config, checksums
    checkpoints/step-00000100/*.pt          DeepSpeed's own files
    latest                                  the newest folder's name, written last

DeepSpeed names its pointer before its last barrier, checks nothing on loading, and can succeed on
one rank while another fails. So it writes to a temporary name here; each rank reads its files back,
checks and syncs them; rank 0 writes the list, renames, and points. On loading, all ranks check
their share of the files and come to one verdict; a broken folder is passed over for the one before.
"""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from mlmdist import dist, files
from mlmdist.dist import Place
from mlmdist.errors import DataError
from mlmdist.train import file_list, partitions
from mlmdist.train.engine_files import EngineFiles
from mlmdist.train.file_list import Alive, telling
from mlmdist.train.folder import CHECKPOINTS, LATEST
from mlmdist.train.record import PREFIX, Record, step_name

log = logging.getLogger(__name__)

RECUT_TAG = f"recut{files.TEMPORARY_MARK}"
TORCH_WRITE_FAILURES = ("inline_container", "iostream", "write(): fd")


def _silent() -> None:
    """Nobody watches."""


def save(
    run: Path,
    engine: EngineFiles,
    record: Record,
    here: Place,
    *,
    keep: int,
    best: int | None = None,
    alive: Alive = _silent,
) -> Path:
    """Write a checkpoint, called by all ranks together; its folder, complete and pointed at.

    The newest `keep` stay, and that of step `best`.
    `alive` is told while it goes on. Raises DataError if the storage does not take it.
    """
    final = run / CHECKPOINTS / step_name(record.step)
    temporary = final.with_name(f"{final.name}{files.TEMPORARY_MARK}new")
    with _written_whole(final):
        if here.rank == 0:
            final.parent.mkdir(parents=True, exist_ok=True)
            files.remove_temporaries(final.parent)
            temporary.mkdir()
        dist.barrier()
        with telling(alive):
            engine.save(temporary.parent, temporary.name)
        parts = dist.gather(_own_entries(temporary, here.rank, alive))
        if here.rank == 0:
            entries = {name: entry for part in parts for name, entry in part.items()}
            _publish(run, temporary, final, replace(record, files=entries))
            _prune(final.parent, keep, best)
        dist.barrier()
    return final


@contextmanager
def _written_whole(folder: Path) -> Iterator[None]:
    """Raise DataError, one line, for what storage refuses: the system's error, or torch's of it."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if not isinstance(error, OSError) and not any(
            word in str(error) for word in TORCH_WRITE_FAILURES
        ):
            raise  # a lost peer, for example
        reason = error.strerror if isinstance(error, OSError) else "a file was not taken whole"
        raise DataError(
            f"{folder} cannot be written ({reason or error}); free space there, then the same "
            "command goes on from the last checkpoint"
        ) from None


def sweep(run: Path) -> None:
    """Remove what a process that was killed, or found the disk full, left half-written."""
    files.remove_temporaries(run / CHECKPOINTS)
    for trial in run.glob(f"*{files.TEMPORARY_MARK}/"):
        shutil.rmtree(trial)


def newest_good(run: Path, here: Place, *, alive: Alive = _silent) -> Path | None:
    """The newest checkpoint of which all ranks together found every file whole.

    None if there is none at all. Raises DataError, on every rank, if all that are there are broken.
    """
    candidates = dist.broadcast_decision(candidates_in(run))
    for folder in candidates:
        faults = [fault for fault in dist.gather(_fault(folder, here, alive)) if fault]
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


def load(folder: Path, engine: EngineFiles, here: Place, *, alive: Alive = _silent) -> Record:
    """Read a checkpoint into the engine, at any world size; its record. All ranks together."""
    record = Record.read(folder)
    if record.world_size == here.world_size:
        with telling(alive):
            engine.load(folder.parent, folder.name)
        return record
    recut = folder.parent / RECUT_TAG
    if here.rank == 0:
        log.info("cut %s of %d ranks for %d", folder, record.world_size, here.world_size)
        with _written_whole(recut):
            _recut(folder, recut, here.world_size, engine.constants(), alive)
    dist.barrier()
    with telling(alive):
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


def _own_entries(folder: Path, rank: int, alive: Alive) -> dict[str, dict[str, Any]]:
    """Sync and check the files that this rank has written; their list entries."""
    own = [path for path in folder.iterdir() if partitions.rank_of(path.name) == rank]
    return {path.name: file_list.entry(path, alive) for path in own}


def _publish(run: Path, temporary: Path, final: Path, record: Record) -> None:
    """Give a complete folder its name, durably, and then point at it."""
    missing = [name for name in record.files if not (temporary / name).is_file()]
    if missing:
        raise DataError(
            f"{temporary}: rank 0 does not see what other ranks wrote ({', '.join(missing)}); "
            "the run folder must be on storage that all nodes share"
        )
    record.write(temporary)
    files.sync_folder(temporary)
    if final.exists():  # a broken one that was passed over
        final.rename(final.with_name(f"{final.name}{files.TEMPORARY_MARK}old"))
    temporary.rename(final)
    files.sync_folder(final.parent)
    files.write_text(run / LATEST, f"{final.name}\n")
    files.remove_temporaries(final.parent)


def _prune(folder: Path, keep: int, best: int | None) -> None:
    """Remove all but the newest and the best; a half-removed one has no checkpoint's name."""
    for old in candidates_in(folder.parent)[keep:]:
        if best is not None and old.name == step_name(best):
            continue
        doomed = old.with_name(f"{old.name}{files.TEMPORARY_MARK}old")
        old.rename(doomed)
        shutil.rmtree(doomed)


def _fault(folder: Path, here: Place, alive: Alive = _silent) -> str | None:
    """What is wrong with this rank's share of a checkpoint's files; None if nothing is."""
    try:
        listed = Record.read(folder).files
        for name in sorted(listed)[here.rank :: here.world_size]:
            fault = file_list.fault(folder / name, listed[name], alive)
            if fault is not None:
                return fault
    except (DataError, OSError) as error:
        return str(error)
    return None


def _recut(
    folder: Path, target: Path, world_size: int, constants: dict[str, Any], alive: Alive
) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    recut = partitions.for_world_size(partitions.read(folder), world_size, alive)
    for state in recut.states():
        state.update(constants)
    with telling(alive):
        partitions.write(recut, target, folder)
