"""A split from its bytes to files of cleaned documents, and how little memory that takes."""

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from data_prep import cleaning, progress, reading
from data_prep.config import Cleaning, Source
from data_prep.documents import read_documents
from data_prep.reading import read_split
from data_prep.sources.files import find_files
from data_prep.sources.splits import Split, plan_splits
from mlmdist.errors import ConfigError

CLEANING = Cleaning(min_chars=10, max_recurring_share=1, part_chars=400)
PROSE = "All human beings are born free and equal in dignity and rights, number"
LINES = [json.dumps({"text": f"{PROSE} {'one ' * n}"}) for n in range(60)]
BAD = ['{"text": 5}', "no JSON", '{"text": "short"}', '{"text": "\\ud800\\u0000 ' + PROSE + '"}']


def splits(path: Path, data: bytes, split_bytes: int = 1000) -> list[Split]:
    path.write_bytes(data)
    source = Source(path=str(path), format="jsonl", split_bytes=split_bytes)
    return plan_splits(find_files([source]))


def read(split: Split, target: Path, **guards: Any) -> dict[str, Any]:
    report = read_split(split, CLEANING, target, **guards)
    assert isinstance(report, dict)
    assert json.loads(target.with_name(f"{target.name}.json").read_bytes()) == report
    return report


