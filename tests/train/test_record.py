"""Law S2 for the record: what was changed in state.json is named, and never trained on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlmdist.data.sequence import Position
from mlmdist.errors import DataError
from mlmdist.train.record import RECORD, Record

STEP = 4


def record(step: int = STEP, batch: int = STEP) -> Record:
    return Record(
        step=step,
        world_size=2,
        threads=1,
        position=Position(batch=batch, cursors=(48,)).to_json(),
        counters={"batch": batch, "num_tokens": 100, "skipped": [2]},
        meter=[[0.1, 1e300, 3.0], [1 / 3, 0.0, -0.0]],
        identity={"data.train": "aé"},
        config={"seed": 3},
        vocab_size=700,
        files={"a.pt": {"bytes": 1, "sha256": "00"}},
    )


@pytest.fixture
def written(tmp_path: Path) -> Path:
    folder = tmp_path / "step-00000004"
    folder.mkdir()
    record().write(folder)
    return folder


def test_s2_a_record_is_read_as_it_was_written(written: Path) -> None:
    assert Record.read(written) == record()


def another_digit(values: dict[str, Any]) -> None:
    values["position"]["cursors"] = [49]


def no_counters(values: dict[str, Any]) -> None:
    values["counters"] = {}


def half_a_position(values: dict[str, Any]) -> None:
    values["position"] = {"phase": 0}


def no_checksum(values: dict[str, Any]) -> None:
    values.pop("sha256")


@pytest.mark.parametrize("damage", [another_digit, no_counters, half_a_position, no_checksum])
def test_s2_damage_that_is_still_json_is_named(
    written: Path, damage: Callable[[dict[str, Any]], None]
) -> None:
    values = json.loads((written / RECORD).read_bytes())
    damage(values)
    (written / RECORD).write_text(json.dumps(values))
    with pytest.raises(DataError, match=r"state.json: does not match its checksum"):
        Record.read(written)


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", '{"format": 1}', '{"format": 2'])
def test_s2_what_is_no_record_is_named(written: Path, text: str) -> None:
    (written / RECORD).write_text(text)
    with pytest.raises(DataError, match=RECORD):
        Record.read(written)


def test_s2_a_record_in_another_steps_folder_is_refused(written: Path) -> None:
    moved = written.rename(written.with_name("step-00000008"))
    with pytest.raises(DataError, match=r"step 4, .* in a folder step-00000004"):
        Record.read(moved)


def test_s2_a_record_of_two_steps_is_refused(written: Path) -> None:
    record(batch=5).write(written)
    with pytest.raises(DataError, match="counters at 5, position at 5; must be one step"):
        Record.read(written)
