"""What is kept of long documents: its amount, its place, and that it is the same everywhere."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.config import Windows
from data_prep.key_sentences import chosen, information, log2_fixed, sentence_scores
from data_prep.long_text import cut_documents
from mlmdist.windows import Cut, Text, cut, place

SIZE = 30  # of the vocabulary
CAPACITY = 29
KNOWN = information([0.0] * SIZE)
Documents = list[list[list[int]]]

corpora = st.lists(
    st.lists(st.lists(st.integers(5, SIZE - 1), min_size=1, max_size=40), max_size=12),
    min_size=1,
    max_size=4,
)


def text_of(documents: Documents) -> tuple[Text, np.ndarray]:
    """Documents given as sentences given as ids."""
    sentences = [sentence for document in documents for sentence in document]
    starts = np.array([0, *accumulate(map(len, sentences))])
    bounds = starts[[0, *accumulate(map(len, documents))]]
    tokens = np.array([token for sentence in sentences for token in sentence], dtype=np.uint16)
    return Text(bounds, starts[:-1], np.ones(len(tokens), dtype=np.bool_)), tokens


def kept(documents: Documents, **settings: object) -> tuple[Text, Cut]:
    text, tokens = text_of(documents)
    ids = np.arange(100, 100 + len(documents)).astype(np.uint64)
    config = Windows.model_validate({"max_seq_len": CAPACITY + 3} | settings)
    return text, cut_documents(text, tokens, ids, KNOWN, config, CAPACITY + 3)


def rows(windows: Cut) -> list[tuple[int, int, int]]:
    parts = (windows.start.tolist(), windows.stop.tolist(), windows.repeated.tolist())
    return list(zip(*parts, strict=True))


@given(corpora, st.sampled_from(["random_crop", "key_sentences", "first"]), st.integers(1, 3))
def test_w1_w2_no_token_is_new_twice_and_all_are_kept_or_counted(
    documents: Documents, long_text: str, crops: int
) -> None:
    overlap = 10 * (long_text != "random_crop")
    text, windows = kept(documents, long_text=long_text, crops=crops, overlap=overlap)
    placed = place(text, windows)  # asserts that the windows ascend and no token is new twice
    new = windows.stop - windows.start - windows.repeated
    for number, document in enumerate(documents):
        here = placed.document == number
        total = sum(map(len, document))
        tail = text.bounds[number + 1] - windows.stop[here][-1] if total else 0
        assert new[here].sum() + placed.gap[here].sum() + tail == total
        most = crops if long_text != "first" else 1
        assert new[here].sum() <= most * CAPACITY
        if 0 < total <= CAPACITY:
            assert new[here].tolist() == [total], "what fits a window is kept whole"
        assert here.any() == (total > 0), "no document is lost"


@given(corpora, st.integers(1, 3), st.integers(0, 5))
def test_crops_are_disjoint_windows_of_a_shifted_cut(
    documents: Documents, crops: int, seed: int
) -> None:
    text, windows = kept(documents, long_text="random_crop", crops=crops, seed=seed)
    document = place(text, windows).document
    for number in range(len(documents)):
        mine = [row for row, of in zip(rows(windows), document, strict=True) if of == number]
        first, last = text.bounds[number : number + 2].tolist()
        starts = [s for s in text.sentence_starts.tolist() if first <= s < last]
        cuts = []
        for shift in [s for s in starts if s < first + CAPACITY and last - first > CAPACITY] or [
            first
        ]:
            stretch = np.array([first, shift]), np.array([shift, last])
            cuts.append(rows(cut(text, *stretch, CAPACITY, 0)))
        assert all(repeated == 0 for _, _, repeated in mine)
        assert any(
            set(mine) <= set(windows) and len(mine) == min(crops, len(windows)) for windows in cuts
        )


def test_crops_reach_every_token_and_differ_by_document_and_seed() -> None:
    document = [list(range(5, 12)) for _ in range(30)]
    text, windows = kept([document] * 200, long_text="random_crop", crops=1)
    offsets = windows.start - text.bounds[:-1]
    assert len(set(offsets.tolist())) == 28, "any sentence opens one but the last two: too short"
    assert (windows.stop - windows.start > CAPACITY // 2).all()
    covered = np.zeros(210, dtype=np.int64)
    for start, stop in zip(
        offsets.tolist(), (offsets + windows.stop - windows.start).tolist(), strict=True
    ):
        covered[start:stop] += 1
    assert covered.min() > 0
    _, other = kept([document] * 200, long_text="random_crop", crops=1, seed=1)
    assert (other.start != windows.start).mean() > 0.8


@given(corpora, st.integers(1, 3))
def test_key_sentences_are_whole_in_order_and_their_windows_hold_no_gap(
    documents: Documents, crops: int
) -> None:
    text, windows = kept(documents, long_text="key_sentences", crops=crops)
    edges = {*text.sentence_starts.tolist(), *text.bounds.tolist()}
    tokens = text_of(documents)[1]
    found = rows(windows)
    assert found == sorted(found)
    for number, document in enumerate(documents):
        first, last = text.bounds[number : number + 2].tolist()
        held = [row for row in found if first <= row[0] < last]
        lengths = np.array([len(sentence) for sentence in document])
        if last - first > CAPACITY and (lengths <= CAPACITY).any():
            starts = np.array([0, *accumulate(lengths.tolist())])
            scores = sentence_scores(tokens[first:last], starts[:-1], KNOWN)
            best = chosen(scores, lengths, crops * CAPACITY)
            expected = [t for s in best for t in range(first + starts[s], first + starts[s + 1])]
            assert [t for start, stop, _ in held for t in range(start, stop)] == expected
        if (lengths <= CAPACITY).all():
            assert all(start in edges and stop in edges for start, stop, _ in held)


def test_a_sentence_longer_than_the_budget_is_kept_up_to_it() -> None:
    _, windows = kept([[[7] * 1000]], long_text="key_sentences", crops=2)
    assert rows(windows) == [(0, CAPACITY, 0), (CAPACITY, 2 * CAPACITY, 0)]


def test_words_of_the_subject_outweigh_function_words_and_rare_ones() -> None:
    # Ids 0 to 4 are frequent in the language; 25 is the document's subject, 28 and 29 are rare.
    shares = np.full(SIZE, 0.0005)
    shares[:5] = (0.25, 0.25, 0.2, 0.15, 0.15)
    known = information(np.log(shares).tolist())
    plain = [0, 1, 2, 3, 0, 4, 1, 2]
    subject = [0, 25, 1, 25, 2, 3, 25, 4]
    rare = [0, 1, 28, 3, 0, 4, 1, 29]
    document = [plain, plain, subject, rare, plain, subject, plain]
    tokens = np.array([token for sentence in document for token in sentence])
    starts = np.arange(0, len(tokens), 8)
    scores = sentence_scores(tokens, starts, known).tolist()
    assert scores[2] == scores[5]
    assert scores[2] > scores[3] > scores[0] == scores[1]


def test_a_unigram_models_log_probabilities_are_the_information() -> None:
    assert information([0.0, -np.log(2), -3 * np.log(2) + 1e-9]).tolist() == [0, 64, 192]
    ranks = information([0.0, -1.0, -2.0, -3.0])  # BPE
    assert np.diff(ranks).tolist() == [64, 37, 27]


@given(st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=30))
def test_the_whole_number_logarithm_is_the_floor_of_the_real_one(values: list[int]) -> None:
    found = log2_fixed(np.array(values))
    exact = [(value**64).bit_length() - 1 for value in values]  # floor(64 * log2(value))
    assert (np.abs(found - exact) <= 1).all()
    powers = np.array([1 << bits for bits in range(31)])
    assert log2_fixed(powers).tolist() == [64 * bits for bits in range(31)]


@pytest.mark.parametrize("budget", [0, 3, 10, 100])
def test_the_best_sentences_that_still_fit_are_taken(budget: int) -> None:
    scores, lengths = np.array([5, 9, 9, 1]), np.array([3, 8, 2, 4])
    expected = {0: [1], 3: [2], 10: [1, 2], 100: [0, 1, 2, 3]}
    assert chosen(scores, lengths, budget) == expected[budget]
