import unicodedata
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from mlmdist.tokenizer.text import SPACE, _is_normal, normalize


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
