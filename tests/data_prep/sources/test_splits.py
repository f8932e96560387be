import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from data_prep.config import Source
from data_prep.sources.files import find_files
from data_prep.sources.splits import FILES_A_SPLIT, Split, plan_splits
from mlmdist.errors import DataError
from tests.data_prep.sources.reading import entries, pieces, source_file, whole

LINES = [json.dumps({"text": f"{n} " * (n % 90)}) for n in range(400)]


def plan(path: Path, data: bytes, **source: Any) -> list[Split]:
    return plan_splits([source_file(path, data, **source)])


@settings(max_examples=80)
@given(
    lines=st.lists(st.sampled_from(["", " ", '{"text": "中"}', "bad", '{"text": "a b"}'])),
    end=st.sampled_from(["\n", "\r\n"]),
    head=st.sampled_from(["", "\ufeff"]),
    size=st.integers(1, 40),
)
@example(lines=['{"text": "a"}'], end="\n", head="\ufeff", size=1)
@example(lines=['{"text": "a"}'], end="\n", head="\ufeff", size=2)
def test_lines_are_the_same_wherever_the_file_is_cut(
    tmp_path_factory, lines: list[str], end: str, head: str, size: int
) -> None:
    data = (head + end.join(lines)).encode()
    file = source_file(tmp_path_factory.getbasetemp() / "cut.jsonl", data, format="jsonl")
    assert entries(pieces(file, size)) == entries([whole(file)])


@pytest.mark.parametrize("split_bytes", [1_000, 64_000, 64_000_000])
@pytest.mark.parametrize("kind", ["jsonl", "sentences", "text_documents"])
def test_the_planner_s_splits_give_the_same_records(
    tmp_path: Path, kind: str, split_bytes: int
) -> None:
    separator = "\n" if kind == "jsonl" else "\n\n"
    data = separator.join(LINES).encode()
    file = source_file(tmp_path / "x", data, format=kind, split_bytes=split_bytes)
    splits = plan_splits([file])
    assert (len(splits) > 1) == (split_bytes < len(data))
    found = entries(splits)
    assert found == entries([whole(file)])
    assert len(found) == len({number for number, _ in found}) == 400


def test_pieces_cover_a_file_once(tmp_path: Path) -> None:
    splits = plan(tmp_path / "x", b"a\n" * 5500, format="jsonl", split_bytes=1000)
    edges = [(piece.start, piece.stop) for split in splits for piece in split.pieces]
    assert edges == [(n, n + 1000) for n in range(0, 11_000, 1000)]
    assert [split.index for split in splits] == list(range(11))
    assert sum(split.num_bytes for split in splits) == 11_000
    assert [piece.is_last for split in splits for piece in split.pieces] == [False] * 10 + [True]


@pytest.mark.parametrize(
    ("data", "kind", "cut"),
    [
        (b"a\n" * 1000, "text", False),
        (b"a\n" * 1000, "sentences", True),
        (b"\xef\xbb\xbf" + b"a\n" * 1000, "sentences", True),
        (("a\n" * 1000).encode("utf-16"), "sentences", False),
        (gzip.compress(str(list(range(3000))).encode()), "jsonl", False),
        (bz2.compress(str(list(range(3000))).encode()), "jsonl", False),
        (bz2.compress(str(list(range(3000))).encode()), "mediawiki", True),
        (b"<mediawiki>" * 1000, "mediawiki", True),
        (bytes(range(256)) * 10, "jsonl", False),
        (b"PK\x03\x04" * 1000, "jsonl", False),
    ],
)
def test_only_what_can_be_read_from_anywhere_is_cut(tmp_path: Path, data, kind, cut) -> None:
    assert (len(plan(tmp_path / "x", data, format=kind, split_bytes=1000)) > 1) == cut


def test_small_files_are_read_together(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02d}").write_bytes(b"x" * 100)
    (tmp_path / "03").write_bytes(b"x" * 2000)
    (tmp_path / "04").write_bytes(b"")
    source = Source(path=str(tmp_path), format="text", split_bytes=1000)
    splits = plan_splits(find_files([source]))
    assert [len(split.pieces) for split in splits] == [3, 1, 11, 10, 5]
    found = entries(splits)
    assert [number for number, _ in found] == [index << 40 for index in range(30)]
    assert splits[0].name == "00 and 2 more"


def test_a_split_holds_files_of_one_source(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"x")
    sources = [
        Source(path=str(tmp_path / "a"), format="text"),
        Source(path=str(tmp_path / "b"), format="sentences"),
    ]
    assert [len(split.pieces) for split in plan_splits(find_files(sources))] == [1, 1]


def test_a_split_holds_not_more_files_than_it_may(tmp_path: Path) -> None:
    file = source_file(tmp_path / "x", b"x", format="text")
    splits = plan_splits([file] * (2 * FILES_A_SPLIT + 1))
    assert [len(split.pieces) for split in splits] == [FILES_A_SPLIT, FILES_A_SPLIT, 1]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = source_file(tmp_path / "x", b"a\n" * 1000, format="jsonl", split_bytes=1000)
    (tmp_path / "x").unlink()
    with pytest.raises(DataError, match="x: cannot be read"):
        plan_splits([file])
