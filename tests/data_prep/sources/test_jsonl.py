import json
from pathlib import Path

import pytest

from data_prep.documents import Document
from data_prep.sources.files import find_files
from data_prep.sources.splits import plan_splits
from tests.data_prep.sources.reading import documents, entries, problems, read

GOOD = b'{"text": "fine"}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "corpus.jsonl"


def test_a_document_a_line_with_the_byte_of_its_line_as_place(path: Path) -> None:
    data = b'{"text": "one\\ntwo", "title": "T"}\n\n{"text": "three"}'
    first, second = documents(path, data, format="jsonl")
    assert (first.id, first.title, first.paragraphs) == (0, "T", ("one", "two"))
    assert second.id == data.rindex(b"{")
    assert first.group != second.group


def test_line_ends_of_any_kind_and_a_byte_order_mark(path: Path) -> None:
    data = '\ufeff{"text": "a\u2028b\x85c"}\r\n \r\n{"text": "d"}\r\n\ufeff{"text": "e"}'.encode()
    found = documents(path, data, format="jsonl")
    assert [d.paragraphs for d in found] == [("a\u2028b\x85c",), ("d",), ("e",)]


def test_fields_are_chosen(path: Path) -> None:
    data = json.dumps({"body": "b", "text": "t", "name": "N", "site": 7, "title": "T"}).encode()
    (found,) = documents(path, data, format="jsonl", text_field="body", id_field="name")
    assert (found.title, found.group, found.paragraphs) == ("N", "N", ("b",))
    (found,) = documents(path, data, format="jsonl", id_field="name", group_field="site")
    assert (found.title, found.group, found.paragraphs) == ("N", "7", ("t",))


def test_e1_a_document_without_a_group_is_its_own(path: Path) -> None:
    lines = [b'{"text": "a", "site": null}', b'{"text": "b", "site": null}']
    found = documents(path, b"\n".join(lines), format="jsonl", group_field="site")
    assert [d.group for d in found] == [f"{d.id:016x}" for d in found]
    assert len({d.group for d in found}) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "a"', "Expecting"),
        (b'{"text": "a"} {"text": "b"}', "Extra data"),
        (b"[1]", "holds a list, must be an object"),
        (b"null", "holds a NoneType, must be an object"),
        (b'{"txt": "a"}', "field 'text' holds nothing, must be a string"),
        (b'{"text": null}', "field 'text' holds None"),
        (b'{"text": 5}', "field 'text' holds 5"),
        (b'{"text": NaN}', "field 'text' holds nan"),
        (b'{"text": ["a"]}', "field 'text' holds ['a']"),
        (b'{"text": "a\nb"}', ""),
        (b"[" * 200_000, "nested too deep"),
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "nested too deep"),
        (b"\x00\x00", "Expecting value"),
        (b"not JSON at all", "Expecting value"),
        ("\u3000".encode(), "Expecting value"),
    ],
)
def test_a_bad_line_is_a_problem_and_the_next_goes_on(path: Path, line: bytes, reason: str) -> None:
    found = read(path, b"\n".join([GOOD, line, GOOD]), format="jsonl")
    first, last = found[0][1], found[-1][1]
    assert isinstance(first, Document)
    assert isinstance(last, Document)
    bad = [entry for _, entry in found[1:-1]]
    assert len(bad) == 1 + line.count(b"\n")
    assert all(isinstance(entry, str) and reason in entry for entry in bad)


def test_odd_values_that_harm_no_text_are_read(path: Path) -> None:
    lines = [
        b'{"text": "a", "score": NaN, "big": 1e999, "more": -Infinity}',
        b'{"text": "first", "text": "last"}',
        b'{"text": "\\ud800 lone \\udfff"}',
        b'{"text": "pair \\ud83d\\ude00"}',
        b'{"text": "nul \\u0000"}',
        b'{"text": "", "id": 123456789012345678901234567890}',
    ]
    texts = [d.paragraphs for d in documents(path, b"\n".join(lines), format="jsonl")]
    assert texts == [("a",), ("last",), ("\ud800 lone \udfff",), ("pair 😀",), ("nul \x00",), ()]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "a"}', "field 'site' is missing"),
        (b'{"text": "a", "site": ["x"]}', "must be a string, a number or null"),
        (b'{"text": "a", "site": NaN}', "must be a string, a number or null"),
    ],
)
def test_a_bad_group_is_a_problem(path: Path, line: bytes, reason: str) -> None:
    (problem,) = problems(path, line, format="jsonl", group_field="site")
    assert reason in problem


def test_a_line_that_is_too_long_is_passed_over(path: Path) -> None:
    data = b"\n".join([GOOD, b'{"text": "' + b"x" * 3_000_000 + b'"}', GOOD])
    found = read(path, data, format="jsonl", max_record_bytes=1_000_000)
    assert [isinstance(entry, Document) for _, entry in found] == [True, False, True]
    assert "max_record_bytes=1,000,000" in str(found[1][1])
    assert found[2][0] == data.rindex(b"{")


def test_paragraphs_between_blank_lines(path: Path) -> None:
    data = json.dumps({"text": "hard line\nbreaks \r\n\n \nnext"}).encode()
    (found,) = documents(path, data, format="jsonl", paragraphs="blank_line")
    assert found.paragraphs == ("hard line breaks", "next")


def test_an_empty_file_holds_nothing(path: Path) -> None:
    for data in (b"", b"\n", b" \r\n\n", "\ufeff".encode()):
        assert read(path, data, format="jsonl") == []
    assert entries(plan_splits(find_files([]))) == []
