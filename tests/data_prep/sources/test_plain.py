from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from data_prep.config import Source
from data_prep.documents import Document
from data_prep.sources.packed import Counts
from data_prep.sources.plain import is_blank
from data_prep.sources.text import decode
from tests.data_prep.sources.reading import (
    documents,
    entries,
    pieces,
    problems,
    read,
    source_file,
    whole,
)


def test_a_file_is_a_document(tmp_path: Path) -> None:
    data = "\ufeffOne.\r\n\r\nTwo\u2028two.\rThree.".encode()
    (found,) = documents(tmp_path / "novel.txt", data, format="text")
    assert (found.id, found.title, found.group) == (0, "novel.txt", f"{0:016x}")
    assert found.paragraphs == ("One.", "Two\u2028two.", "Three.")
    assert not found.sentences_given


def test_an_empty_file_is_an_empty_document(tmp_path: Path) -> None:
    assert documents(tmp_path / "x", b"", format="text")[0].paragraphs == ()
    assert documents(tmp_path / "x", b" \n\n", format="text")[0].paragraphs == ()


def test_a_file_larger_than_a_record_may_be_is_a_problem(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path / "x", b"x" * 1001, format="text", max_record_bytes=1000)
    assert "max_record_bytes=1,000" in problem


def test_blank_lines_end_documents(tmp_path: Path) -> None:
    data = "\n\none\r\n two\r\n\r\nthree\n\u3000 \t\n\n\nfour".encode()
    found = documents(tmp_path / "x", data, format="text_documents")
    assert [d.paragraphs for d in found] == [("one", " two"), ("three",), ("four",)]
    assert [d.id for d in found] == [data.index(word) for word in (b"one", b"three", b"four")]
    assert [d.title for d in found] == ["", "", ""]


def test_sentences_are_given_as_google_reads_them(tmp_path: Path) -> None:
    data = b"A sentence. With a full stop inside.\nAnother\n\nNext document\n"
    found = documents(tmp_path / "x", data, format="sentences")
    assert [d.sentences_given for d in found] == [True, True]
    assert found[0].paragraphs == ("A sentence. With a full stop inside.", "Another")


def test_a_document_that_is_too_large_is_passed_over(tmp_path: Path) -> None:
    data = b"one\n\n" + b"line\n" * 400 + b"\nlast\n\n" + b"x" * 1001 + b"\nmore\n\nend"
    found = read(tmp_path / "x", data, format="sentences", max_record_bytes=1000)
    kinds = [isinstance(entry, Document) for _, entry in found]
    assert kinds == [True, False, True, False, True]


def test_blank_line_paragraphs_are_for_whole_texts() -> None:
    Source(path="x", format="text", paragraphs="blank_line")
    with pytest.raises(ValidationError, match="paragraphs=blank_line cannot be used"):
        Source(path="x", format="sentences", paragraphs="blank_line")


@given(
    st.text(st.characters(codec="utf-8")) | st.text(" \t\r\f\v\u3000\xa0\x85\u2028\u1680\u205f\x1f")
)
def test_blank_is_what_python_calls_spaces(text: str) -> None:
    assert is_blank(text.encode()) == (not text.strip())


def test_every_space_of_unicode_is_blank() -> None:
    spaces = {chr(n) for n in range(0x110000) if chr(n).isspace()}
    assert {chr(n) for n in range(0xD800) if is_blank(chr(n).encode())} == spaces - {"\n"}
    assert decode("\u3000".encode(), Counts()) in spaces


LINE = ["\n", "\r\n", " \n", "\u3000\n", "a\n", "中\n", "b c\r\n", "\udcff\n", "\u3000x\n"]
LINES = st.lists(st.sampled_from([line.encode("utf-8", "surrogateescape") for line in LINE]))


@settings(max_examples=150)
@given(
    lines=LINES,
    head=st.sampled_from([b"", "\ufeff".encode()]),
    tail=st.sampled_from([b"", b"end", "\u3000".encode()]),
    size=st.integers(1, 9),
    kind=st.sampled_from(["sentences", "text_documents"]),
)
def test_documents_are_the_same_wherever_the_file_is_cut(
    tmp_path_factory, lines: list[bytes], head: bytes, tail: bytes, size: int, kind: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.txt"
    file = source_file(path, b"".join([head, *lines, tail]), format=kind)
    assert entries(pieces(file, size)) == entries([whole(file)])


def test_looking_back_over_long_blank_lines(tmp_path: Path) -> None:
    for spaces in (b" " * 5000, "\u3000".encode() * 3000, b"x" + b" " * 9000):
        for before in (b"one\n", b"one\n\n", b""):
            data = before + spaces + b"\ntwo\n"
            file = source_file(tmp_path / "x", data, format="sentences")
            expected = entries([whole(file)])
            assert entries(pieces(file, len(data) - 3)) == expected
            assert entries(pieces(file, len(data) - 6)) == expected
