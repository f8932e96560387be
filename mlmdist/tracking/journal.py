"""The append-only files between training and its shipper: lines of JSON, one writer, one reader.

`metrics.jsonl` holds one line a logged step: {"step": 20, "time": 1764400000.5, "train/loss": 6.4}.
JSON has no NaN and no infinity: they stand there as the strings "nan", "inf" and "-inf", which
`float()` reads back. `outbox.jsonl` holds what else the tracking server is to know, as events.
"""

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from mlmdist import files

log = logging.getLogger(__name__)

METRICS = "metrics.jsonl"
OUTBOX = "outbox.jsonl"
STEP, TIME = "step", "time"
READ_BYTES = 1 << 20

Record = dict[str, Any]
Status = Literal["FINISHED", "FAILED", "KILLED"]
"""How a run ended, in MLflow's words; KILLED is a run that was stopped and may go on."""


class Journal:
    """The writing end of a file of JSON lines; an append costs one `write`, and never raises."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._unwritten = b"" if _ends_a_line(path) else b"\n"
        self._warned = False

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line; what a full disk refuses is kept and written with the next line."""
        line = json.dumps(record, allow_nan=False, ensure_ascii=False)
        self._unwritten += line.encode("utf-8") + b"\n"
        try:
            count = os.write(self._descriptor, self._unwritten)
        except OSError as error:
            self._warn(error)
        else:
            self._unwritten = self._unwritten[count:]

    def sync(self) -> None:
        """Wait until the lines are on disk: tens of milliseconds, so not at every step."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self._warn(error)

    def close(self) -> None:
        """Put the lines on disk and close the file."""
        self.sync()
        os.close(self._descriptor)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            log.warning("%s: %s; the lines wait in memory", self._path, error.strerror)
        self._warned = True


class Tail:
    """The reading end: hands out complete lines once each, from the start if the file is new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = -1
        self._position = 0

    def read(self) -> list[Record]:
        """The next lines, at most about `READ_BYTES` of them; empty when all there is was read.

        A last line without its end is left for later; a line that is no JSON is passed over with
        a warning.
        """
        try:
            with self._path.open("rb") as file:
                self._find_place(os.fstat(file.fileno()))
                file.seek(self._position)
                lines = file.read(READ_BYTES)
                lines += b"" if lines.endswith(b"\n") else file.readline()
        except FileNotFoundError:
            return []
        lines = lines[: lines.rfind(b"\n") + 1]
        self._position += len(lines)
        return list(_parse(lines, self._path))

    def _find_place(self, status: os.stat_result) -> None:
        """A file that was replaced (cut by a resume) is read again from its start."""
        if status.st_ino != self._inode or status.st_size < self._position:
            self._inode, self._position = status.st_ino, 0


def read_all(path: Path) -> Iterator[Record]:
    """Every complete line of the file, in order, in bounded memory; nothing if there is none."""
    tail = Tail(path)
    while records := tail.read():
        yield from records


def cut(path: Path, last_step: int) -> None:
    """Drop, atomically, the lines of steps after `last_step` and a last line without its end."""
    if not path.exists() or not _needs_cut(path, last_step):
        return
    with files.atomic_writer(path) as kept, path.open("rb") as file:
        for line in file:
            if _step(line) <= last_step:
                kept.write(line)


def to_json(value: float) -> float | str:
    """A number as JSON can hold it: NaN and the infinities become "nan", "inf" and "-inf"."""
    return value if math.isfinite(value) else str(value)


def _ends_a_line(path: Path) -> bool:
    """False for a file whose last line a killed process left unfinished."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"", b"\n")


def _needs_cut(path: Path, last_step: int) -> bool:
    with path.open("rb") as file:
        return any(_step(line) > last_step for line in file)


def _step(line: bytes) -> float:
    """The step of a line, infinite for one that no reader can use."""
    if not line.endswith(b"\n"):
        return math.inf
    try:
        return float(json.loads(line)[STEP])
    except (ValueError, KeyError, TypeError):
        return math.inf


def _parse(lines: bytes, path: Path) -> Iterator[Record]:
    for line in lines.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict):
            yield record
        else:
            log.warning("%s: passed over a line that is no JSON object: %.60r", path, line)
