from pathlib import Path

import pytest

from data_prep.word_files import read_dictionary, read_word_list
from mlmdist.errors import ConfigError


def test_a_word_list_has_a_tag_a_word(tmp_path: Path) -> None:
    path = tmp_path / "tags.tsv"
    path.write_bytes(
        "\ufeff# content words\nriver\t1\r\n\nMill\t2\nＮＡＴＯ\t255\nmill\t3\n".encode()
    )
    found = read_word_list(path)
    asked = ["river", "River", "RIVER", "Mill", "mill", "MILL", "NATO", "nato", "the", ""]
    assert [found.tag(word) for word in asked] == [1, 1, 1, 2, 3, 3, 255, 0, 0, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\t1\nb 2\n", "line 2: 'b 2' must be one word, a tab, and a tag"),
        (b"a\t1\n\tb\n", "line 2"),
        (b"two words\t1\n", "line 1"),
        (b"a\t0\n", "line 1: the tag '0' must be a number from 1 to 255"),
        (b"a\t256\n", "line 1: the tag '256'"),
        ("a\t²\n".encode(), "line 1: the tag '²'"),
        (b"a\t1\na\t1\n\na\t2\n", "line 4: 'a' has the tag 1 on an earlier line"),
        (b"a\t1\n\xff\t2\n", "line 2: is no UTF-8"),
    ],
)
def test_a_bad_word_list_is_an_error_that_names_the_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "tags.tsv"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"tags\.tsv") as error:
        read_word_list(path)
    assert message in str(error.value)


def test_a_dictionary_has_words_and_maybe_frequencies(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("石墨烯\n# none\n碳纳米管 30\nＴ恤\n", "utf-8")
    assert read_dictionary(path) == [("石墨烯", None), ("碳纳米管", 30), ("T恤", None)]
    for content in ("石墨烯 many\n", "石墨烯 3 n\n", "石墨烯 0\n"):
        path.write_text("好\n" + content, "utf-8")
        with pytest.raises(ConfigError, match=r"words\.txt, line 2"):
            read_dictionary(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_dictionary(tmp_path)
