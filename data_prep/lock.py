"""One program an output: a second one that would work in the same folder is refused."""

import fcntl
import json
import logging
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from upath import UPath

from mlmdist import object_store
from mlmdist.errors import ConfigError, UserError
from mlmdist.files import AnyPath, write_bytes

log = logging.getLogger(__name__)

LOCK_NAME = ".lock"
SETTLE_SECONDS = 2.0


@dataclass(frozen=True)
class Owner:
    """The program that holds an output on an object store, as its lock object says."""

    host: str
    process: int
    since: str
    """UTC, to the second."""

    machine: str
    """The running kernel and the process's own namespace: where process ids mean the same."""

    born: str
    """When the process started, in the kernel's ticks: a process id may be used again."""

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, since {self.since}"

    @property
    def is_gone(self) -> bool:
        """True where it is certain: it ran on this machine and does so no more."""
        return self.machine == _machine() and _born(self.process) != self.born


@contextmanager
def locked(output: AnyPath) -> Iterator[None]:
    """Hold `output` against a second program; raises ConfigError if one holds it.

    On this machine by flock, which ends with the process. On an object store by an object that is
    made only if it is not there (`object_store.create`): what a program that was killed on this
    machine left is taken over, of another machine it is named for its reader to remove. A store
    that cannot write on condition leaves a moment in which two programs may both come in.
    """
    with _locked_folder(output) if isinstance(output, Path) else _locked_prefix(output):
        yield


@contextmanager
def _locked_folder(output: Path) -> Iterator[None]:
    try:
        output.mkdir(parents=True, exist_ok=True)
        file = (output / LOCK_NAME).open("w")
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


@contextmanager
def _locked_prefix(output: UPath) -> Iterator[None]:
    path = output / LOCK_NAME
    mine = _this_process()
    try:
        _take(output, path, mine)
    except OSError as error:
        text = error.strerror or error
        raise ConfigError(f"output={output}: cannot be written ({text})") from None
    try:
        yield
    finally:
        _release(path, mine)


def _take(output: UPath, path: UPath, mine: Owner) -> None:
    data = json.dumps(asdict(mine)).encode()
    try:
        object_store.create(path, data)
    except FileExistsError:
        owner = _owner(path)
        if owner is not None and not owner.is_gone:
            raise ConfigError(
                f"output={output}: another program works in it ({owner}); wait for it or choose "
                f"another; if it is gone for certain, remove {path}"
            ) from None
        if owner is None:
            raise ConfigError(
                f"output={output}: {path} cannot be read, so another program may work in it; "
                "remove it if none does"
            ) from None
        log.info("%s: taken over from %s, which is gone", path, owner)
        write_bytes(path, data)
        time.sleep(SETTLE_SECONDS)  # another program may be taking it over too: the last one has it
    if _owner(path) != mine:  # or the store knows no condition and let both write
        raise ConfigError(f"output={output}: another program came in at the same time; try again")


def _release(path: UPath, mine: Owner) -> None:
    try:
        if _owner(path) == mine:
            _remove(path)
    except (OSError, UserError) as error:
        log.warning("%s: could not be removed (%s)", path, error)


def _remove(path: UPath) -> None:
    with object_store.named_errors(path), suppress(FileNotFoundError):
        object_store.filesystem(path).rm_file(path.path)


def _owner(path: UPath) -> Owner | None:
    """Who a lock object says holds it; None where there is none that can be read."""
    with object_store.named_errors(path):
        try:
            return Owner(**json.loads(object_store.filesystem(path).cat_file(path.path)))
        except (FileNotFoundError, ValueError, TypeError):
            return None


def _this_process() -> Owner:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return Owner(platform.node(), os.getpid(), now, _machine(), _born(os.getpid()))


def _machine() -> str:
    boot = _read("/proc/sys/kernel/random/boot_id").strip()
    with suppress(OSError):
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return f"{platform.node()} {boot}"


def _born(process: int) -> str:
    """The start time of a process; empty if it is gone, or is a zombie."""
    fields = _read(f"/proc/{process}/stat").rpartition(") ")[2].split()
    return "" if not fields or fields[0] == "Z" else fields[19]


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
