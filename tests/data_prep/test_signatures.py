import hashlib
import resource

import numpy as np
import pytest

from data_prep import signatures
from data_prep.documents import Document
from data_prep.signatures import (
    NUM_BANDS,
    NUM_HASHES,
    ROW,
    TRAIN,
    minima,
    shingle_hashes,
    signature,
    signature_rows,
    word_hashes,
)


def test_words_are_told_apart_in_any_script() -> None:
    assert word_hashes("The cat's  the, THE").size == 5
    assert len(set(word_hashes("The cat's  the, THE").tolist())) == 3
    assert word_hashes("漢字とかな").size == 5
    assert word_hashes("สวัสดี").size == 6
    assert word_hashes("सभी मनुष्यों को").size == 3
    assert word_hashes(" .,- ").size == 0
    assert word_hashes("ab") != word_hashes("ba")


def test_a_word_has_one_hash_wherever_it_stands() -> None:
    first, second = word_hashes("alpha beta"), word_hashes("xx beta, alpha")
    assert first.tolist() == second[[2, 1]].tolist()


def test_case_is_left_out_where_a_character_becomes_two() -> None:
    assert word_hashes("die Straße, ŉ").tolist() == word_hashes("DIE STRASSE, ʼN").tolist()


@pytest.mark.parametrize("length", [1, 100, 65_535, 65_536, 65_537, 200_000])
def test_long_words_and_texts_have_the_hashes_of_short_ones(length: int) -> None:
    word = "ab" * length
    assert word_hashes(f"{word} cat {word}").tolist() == [
        *word_hashes(word),
        *word_hashes("cat"),
        *word_hashes(word),
    ]
    assert set(word_hashes("cat " * length).tolist()) == set(word_hashes("cat").tolist())


def test_shingles_are_runs_of_five_words() -> None:
    assert shingle_hashes("a b c d e f g").size == 3
    assert shingle_hashes("a b").size == 1
    assert shingle_hashes("").size == 0
    assert set(shingle_hashes("a b c d e f").tolist()) & set(shingle_hashes("x b c d e f").tolist())


@pytest.mark.parametrize("characters", [1, 20, 300, 1 << 20])
def test_what_is_hashed_at_once_changes_nothing(
    characters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signatures, "BATCH_CHARACTERS", characters)
    some = [f"Word{number} and straße, {number}," for number in range(100)]
    for paragraphs in (some, some[:1], some[:2], ["a", "b", "c"], ["...", "a b", "c d e f"]):
        text = "\n".join(paragraphs)
        assert signature(paragraphs) == pytest.approx(minima(shingle_hashes(text)))
        (row,) = signature_rows([Document(0, "", "", tuple(paragraphs))], TRAIN, near=False)
        assert bytes(row["content"]) == hashlib.blake2b(text.encode(), digest_size=16).digest()
    assert signature(["...", "?"]) is None
    assert signature([]) is None


@pytest.mark.long
def test_a_document_of_100_megabytes_is_signed_in_bounded_memory() -> None:
    """One character outside the first plane, and a joined text would take four bytes for each."""
    paragraphs = tuple(f"{number} some words of a paragraph 𝛼 " * 20 for number in range(150_000))
    assert sum(map(len, paragraphs)) > 100_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signature_rows([Document(0, "", "", paragraphs)], TRAIN)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 200


@pytest.mark.parametrize("jaccard", [0.5, 0.75, 0.9])
def test_minima_estimate_the_part_in_common(jaccard: float) -> None:
    size, trials = 400, 60
    common = int(size * jaccard)
    own = (size - common) // 2
    found = []
    for trial in range(trials):
        values = np.arange(trial << 32, (trial << 32) + size, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        first = minima(values[: common + own])
        second = minima(np.concatenate([values[:common], values[common + own :]]))
        found.append(np.mean(first == second))
    assert np.mean(found) == pytest.approx(jaccard, abs=0.02)
    assert np.std(found) < 0.06


def test_rows_are_a_function_of_the_document_alone() -> None:
    some = [Document(i, str(i), "", (f"word{i} and more words of it " * 5,)) for i in range(4)]
    rows = signature_rows(some, TRAIN)
    assert rows.shape == (4 * NUM_BANDS,)
    assert rows.dtype == ROW
    assert rows[NUM_BANDS : 2 * NUM_BANDS].tobytes() == signature_rows(some[1:2], TRAIN).tobytes()
    assert signature_rows([], TRAIN).shape == (0,)
    assert signature_rows(some, TRAIN, near=False).shape == (4,)


def test_golden_signature() -> None:
    """A change of the words, the hashes or the library shows here: raise SIGNATURE_VERSION."""
    rows = signature_rows(
        [Document(1, "1", "", ("The quick brown fox jumps over the dog.",))], TRAIN
    )
    assert rows["sketch"].shape == (NUM_BANDS, NUM_HASHES)
    assert rows["sketch"][0, :8].tolist() == [156, 192, 146, 245, 218, 186, 38, 90]
    assert f"{rows['key'][0]:016x}" == "b14be30564030841"
