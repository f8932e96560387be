import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.cleaning import (
    clean,
    libraries,
    normalised,
    not_text,
    prepared,
    recurring,
    repetitive,
    symbolic,
)
from data_prep.config import Cleaning
from data_prep.documents import Document

anything = st.text(alphabet=st.characters(), max_size=60)
PROSE = (
    "All human beings are born free and equal in dignity and rights.",
    (
        "They are endowed with reason and conscience and should act towards one another in a "
        "spirit of brotherhood, and everyone is entitled to all the rights and freedoms set forth."
    ),
)
OTHERS = {
    "zh": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待……",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है",
    "th": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม",
    "ar": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق وقد وهبوا عقلا وضميرا",
}


def document(*paragraphs: str) -> Document:
    return Document(1, "1", "Title", paragraphs)


@given(st.lists(anything, max_size=5))
def test_normalised_documents_have_no_empty_paragraph(paragraphs: list[str]) -> None:
    found = normalised(document(*paragraphs))
    assert all(found.paragraphs)
    assert normalised(found) == found


@pytest.mark.parametrize(
    ("paragraphs", "reason"),
    [
        (PROSE, ""),
        ((), "empty"),
        ((" \u200b",), "empty"),
        (("Too short.",), "short"),
        (PROSE * 2, "repetitive"),
        ((" | ".join(str(number * 7919 % 9973) for number in range(50)), "In all"), "not_text"),
        (("a" * 500,), "recurring"),
        (("ha " * 200,), "recurring"),
        (("哈" * 300,), "recurring"),
        (("You are the best of all men. " * 30,), "recurring"),
        (("#one #two #three " + " #".join("abcdefghijklmnopqrst") + PROSE[1],), "symbols"),
        (tuple(f"{word}... {word[::-1]}" for word in " ".join(PROSE).split()), "symbols"),
        (tuple(f"• {PROSE[1][first:first + 30]}" for first in range(0, 150, 30)), "bullets"),
        (tuple(f"{PROSE[1][first:first + 40]}..." for first in range(0, 150, 30)), "cut_off"),
    ],
)  # fmt: skip
def test_w2_each_cause_is_named(paragraphs: tuple[str, ...], reason: str) -> None:
    kept, why = clean(document(*paragraphs), Cleaning(min_chars=100))
    assert why == reason
    assert (kept is None) == bool(reason)


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_no_script_is_taken_for_signs_or_repetition(text: str) -> None:
    assert clean(document(text), Cleaning(min_chars=0))[1] == ""


def test_vowel_signs_count_as_letters() -> None:
    assert not not_text(document(OTHERS["hi"]), 0.95)[0]
    assert not_text(document("1234 5678"), 0.1)[0]


def test_repetition_is_counted_in_characters() -> None:
    assert not repetitive(document("a" * 90, "b", "b"), 0.3)[0]
    assert repetitive(document("a" * 90, "a" * 90, "b"), 0.3)[0]


def test_a_part_that_recurs_counts_as_that_part() -> None:
    half = document(" ".join(PROSE), "ha " * 80)
    assert recurring(half, 0.3)[0]
    assert not recurring(half, 0.7)[0]


def test_symbols_are_counted_a_word() -> None:
    assert not symbolic(document("one two three four five six seven eight nine ten #"), 0.1)[0]
    assert symbolic(document("one two three four five six # #"), 0.1)[0]
    assert not symbolic(document("我喜欢读书你呢我也喜欢读书......"), 0.1)[0]


def test_filters_and_forms_are_those_of_the_recipe() -> None:
    poem = document("ha " * 200)
    assert clean(poem, Cleaning(max_recurring_share=1))[1] == ""
    assert prepared(document(" a  b "), Cleaning()).paragraphs == ("a b",)
    assert libraries(Cleaning()) == {}
    assert set(libraries(Cleaning(languages=("en",), to_simplified=True))) == {"pycld2", "opencc"}


def test_cleaning_takes_linear_time() -> None:
    letters = "etaoinshrdlu"
    text = " ".join(
        "".join(letters[number * 7919 // 12**place % 12] for place in range(5))
        for number in range(200_000)
    )
    started = time.process_time()
    assert clean(document(text), Cleaning())[1] == ""
    assert time.process_time() - started < 3
