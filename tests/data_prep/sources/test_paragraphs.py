import pytest

from data_prep.sources.paragraphs import paragraphs_of


def test_paragraphs_are_lines() -> None:
    assert paragraphs_of("a\n\n b\r\n\t\nc\rd", "line") == ("a", " b", "c", "d")
    assert paragraphs_of("", "line") == paragraphs_of(" \n\u3000\n", "line") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A hard\nline break.\n\nNext.", ("A hard line break.", "Next.")),
        ("A hard  \n  line\r\n \t\r\n\r\nNext.\n", ("A hard line", "Next.")),
        ("中文，\n中文", ("中文，中文",)),
        ("中文\n中文\n\n中文", ("中文中文", "中文")),
        ("ひらが\nなとカタ\nカナ", ("ひらがなとカタカナ",)),
        ("中文\nEnglish\n中文", ("中文 English 中文",)),
        ("한국어\n띄어쓰기", ("한국어 띄어쓰기",)),
        ("𠀀\n𠀁", ("𠀀𠀁",)),
        ("  indented one", ("  indented one",)),
        ("\n\n\n", ()),
    ],
)
def test_paragraphs_stand_between_blank_lines(text: str, expected: tuple[str, ...]) -> None:
    assert paragraphs_of(text, "blank_line") == expected
