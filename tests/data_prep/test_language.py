import pytest

from data_prep.cleaning import clean
from data_prep.config import Cleaning
from data_prep.documents import Document
from data_prep.language import (
    SAMPLE_CHARACTERS,
    SLICES,
    check_languages,
    known_languages,
    most_likely,
    sample,
)
from mlmdist.errors import ConfigError

TEXTS = {
    "en": "All human beings are born free and equal in dignity and rights, and they have reason.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren und haben Vernunft.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits, et ont raison.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "zh": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "he": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון.",
}


def document(*paragraphs: str) -> Document:
    return Document(1, "1", "", paragraphs)


@pytest.mark.parametrize("code", TEXTS)
def test_languages_are_told_apart(code: str) -> None:
    found, confidence = most_likely(document(TEXTS[code]))
    assert found == code
    assert confidence > 0.9


def test_traditional_chinese_is_chinese() -> None:
    text = "人人生而自由,在尊嚴和權利上一律平等。他們賦有理性和良心,並應以兄弟關係的精神相對待。"
    assert most_likely(document(text))[0] == "zh"
    assert most_likely(document(text, TEXTS["zh"])) == ("zh", pytest.approx(0.99, abs=0.02))


def test_what_is_no_text_has_no_language() -> None:
    for text in ("12 34 56", "\ufffe\uffff", "xqz", ""):
        assert most_likely(document(text)) == ("", 0.0)


def test_w2_documents_of_other_languages_leave() -> None:
    config = Cleaning(min_chars=10, languages=("de", "he"))
    reasons = {code: clean(document(text), config)[1] for code, text in TEXTS.items()}
    assert {code for code, reason in reasons.items() if not reason} == {"de", "he"}
    assert set(reasons.values()) == {"", "language"}
    mixed = document(*[TEXTS["de"][:40]], *[TEXTS["ru"]] * 1)
    assert clean(mixed, Cleaning(min_chars=10, languages=("ru",)))[1] == ""
    assert (
        clean(mixed, Cleaning(min_chars=10, languages=("ru",), min_language_confidence=0.95))[1]
        == "language"
    )


def test_a_bounded_sample_comes_from_all_over_the_text() -> None:
    text = "".join(chr(0x4E00 + number % 5000) for number in range(20_000))
    found = sample(text)
    assert len(found) == SAMPLE_CHARACTERS + SLICES - 1
    assert found.startswith(text[:250])
    assert found.endswith(text[-250:])
    assert sample("short") == "short"


def test_an_unknown_language_is_a_config_error_that_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"klingon: no such language.* de .* en .* zh"):
        check_languages(("de", "klingon"))
    assert {"en", "zh", "he", "jv"} <= known_languages()
    assert len(known_languages()) > 150
    with pytest.raises(ValueError, match="xy: no such language"):
        Cleaning(languages=("xy",))


def test_a_missing_library_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_prep.language.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"mlmdist\[language\]"):
        check_languages(("de",))
    check_languages(())
