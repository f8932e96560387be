import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.cleaning import normalised
from data_prep.documents import Document
from data_prep.long_paragraphs import MAX_PARAGRAPH_CHARACTERS, within_limit
from data_prep.sentences import ends

SENTENCE = "The quick brown fox jumps over the lazy dog. "
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


@given(st.text(alphabet="ab. 漢。\u0301\u200d\U0001f468\ud800", max_size=300), st.integers(5, 60))
def test_only_spaces_are_lost_and_no_piece_is_too_long(text: str, limit: int) -> None:
    pieces = list(within_limit([text], limit))
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert all(len(piece) <= limit for piece in pieces)
    assert pieces == [text] or len(text) > limit


def test_short_paragraphs_stay_as_they_are() -> None:
    assert list(within_limit(["a ", "", " b"])) == ["a ", "", " b"]


def test_cuts_are_at_sentence_ends_then_at_spaces() -> None:
    *pieces, last = within_limit([SENTENCE * 50], 500)
    assert set(pieces) == {(SENTENCE * 11).strip()}
    assert last == SENTENCE * 6
    words = list(within_limit(["word\t" * 500], 99))
    assert {word for piece in words for word in piece.split()} == {"word"}
    assert "".join(words).count("word") == 500


@pytest.mark.parametrize(
    "sign", ["e\u0301\u0302", FAMILY, "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "각"]
)
def test_a_sign_of_several_characters_is_whole(sign: str) -> None:
    for limit in range(40, 48):
        pieces = list(within_limit([sign * 200], limit))
        assert all(piece == sign * (len(piece) // len(sign)) for piece in pieces)


def test_marks_without_end_are_cut_nonetheless() -> None:
    pieces = list(within_limit(["a" + "\u0301" * 1000], 100))
    assert max(map(len, pieces)) <= 100


@pytest.mark.parametrize("unit", ["x", "漢", SENTENCE, '"Unclosed. ', "\u0301"])
def test_megabytes_on_one_line_take_linear_time(unit: str) -> None:
    text = unit * (3_000_000 // len(unit))
    started = time.process_time()
    document = normalised(Document(1, "1", "", (text,)))
    assert time.process_time() - started < 6
    assert max(map(len, document.paragraphs)) <= MAX_PARAGRAPH_CHARACTERS
    assert (
        document.num_characters
        >= len(text) - 2 * len(document.paragraphs) - text.count(" ") // 1000
    )


def test_a_normal_form_longer_than_its_source_is_cut_too() -> None:
    (limit, ligature) = (MAX_PARAGRAPH_CHARACTERS, "\ufdfa")  # eighteen letters
    document = normalised(Document(1, "1", "", (ligature * (limit - 1),)))
    assert max(map(len, document.paragraphs)) <= limit
    assert document.num_characters > 17 * limit


def test_a_document_once_cut_is_cut_no_more() -> None:
    once = normalised(Document(1, "1", "", (SENTENCE * 6000,)))
    assert normalised(once) == once
    assert all(len(ends(paragraph)) > 2000 for paragraph in once.paragraphs[:-1])
