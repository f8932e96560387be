import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from data_prep.cleaning import clean, normalise, normalised, not_text, repetitive
from data_prep.config import Cleaning
from data_prep.documents import Document

anything = st.text(alphabet=st.characters(), max_size=60)


def document(*paragraphs: str) -> Document:
    return Document(1, "1", "Title", paragraphs)


@given(anything)
def test_normal_form_is_a_fixed_point(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert " ".join(unicodedata.normalize("NFKC", once).split()) == once
    once.encode()  # no lone surrogates


def test_normal_form_of_known_texts() -> None:
    assert normalise(" a\u00a0\t b\r\nc ") == "a b c"
    assert normalise("\u200bso\u00adft\ufeff\u202e \x00x\x1b") == "soft x"
    assert normalise("Ａ１，ﬁｱ①") == "A1,fiア1"
    assert normalise("می\u200cخواهم क्\u200dष") == "می\u200cخواهم क्\u200dष"  # joiners spell
    assert normalise("a\ud800b") == "ab"
    assert normalise("e\u3164\u0301") == "é"  # NFKC makes the filler one that is removed


@given(st.lists(anything, max_size=5))
def test_normalised_documents_have_no_empty_paragraph(paragraphs: list[str]) -> None:
    found = normalised(document(*paragraphs))
    assert all(found.paragraphs)
    assert normalised(found) == found


def test_w2_each_cause_is_named() -> None:
    prose = "All human beings are born free and equal in dignity and rights. " * 4
    config = Cleaning(min_chars=100)
    assert clean(document(prose), config) == (document(prose.strip()), "")
    assert clean(document(), config) == (None, "empty")
    assert clean(document(" \u200b"), config) == (None, "empty")
    assert clean(document("Too short."), config) == (None, "short")
    assert clean(document(*[prose] * 3), config) == (None, "repetitive")
    assert clean(document("12.5 | 13.7 | 2009 " * 20), config) == (None, "not_text")


def test_vowel_signs_count_as_letters() -> None:
    assert not not_text(document("सभी मनुष्यों को गौरव और अधिकार " * 5), 0.9)[0]


def test_repetition_is_counted_in_characters() -> None:
    assert not repetitive(document("a" * 90, "b", "b"), 0.3)[0]
    assert repetitive(document("a" * 90, "a" * 90, "b"), 0.3)[0]
