import unicodedata
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.tokenizer import text
from mlmdist.tokenizer.text import BETWEEN, SPACE, _is_normal, normalize, normalize_all


def the_long_way(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).replace(SPACE, " ").split())


def test_the_quick_way_gives_what_the_long_way_gives_of_each_character() -> None:
    codes = chain(
        range(0x3400), range(0xA000, 0xAC00), range(0xD7A4, 0x1FC00), range(0xE0000, 0xE0200)
    )
    quick = [text for code in codes if _is_normal(text := f"a{chr(code)}b")]
    assert len(quick) > 20_000
    assert quick == [the_long_way(text) for text in quick]


@given(st.text(st.sampled_from("ae\u0301é  \t\n\u00a0\u3000▁ﬁ北\x00"), max_size=8))
def test_spaces_and_combining_marks(text: str) -> None:
    assert normalize(text) == the_long_way(text)


def test_cleaned_text_goes_the_quick_way() -> None:
    assert _is_normal("The cat's mat (12) – 北京, café.")
    assert not any(map(_is_normal, ["a  b", " a", "a ", "a\tb", "a▁b", "ﬁ", "e\u0301"]))


@given(
    st.lists(
        st.text(st.sampled_from("a|\u0338\u0301é  \t▁ﬁ北\u1100\u1161"), max_size=4), max_size=70
    )
)
def test_many_at_once_are_what_each_is_alone(texts: list[str]) -> None:
    assert list(normalize_all(texts)) == list(map(the_long_way, texts))


def test_nothing_composes_with_what_stands_between_texts() -> None:
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.is_normalized("NFKC", character):
            joined = f"a{BETWEEN}{character}{BETWEEN}a"
            assert unicodedata.is_normalized("NFKC", joined), hex(code)


def test_cleaned_paragraphs_go_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["The cat's mat (12) – 北京, café."] * 100
    monkeypatch.setattr(text, "normalize", None)
    assert list(normalize_all(texts)) == texts