def documents(folder: Path, reports: list[dict[str, Any]]) -> list[Any]:
    names = [part["name"] for report in reports for part in report["parts"]]
    assert names == sorted(path.name for path in folder.glob("*.jsonl"))
    return [document for name in names for document in read_documents(folder / name)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return tmp_path / "corpus.jsonl"


def test_documents_are_the_same_whatever_the_splits(tmp_path: Path, corpus: Path) -> None:
    found = []
    for split_bytes in (1000, 3000, 1 << 20):
        folder = tmp_path / str(split_bytes)
        cut = splits(corpus, "\n".join(LINES + BAD).encode(), split_bytes)
        reports = [read(split, folder / f"read-{split.index:06d}") for split in cut]
        found.append((documents(folder, reports), total(reports)))
    assert found[0] == found[1] == found[2]
    assert len(found[0][0]) == 61
    assert [document.id for document in found[0][0]] == sorted({d.id for d in found[0][0]})


def total(reports: list[dict[str, Any]]) -> dict[str, Any]:
    dropped = Counter[str]()
    for report in reports:
        dropped.update(report["documents"]["dropped"])
    characters = [report["characters"] for report in reports]
    return {
        "in": sum(report["documents"]["in"] for report in reports),
        "dropped": dropped,
        "characters": sum(each["in"] for each in characters),
        "gone": sum(sum(each["dropped"].values()) for each in characters),
        "kept": sum(part["chars"] for report in reports for part in report["parts"]),
        "listed": [
            (line["place"], line["reason"]) for report in reports for line in report["quarantined"]
        ],
    }


def test_w2_the_report_balances(tmp_path: Path, corpus: Path) -> None:
    (split,) = splits(corpus, "\n".join(LINES + BAD).encode() + b"\xff", 1 << 20)
    report = read(split, tmp_path / "out" / "read")
    sums = total([report])
    assert sums["in"] == report["records"] == 64
    assert sums["dropped"] == {"quarantined": 3, "short": 1}  # the last by its invalid byte
    assert sums["characters"] == sums["kept"] + sums["gone"]
    assert sum(part["documents"] for part in report["parts"]) == 60
    assert report["invalid_bytes"] == 1
    first = report["quarantined"][0]
    assert first == {
        "source": "corpus.jsonl",
        "record": 60,
        "place": first["id"],
        "id": first["place"],
        "stage": "read",
        "reason": "field 'text' holds 5, must be a string",
    }
    assert all(part["chars"] >= 400 for part in report["parts"][:-1])


def test_nothing_of_surrogates_and_nul_is_left(tmp_path: Path, corpus: Path) -> None:
    (split,) = splits(corpus, BAD[3].encode(), 1 << 20)
    (found,) = documents(tmp_path / "out", [read(split, tmp_path / "out" / "read")])
    assert found.paragraphs == (PROSE,)


def test_the_damaged_rest_of_a_file_is_one_record_and_the_next_file_goes_on(tmp_path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    packed = gzip.compress("\n".join(LINES).encode())
    for name, data in (("a", packed[:-4]), ("b", packed), ("c", b"\x89PNG" + bytes(99))):
        (folder / name).write_bytes(data)
    (split,) = plan_splits(find_files([Source(path=str(folder), format="jsonl")]))
    report = read(split, tmp_path / "out" / "read")
    assert report["documents"]["dropped"] == {"quarantined": 2}
    assert [line["source"] for line in report["quarantined"]] == ["a", "c"]
    assert [line["id"] for line in report["quarantined"]] == [None, None]
    found = documents(tmp_path / "out", [report])
    assert [d.id for d in found if d.id >> 40 == 1][:59] == [d.id + (1 << 40) for d in found[:59]]


def test_a_record_that_breaks_cleaning_is_quarantined(tmp_path, corpus, monkeypatch) -> None:
    def fails(document, config):
        if document.id == 0:
            raise KeyError("no such letter")
        return prepared(document, config)

    prepared = cleaning.prepared
    monkeypatch.setattr(reading, "prepared", fails)
    (split,) = splits(corpus, "\n".join(LINES).encode(), 1 << 20)
    report = read(split, tmp_path / "out" / "read")
    (line,) = report["quarantined"]
    assert (line["record"], line["reason"]) == (0, "KeyError: 'no such letter'")
    assert report["documents"]["dropped"] == {"quarantined": 1}


@pytest.mark.parametrize("error", [ConfigError("x"), MemoryError(), OSError(28, "full")])
def test_what_is_not_a_record_s_fault_ends_the_task(tmp_path, corpus, monkeypatch, error) -> None:
    def fails(document, config):
        raise error

    monkeypatch.setattr(reading, "prepared", fails)
    (split,) = splits(corpus, "\n".join(LINES).encode(), 1 << 20)
    with pytest.raises(type(error)):
        read_split(split, CLEANING, tmp_path / "read")
    assert not (tmp_path / "read.json").exists()


def test_a_probe_works_on_its_records_and_writes_nothing(tmp_path, corpus, monkeypatch) -> None:
    seen = []
    prepared = cleaning.prepared

    def watched(document, config):
        seen.append(document.num_characters)
        return prepared(document, config)

    monkeypatch.setattr(reading, "prepared", watched)
    (split,) = splits(corpus, "\n".join(LINES).encode(), 1 << 20)
    before = sorted(tmp_path.iterdir())
    assert read_split(split, CLEANING, tmp_path / "read", only=range(3, 5)) == 2
    assert len(seen) == 2
    assert read_split(split, CLEANING, tmp_path / "read", only=range(58, 70)) == 2
    assert read_split(split, CLEANING, tmp_path / "read", only=range(100, 101)) == 0
    assert sorted(tmp_path.iterdir()) == before


def test_records_to_skip_are_quarantined_unseen(tmp_path: Path, corpus: Path) -> None:
    (split,) = splits(corpus, "\n".join(LINES).encode(), 1 << 20)
    report = read(split, tmp_path / "out" / "read", skip=frozenset({7, 59}))
    assert [line["record"] for line in report["quarantined"]] == [7, 59]
    assert report["documents"] == {"in": 60, "dropped": {"quarantined": 2}}
    assert len(documents(tmp_path / "out", [report])) == 58


def test_of_many_quarantined_records_the_first_are_listed(tmp_path: Path, corpus: Path) -> None:
    (split,) = splits(corpus, b"bad\n" * 1500, 1 << 20)
    report = read(split, tmp_path / "read")
    assert len(report["quarantined"]) == reading.MOST_LISTED
    assert report["documents"]["dropped"] == {"quarantined": 1500}
    assert report["parts"] == []


def test_what_is_told_adds_up(tmp_path: Path, corpus: Path, monkeypatch) -> None:
    told: dict[str, Any] = {}
    monkeypatch.setattr(reading, "SECONDS_BETWEEN_TELLS", 0)
    progress.listen(lambda counts: progress.add(told, counts))
    try:
        cut = splits(corpus, "\n".join(LINES + BAD).encode(), 1000)
        for split in cut:
            read(split, tmp_path / "out" / f"read-{split.index:06d}")
    finally:
        progress.listen(None)
    assert told["bytes"] == corpus.stat().st_size
    assert told["documents"] == 64
    assert told["dropped"] == {"quarantined": 2, "short": 1}


MEASURED = """
import sys
from pathlib import Path
from data_prep.config import Cleaning, Source
from data_prep.reading import read_split
from data_prep.sources.files import find_files
from data_prep.sources.splits import plan_splits
path, kind, folder = sys.argv[1:]
files = find_files([Source(path=path, format=kind, split_bytes=1 << 40)])
cleaning = Cleaning(max_repeated_share=1, max_recurring_share=1)
kept = 0
for split in plan_splits(files):
    report = read_split(split, cleaning, Path(folder) / "read")
    kept += sum(part["documents"] for part in report["parts"])
# Of this program alone: getrusage() also counts what was there before it, the test's process.
peak, = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(kept, peak)
"""
MEBIBYTE = 1 << 20


def measured(path: Path, kind: str, folder: Path) -> tuple[int, float]:
    """Documents kept, and the megabytes that a process took to read a file."""
    words = [sys.executable, "-c", MEASURED, str(path), kind, str(folder)]
    result = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    kept, kilobytes = map(int, result.stdout.split())
    return kept, kilobytes / 1024


HUGE = {
    "words": b"word and " * (100_000_000 // 9),
    "han": "学而时习之".encode() * (100_000_000 // 15),
    "letters": b"x" * 100_000_000,
    "emoji": b"word and " * (100_000_000 // 9) + "😀".encode(),
}


@pytest.mark.long
@pytest.mark.parametrize("content", sorted(HUGE))
@pytest.mark.parametrize("kind", ["jsonl", "text", "text_documents", "sentences"])
def test_a_document_of_100_mb_on_one_line_takes_under_1_gb(tmp_path, kind, content) -> None:
    path = tmp_path / "huge"
    before, after = (b'{"text": "', b'"}') if kind == "jsonl" else (b"", b"")
    path.write_bytes(before + HUGE[content] + after + b"\n")
    kept, megabytes = measured(path, kind, tmp_path / "out")
    assert kept == 1
    assert megabytes < 1000


@pytest.mark.long
@pytest.mark.parametrize("content", sorted(HUGE))
def test_a_wiki_page_of_100_mb_takes_under_1_gb(tmp_path: Path, content: str) -> None:
    path = tmp_path / "huge"
    before, after = b"<mediawiki><page><revision><text>", b"</text></revision></page></mediawiki>"
    path.write_bytes(before + HUGE[content] + after)
    kept, megabytes = measured(path, "mediawiki", tmp_path / "out")
    assert kept == 0  # it is quarantined
    assert megabytes < 1000


@pytest.mark.long
def test_a_file_of_2_gb_streams(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    line = json.dumps({"text": f"{PROSE} one. " * 8}).encode() + b"\n"
    block = line * (4_000_000 // len(line))
    with path.open("wb") as file:
        for _ in range(500):
            file.write(block)
    kept, megabytes = measured(path, "jsonl", tmp_path / "out")
    assert kept == 500 * (4_000_000 // len(line))
    assert megabytes < 400


def test_memory_does_not_grow_with_the_number_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    line = json.dumps({"text": f"{PROSE} one. " * 80}).encode() + b"\n"
    path.write_bytes(line * (10_000_000 // len(line)))
    kept, megabytes = measured(path, "jsonl", tmp_path / "out")
    assert kept == 10_000_000 // len(line)
    assert megabytes < 200
