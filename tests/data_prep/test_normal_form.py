import unicodedata
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.normal_form import _is_plain, normalise

anything = st.text(alphabet=st.characters(), max_size=60)


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
    assert normalise("bad \ufffd\ufffd bytes\ufffc") == "bad bytes"


def test_the_quick_way_leaves_no_character_that_the_long_way_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = chain(
        range(0x3400), range(0xA000, 0xAC00), range(0xD7A4, 0x1FC00), range(0xE0000, 0xE0200)
    )
    plain = [text for code in codes if _is_plain(text := f"a{chr(code)}b")]
    assert len(plain) > 20_000
    quick = [normalise(text) for text in plain]
    monkeypatch.setattr("data_prep.normal_form._is_plain", lambda _: False)
    assert quick == [normalise(text) for text in plain]
