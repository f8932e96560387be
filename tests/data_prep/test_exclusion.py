import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.documents import Document
from data_prep.exclusion import (
    BATCH_CHARACTERS,
    MIN_WORDS,
    RUN_WORDS,
    build_table,
    excluded_in,
    excluded_paragraphs,
    without_excluded,
)
from tests.data_prep.corpus import documents

SENTENCES = (  # from a treebank, a set of reviews, and made up
    "Al-Zaman: American forces killed Shaikh Abdullah al-Ani, the preacher at the mosque in Qaim.",
    "the film is a compelling piece of work that never once loses sight of its quiet heroine",
    "A short one of seven words, indeed.",
    "Only four words here",
    "人人生而自由，在尊严和权利上一律平等，他们赋有理性和良心。",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์",
)


def document(*paragraphs: str, number: int = 1) -> Document:
    return Document(number, str(number), "", paragraphs)


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    return build_table([document(sentence) for sentence in SENTENCES])


@pytest.mark.parametrize("sentence", SENTENCES)
def test_e1_a_paragraph_that_contains_a_text_is_found(sentence: str, table: np.ndarray) -> None:
    alone = document("Something else.", sentence, "And more of it.")
    assert excluded_paragraphs(alone, table) == [1]
    inside = document("It says: " + sentence + " So it ends.")
    assert excluded_paragraphs(inside, table) == ([] if "four" in sentence else [0])


def test_e1_case_and_marks_do_not_matter(table: np.ndarray) -> None:
    assert excluded_paragraphs(document(SENTENCES[0].upper().replace(",", " --")), table) == [0]
    assert excluded_paragraphs(document("ONLY (four), words: here!"), table) == [0]


def test_e1_thirteen_words_in_a_row_are_enough_and_twelve_are_not(table: np.ndarray) -> None:
    words = SENTENCES[1].split()
    assert len(words) > RUN_WORDS
    for first in range(len(words) - RUN_WORDS + 1):
        run = words[first : first + RUN_WORDS]
        assert excluded_paragraphs(document("x " + " ".join(run) + " y"), table) == [0]
        changed = [*run[:6], "other", *run[7:]]
        assert excluded_paragraphs(document(" ".join(changed)), table) == []
        assert excluded_paragraphs(document(" ".join(run[1:])), table) == []


def test_e1_a_run_over_paragraphs_takes_them_all(table: np.ndarray) -> None:
    words = SENTENCES[0].split()
    parts = (" ".join(words[:5]), " ".join(words[5:9]), " ".join(words[9:]), "The end of it.")
    assert excluded_paragraphs(document("So.", *parts), table) == [1, 2, 3]
    halves = [document(*parts[:2]), document(*parts[2:])]
    assert excluded_in(halves, table) == [[], []]  # two documents


@settings(max_examples=40)
@given(st.data())
def test_e1_nothing_excluded_is_left_and_nothing_else_leaves(data: st.DataObject) -> None:
    """Against the rule in plain words, on texts of few words, which meet often."""
    words = st.sampled_from(["a", "b", "漢"])
    texts = data.draw(st.lists(st.lists(words, max_size=20), max_size=4))
    paragraphs = data.draw(st.lists(st.lists(words, max_size=30), max_size=6))
    runs = {
        tuple(text[n : n + RUN_WORDS]) for text in texts for n in range(len(text) - RUN_WORDS + 1)
    }
    runs |= {tuple(text) for text in texts if MIN_WORDS <= len(text) < RUN_WORDS}
    whole = {tuple(text) for text in texts if 0 < len(text) < MIN_WORDS}
    flat = [(word, number) for number, text in enumerate(paragraphs) for word in text]
    expected = {n for n, text in enumerate(paragraphs) if tuple(text) in whole}
    for length in range(MIN_WORDS, RUN_WORDS + 1):
        for first in range(len(flat) - length + 1):
            if tuple(word for word, _ in flat[first : first + length]) in runs:
                expected |= set(range(flat[first][1], flat[first + length - 1][1] + 1))
    table = build_table([document(*[" ".join(text) for text in texts])])
    found = excluded_paragraphs(document(*[" ".join(text) for text in paragraphs]), table)
    assert found == sorted(expected)


def test_e1_batches_and_many_documents_change_nothing(table: np.ndarray) -> None:
    some = documents(0, 40)
    some[7] = document(*some[7].paragraphs[:3], SENTENCES[2], *some[7].paragraphs[3:])
    some[30] = document(SENTENCES[4], *some[30].paragraphs)
    assert sum(each.num_characters for each in some) > BATCH_CHARACTERS
    found = excluded_in(some, table)
    assert found == [excluded_paragraphs(each, table) for each in some]
    assert {n: one for n, one in enumerate(found) if one} == {7: [3], 30: [0]}
    joined = document(*[text for each in some for text in each.paragraphs])
    assert len(excluded_paragraphs(joined, table)) == 2
    assert build_table([]).size == 0
    assert excluded_in(some[:2], build_table([])) == [[], []]
    assert excluded_in([], table) == []


@pytest.mark.parametrize("words_before", range(1, RUN_WORDS, 4))
def test_e1_a_run_over_two_batches_is_found(words_before: int, table: np.ndarray) -> None:
    words = SENTENCES[1].split()
    first = "word " * (BATCH_CHARACTERS // 5) + " ".join(words[:words_before])
    second = " ".join(words[words_before:RUN_WORDS])
    assert excluded_paragraphs(document("So.", first, second, "So."), table) == [1, 2]


def test_s1_a_table_does_not_depend_on_the_order_of_documents() -> None:
    some = [document(sentence) for sentence in SENTENCES]
    table = build_table(some)
    assert np.array_equal(build_table(some[::-1]), table)
    parts = [build_table(some[:2]), build_table(some[2:])]
    assert np.array_equal(np.unique(np.concatenate(parts)), table)
    assert table.dtype == np.uint64


def test_w2_what_leaves_is_counted(table: np.ndarray) -> None:
    kept = "Something that is long enough to stay."
    ((rest, dropped),) = without_excluded([document(kept, SENTENCES[2])], table, 10)
    assert rest is not None
    assert (rest.paragraphs, dropped) == ((kept,), len(SENTENCES[2]))
    alone, short, other = (document(SENTENCES[2]), document(kept, SENTENCES[2]), document("Short."))
    assert without_excluded([alone], table, 0) == [(None, len(SENTENCES[2]))]
    assert without_excluded([short, other], table, 100) == [
        (None, short.num_characters),
        (other, 0),
    ]


def test_a_table_takes_at_most_sixteen_bytes_a_word() -> None:
    words = [str(number * 7919) for number in range(20_000)]
    texts = [" ".join(words[first : first + 40]) for first in range(0, len(words), 40)]
    assert build_table([document(*texts)]).nbytes <= 16 * len(words)


def test_time_is_linear_in_a_document_without_paragraphs(table: np.ndarray) -> None:
    started = time.process_time()
    assert excluded_paragraphs(document("word " * 400_000), table) == []
    assert excluded_paragraphs(document(*["word"] * 50_000), table) == []
    assert time.process_time() - started < 10
