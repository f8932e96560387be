import io

import pytest

from data_prep.config import Source
from data_prep.documents import Document
from data_prep.sources.jsonl import read_records
from mlmdist.errors import DataError

PLAIN = Source(path="x", format="jsonl")
GROUPED = Source(path="x", format="jsonl", text_field="body", group_field="site")


def read(data: bytes, source: Source = PLAIN) -> list[Document]:
    return list(read_records(io.BytesIO(data), "corpus.jsonl", 3, source))


def test_a_document_a_line_with_the_byte_of_its_line_as_place() -> None:
    data = b'{"text": "one\\ntwo", "title": "T"}\n\n{"text": "three"}'
    first, second = read(data)
    assert (first.id, first.title, first.paragraphs) == (3 << 40, "T", ("one", "two"))
    assert second.id == 3 << 40 | data.rindex(b"{")
    assert first.group != second.group


def test_line_ends_of_any_kind_and_a_byte_order_mark() -> None:
    data = '\ufeff{"text": "a\u2028b\x85c"}\r\n{"text": "d"}\r\n'.encode()
    assert [d.paragraphs for d in read(data)] == [("a\u2028b\x85c",), ("d",)]


def test_e1_a_document_without_a_group_is_its_own() -> None:
    lines = [
        b'{"body": "a", "site": null}',
        b'{"body": "b", "site": null}',
        b'{"body": "c", "site": 7}',
    ]
    groups = [d.group for d in read(b"\n".join(lines), GROUPED)]
    assert len(set(groups)) == 3
    assert groups[2] == "7"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "a"', "line 2"),
        (b"[1]", "holds a list, must be an object"),
        (b'{"txt": "a"}', "field 'text' holds None, must be a string"),
        (b'{"text": 5}', "field 'text' holds 5"),
        (b'{"text": "\xff"}', "codec"),
        (b"[" * 200_000, "recursion"),
    ],
)
def test_a_bad_line_is_named(line: bytes, reason: str) -> None:
    with pytest.raises(DataError, match="line 2") as raised:
        read(b'{"text": "fine"}\n' + line)
    assert reason in str(raised.value)
    assert "mend or remove it" in str(raised.value)


def test_a_bad_group_is_named() -> None:
    with pytest.raises(DataError, match="field 'site' is missing"):
        read(b'{"body": "a"}', GROUPED)
    with pytest.raises(DataError, match="must be a string, a number or null"):
        read(b'{"body": "a", "site": ["x"]}', GROUPED)
