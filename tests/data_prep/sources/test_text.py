import codecs
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.sources.packed import Counts, Damage
from data_prep.sources.text import ALL, TextBytes, check_text, decode, read_lines, whole_text
from tests.data_prep.sources.reading import (
    PACKERS,
    documents,
    entries,
    problems,
    source_file,
    whole,
)

WORDS = "Naïve 中文 words 😀, one by one.\n"


def text_of(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return b"".join(whole_text(path, len(data), Counts()).blocks).decode()


@pytest.mark.parametrize(
    "mark_and_codec",
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
@pytest.mark.parametrize("kind", ["", *sorted(PACKERS)])
def test_encodings_are_known_by_their_mark_in_every_packing(tmp_path, mark_and_codec, kind) -> None:
    mark, codec = mark_and_codec
    data = mark + (WORDS * 500).encode(codec)
    assert text_of(tmp_path / "x", PACKERS[kind](data) if kind else data) == WORDS * 500


def test_utf16_that_ends_inside_a_character_is_damage(tmp_path: Path) -> None:
    with pytest.raises(Damage, match="utf-16-le"):
        text_of(tmp_path / "x", codecs.BOM_UTF16_LE + WORDS.encode("utf-16-le")[:-1])


@settings(max_examples=200)
@given(st.lists(st.one_of(st.text().map(str.encode), st.binary(max_size=4))))
def test_each_byte_that_is_no_utf8_becomes_one_replacement(parts: list[bytes]) -> None:
    counts = Counts()
    text = decode(b"".join(parts), counts)
    assert text == b"".join(parts).decode("utf-8", "surrogateescape").translate(
        dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")
    )
    assert counts.invalid_bytes == len(b"".join(parts)) - len(
        b"".join(parts).decode("utf-8", "ignore").encode()
    )


@settings(max_examples=200)
@given(
    data=st.lists(
        st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"", b"bcd", "\u2028\x85".encode()])
    ).map(b"".join),
    size=st.integers(1, 5),
    most=st.sampled_from([2, 5, 1000]),
)
def test_lines_end_at_line_feeds_alone(data: bytes, size: int, most: int) -> None:
    blocks = iter([data[n : n + size] for n in range(0, len(data), size)])
    lines = list(read_lines(TextBytes(7, ALL, blocks), most))
    expected = data.removesuffix(b"\n").split(b"\n") if data else []
    assert [line.problem for line in lines] == [
        line.problem if len(e) > most else "" for line, e in zip(lines, expected, strict=True)
    ]
    for line, found in zip(lines, expected, strict=True):
        assert data[line.place - 7 :].startswith(found)
        assert bool(line.problem) == (len(found) > most)
        if not line.problem:
            assert line.data == found.removesuffix(b"\r")


def test_files_that_are_no_text_are_refused_by_their_head() -> None:
    check_text(b"Ein Text mit ein wenig Latin-1: " * 100 + b"\xfc\xe4")
    check_text(b"nul\0 in a text" * 3)
    check_text("中文".encode()[:-1])
    for head in (
        bytes(range(256)) * 10,
        WORDS.encode("utf-16-le") * 40,
        "中文中文".encode("gbk") * 50,
    ):
        with pytest.raises(Damage, match="recode it"):
            check_text(head)
    with pytest.raises(Damage, match="tar archive"):
        check_text(b"name".ljust(257, b"\0") + b"ustar\0" + bytes(200))


@pytest.mark.parametrize("kind", ["", *sorted(PACKERS)])
def test_invalid_bytes_in_the_middle_lose_nothing_else(tmp_path: Path, kind: str) -> None:
    lines = [json.dumps({"text": f"line {n}"}).encode() for n in range(600)]
    lines[300] = b'{"text": "a\xff\xfeb\xe4\xb8"}'
    data = b"\n".join(lines)
    data = PACKERS[kind](data) if kind else data
    found = documents(tmp_path / "x", data, format="jsonl")
    assert len(found) == 600
    assert found[300].paragraphs == ("a\ufffd\ufffdb\ufffd\ufffd",)
    assert found[599].paragraphs == ("line 599",)


@pytest.mark.parametrize("kind", sorted(PACKERS))
@pytest.mark.parametrize("cut", [lambda n: n - 4, lambda n: n * 6 // 10])
def test_a_cut_archive_gives_its_beginning_and_one_problem(tmp_path: Path, kind: str, cut) -> None:
    lines = [json.dumps({"text": f"{n} {3**300 // n}"}).encode() for n in range(1, 3000)]
    data = PACKERS[kind](b"\n".join(lines))
    file = source_file(tmp_path / "x", data[: cut(len(data))], format="jsonl")
    found = entries([whole(file)])
    assert isinstance(found[-1][1], str)
    assert f"{kind} ends too early" in found[-1][1]
    assert "allow_quarantined" in found[-1][1]
    assert found[-1][0] is None
    assert len(found) > 500
    assert all(not isinstance(entry, str) for _, entry in found[:-1])


def test_archives_in_a_text_source_are_one_problem(tmp_path: Path) -> None:
    assert problems(tmp_path / "x.zip", b"PK\x03\x04" + bytes(100), format="jsonl") == [
        "is a zip archive, which is not read; unpack it"
    ]
    (problem,) = problems(tmp_path / "x.png", bytes(range(256)) * 9, format="sentences")
    assert problem.startswith("is no text in UTF-8")
