"""Law T3: hashing and copying large files tells that it goes on; standing still tells nothing."""

import threading
import time
from pathlib import Path

import pytest
import torch

from mlmdist.errors import DataError
from mlmdist.train import file_list
from mlmdist.train.file_list import telling


class Count:
    """How often it was told."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def test_t3_a_large_file_tells_a_piece_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_list, "PIECE_BYTES", 1000)
    path, told = tmp_path / "a.pt", Count()
    torch.save({"a": torch.zeros(10_000)}, path)
    listed = file_list.entry(path, told)
    assert told.calls >= 2 * 40
    told.calls = 0
    assert file_list.fault(path, listed, told) is None
    assert told.calls >= 40


def test_s2_a_file_that_was_not_written_whole_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"a": torch.arange(10_000)}, path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.pt: was not written whole"):
        file_list.entry(path, Count())


def test_t3_a_call_that_writes_tells_and_one_that_is_stuck_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_list, "LOOK_SECONDS", 0.05)
    writing, stuck = Count(), Count()
    with telling(stuck):
        time.sleep(0.5)
    with telling(writing):
        for number in range(5):
            (tmp_path / str(number)).write_bytes(bytes(1 << 20))
            time.sleep(0.1)
    assert writing.calls >= 2
    assert stuck.calls == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "telling"]
