import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.tracking.journal import Journal, Tail, cut, read_all, to_json

STEPS = st.lists(st.integers(0, 50), max_size=40)


def write(path: Path, steps: list[int]) -> list[dict[str, int]]:
    records = [{"step": step, "row": row} for row, step in enumerate(steps)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return records


@given(st.lists(st.floats(), max_size=20))
def test_every_number_comes_back_and_every_line_is_strict_json(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
):
    path = tmp_path_factory.mktemp("journal") / "metrics.jsonl"
    journal = Journal(path)
    for value in values:
        journal.append({"value": to_json(value)})
    journal.close()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    lines = [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
    read = [float(line["value"]) for line in lines]
    assert len(read) == len(values)
    assert all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(read, values, strict=True)
    )


@given(STEPS, st.integers(-1, 55), st.sampled_from([b"", b'{"step": 1, "ro', b"{", b'{"a": 1}\n']))
def test_cut_keeps_exactly_the_lines_up_to_the_step(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], last: int, rest: bytes
):
    path = tmp_path_factory.mktemp("journal") / "metrics.jsonl"
    records = write(path, steps)
    with path.open("ab") as file:
        file.write(rest)
    cut(path, last)
    assert list(read_all(path)) == [record for record in records if record["step"] <= last]
    assert path.read_bytes()[-1:] in (b"", b"\n")


def test_cut_leaves_a_file_alone_that_needs_none(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    write(path, [1, 2, 3])
    before = path.stat().st_ino
    cut(path, 3)
    assert path.stat().st_ino == before
    cut(path, 2)
    assert path.stat().st_ino != before
    cut(tmp_path / "none.jsonl", 2)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=10))
def test_a_tail_reads_each_complete_line_once(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
):
    path = tmp_path_factory.mktemp("journal") / "metrics.jsonl"
    whole = "".join(json.dumps({"row": row}) + "\n" for row in range(40)).encode()
    tail, rows, written = Tail(path), [], 0
    assert tail.read() == []
    for size in [*sizes, len(whole)]:
        with path.open("ab") as file:
            file.write(whole[written : written + size])
        written += size
        while records := tail.read():
            rows += [record["row"] for record in records]
    assert rows == list(range(40))


def test_a_tail_reads_large_files_in_pieces_and_a_replaced_file_from_its_start(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    write(path, [1] * 100_000)
    tail = Tail(path)
    pieces = []
    while records := tail.read():
        pieces.append(len(records))
    assert sum(pieces) == 100_000
    assert len(pieces) > 1
    cut(path, 0)
    write(tmp_path / "other", [1, 2])
    (tmp_path / "other").rename(path)
    assert [record["step"] for record in tail.read()] == [1, 2]


def test_a_line_left_unfinished_does_not_swallow_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "outbox.jsonl"
    path.write_bytes(b'{"row": 0}\n{"ro')
    journal = Journal(path)
    journal.append({"row": 1})
    journal.close()
    assert [record["row"] for record in read_all(path)] == [0, 1]
    assert "no JSON object" in caplog.text


def test_a_full_disk_stops_nobody_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    full = Journal(Path("/dev/full"))
    for row in range(3):
        full.append({"row": row})
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    spacious = Journal(tmp_path / "metrics.jsonl")
    full._descriptor = spacious._descriptor  # space again
    full.append({"row": 3})
    assert [record["row"] for record in read_all(tmp_path / "metrics.jsonl")] == [0, 1, 2, 3]
    spacious.close()
