"""The run folder: config.yaml, metrics.jsonl, checkpoints/, latest; without torch."""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlmdist import files
from mlmdist.config import loading
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import ConfigError
from mlmdist.train import identity

log = logging.getLogger(__name__)

CONFIG, CHECKPOINTS, LATEST, DONE, LOCK = "config.yaml", "checkpoints", "latest", "DONE", "lock"


@contextmanager
def reached(run: Path) -> Iterator[None]:
    """Raise ConfigError, naming the folder and the reason, for what the system refuses in it."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"run={run}: {error.strerror or error} ({error.filename}); give a folder that can be "
            "written to"
        ) from None


def has_begun(run: Path) -> bool:
    """Whether there is something in the folder that another run must not go on from."""
    return any(os.path.lexists(run / name) for name in (LATEST, DONE))


def saved_config(run: Path) -> Pretrain | None:
    """The config that the run in this folder was last started with; None for a new folder."""
    path = run / CONFIG
    with reached(run):
        return loading.load(Pretrain, path, []) if path.is_file() else None


def check_config(config: Pretrain, accepted: tuple[str, ...] = ()) -> None:
    """Raise ConfigError if the run folder holds another run than `config` describes (law T2).

    A start that was refused, or ended before its first checkpoint, is no run yet.
    """
    saved = saved_config(config.run) if has_begun(config.run) else None
    if saved is not None:
        identity.refuse_changes(
            identity.of_config(saved),
            identity.of_config(config),
            accepted=accepted,
            where=str(config.run),
        )


def save_config(config: Pretrain) -> None:
    """Write config.yaml; a part of a run that is started otherwise than the one before is told."""
    saved = saved_config(config.run) if has_begun(config.run) else None
    if saved == config:
        return
    if saved is not None:
        log.warning(
            "this part of the run has another config than the last: %s", _changes(saved, config)
        )
    with reached(config.run):
        files.write_text(config.run / CONFIG, loading.dump(config))


def _changes(saved: Pretrain, now: Pretrain) -> str:
    before, after = (
        dict(identity.leaves(config.model_dump(mode="json"))) for config in (saved, now)
    )
    changed = [path for path in after if before.get(path) != after[path]]
    return ", ".join(f"{path} {before.get(path)} -> {after[path]}" for path in changed)


def claim(run: Path) -> int:
    """Make this process the only one that writes to the folder; the lock's file descriptor.

    The lock falls with the process. Raises ConfigError if another one holds it, or if the folder
    cannot be written to.
    """
    with reached(run):
        run.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(run / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigError(
            f"{run}: another process trains in this folder; wait for its end or give run=another"
        ) from None
    except OSError as error:
        log.warning("%s: no locks here (%s); see to it that no other job uses it", run, error)
    return descriptor
