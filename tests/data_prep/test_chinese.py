import pytest

from data_prep.chinese import check_simplified, simplified
from data_prep.cleaning import clean, prepared
from data_prep.config import Cleaning
from data_prep.documents import Document
from mlmdist.errors import ConfigError

TRADITIONAL = ("漢字轉換的方法。", "皇后在後面,乾坤與著作。", "Plain.", "臺灣 Taiwan")
SIMPLIFIED = ("汉字转换的方法。", "皇后在后面,乾坤与著作。", "Plain.", "台湾 Taiwan")


def test_characters_and_words_become_simplified() -> None:
    assert simplified(TRADITIONAL) == SIMPLIFIED
    assert simplified(SIMPLIFIED) == SIMPLIFIED
    assert simplified(("Plain.", "")) == ("Plain.", "")


def test_w2_the_counted_form_is_the_changed_one() -> None:
    document = Document(1, "1", "標題", (*TRADITIONAL, "  漢字  轉換 "))
    found = prepared(document, Cleaning(to_simplified=True))
    assert found.title == "标题"
    assert found.paragraphs == (*SIMPLIFIED, "汉字 转换")
    assert prepared(found, Cleaning(to_simplified=True)) == found
    assert prepared(document, Cleaning()).paragraphs[0] == TRADITIONAL[0]


def test_duplicates_in_both_scripts_are_repetition() -> None:
    document = Document(1, "1", "", (TRADITIONAL[1], SIMPLIFIED[1]))
    assert clean(document, Cleaning(min_chars=0, to_simplified=True))[1] == "repetitive"
    assert clean(document, Cleaning(min_chars=0))[1] == ""


def test_a_missing_library_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_prep.chinese.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"mlmdist\[chinese\]"):
        check_simplified()
    with pytest.raises(ValueError, match=r"mlmdist\[chinese\]"):
        Cleaning(to_simplified=True)
