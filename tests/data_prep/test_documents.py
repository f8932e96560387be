from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.documents import (
    Document,
    document_id,
    from_line,
    held_out_side,
    read_documents,
    to_line,
    write_documents,
)
from mlmdist.errors import DataError

texts = st.text(alphabet=st.characters(), max_size=20)


@given(st.integers(0, 2**64 - 1), texts, texts, st.lists(texts, max_size=4))
def test_a_line_gives_its_document_back(
    number: int, group: str, title: str, paragraphs: list[str]
) -> None:
    document = Document(number, group, title, tuple(paragraphs))
    line = to_line(document)
    assert line.count(b"\n") == 1
    assert from_line(line) == document


def test_an_id_is_its_source_and_place() -> None:
    assert document_id(3, 5) == 3 << 40 | 5
    with pytest.raises(DataError, match="64-bit id"):
        document_id(0, 1 << 40)
    with pytest.raises(DataError, match="64-bit id"):
        document_id(1 << 24, 0)


def test_a_file_gives_its_documents_back(tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl"
    some = [Document(i, str(i), f"Title {i}", ("One.", "日本語。")) for i in range(5)]
    with path.open("wb") as file:
        assert write_documents(file, some) == 5
    assert list(read_documents(path)) == some


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data.replace(b'"group"', b'"team"', 1),
        lambda data: data[: len(data) // 2],
        lambda data: b"[]\n",
        lambda data: b'{"id":-1,"group":"","title":"","paragraphs":[]}\n',
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path: Path, damage) -> None:
    path = tmp_path / "part.jsonl"
    path.write_bytes(damage(to_line(Document(7, "g", "t", ("x" * 50,)))))
    with pytest.raises(DataError, match=r"part\.jsonl, line 1"):
        list(read_documents(path))


def test_e1_sides_are_a_function_of_group_and_seed() -> None:
    assert [held_out_side(f"group {i}", 0.3, 1) for i in range(12)] == [
        bool(int(bit)) for bit in GOLDEN_SIDES
    ]


GOLDEN_SIDES = "010100000010"  # golden: a released split never changes


def test_e1_a_larger_share_holds_out_a_superset() -> None:
    groups = [f"group {i}" for i in range(2000)]
    small = {group for group in groups if held_out_side(group, 0.1, 5)}
    large = {group for group in groups if held_out_side(group, 0.2, 5)}
    other = {group for group in groups if held_out_side(group, 0.1, 6)}
    assert small < large
    assert 150 < len(small) < 250
    assert len(small & other) < 50
    assert not any(held_out_side(group, 0.0, 5) for group in groups)
    assert all(held_out_side(group, 1.0, 5) for group in groups)
