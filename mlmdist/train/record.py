"""The record of a checkpoint, state.json: all that is not DeepSpeed's, with its own checksum."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mlmdist import files
from mlmdist.errors import DataError

RECORD = "state.json"
FORMAT = 1
PREFIX = "step-"
DIGEST = "sha256"


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
        """The record of a checkpoint folder; raises DataError if it is missing or damaged."""
        path = folder / RECORD
        try:
            values = json.loads(path.read_bytes())
            if values.get("format") != FORMAT:
                raise DataError(
                    f"{path}: format {values.get('format')}; this program reads {FORMAT}"
                )
            if values.pop(DIGEST, None) != _digest(values):
                raise DataError(f"{path}: does not match its checksum")
            record = cls(**values)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path}: not a checkpoint's record ({error})") from None
        record._check_step(folder)
        return record

    def write(self, folder: Path) -> None:
        """Write state.json, durably."""
        values = asdict(self)
        files.write_json(folder / RECORD, values | {DIGEST: _digest(values)})

    def _check_step(self, folder: Path) -> None:
        """Folder, counters and position speak of one step."""
        batches = self.counters.get("batch"), self.position.get("batch")
        if batches != (self.step, self.step) or folder.name != step_name(self.step):
            raise DataError(
                f"{folder / RECORD}: step {self.step}, counters at {batches[0]}, position at "
                f"{batches[1]}; must be one step, in a folder {step_name(self.step)}"
            )


def step_name(step: int) -> str:
    """The name of the folder for a step."""
    return f"{PREFIX}{step:08d}"


def _digest(values: dict[str, Any]) -> str:
    """SHA-256 over the values, whatever their layout in the file."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
