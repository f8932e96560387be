import random
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

from data_prep.documents import Document
from data_prep.duplicates import (
    Duplicate,
    duplicates_in_bucket,
    read_bucket,
    resolve,
    write_rows,
)
from data_prep.signatures import (
    EXCLUDED,
    HELD_OUT,
    ROW,
    TRAIN,
    shingle_hashes,
    signature_rows,
)
from mlmdist.errors import DataError


def text(seed: int, num_words: int = 300) -> list[str]:
    draw = random.Random(seed)
    return [f"w{draw.randrange(5000)}" for _ in range(num_words)]


def edited(words: list[str], share: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [f"x{draw.randrange(5000)}" if draw.random() < share else word for word in words]


def document(number: int, words: list[str]) -> Document:
    return Document(number, str(number), "", (" ".join(words),))


def rows_of(*sides: tuple[int, list[Document]], near: bool = True) -> np.ndarray:
    return np.concatenate([signature_rows(some, side, near=near) for side, some in sides])


def test_the_smaller_id_stays() -> None:
    base = text(1)
    some = [
        document(9, base),
        document(4, base),
        document(7, edited(base, 0.01, 3)),
        document(5, text(2)),
    ]
    assert duplicates_in_bucket(rows_of((TRAIN, some))) == [
        Duplicate(7, 4, "near"),
        Duplicate(9, 4, "exact"),
    ]


def test_exact_only_finds_no_near_one() -> None:
    base = text(1)
    some = [document(1, base), document(2, edited(base, 0.01, 3)), document(3, base)]
    found = duplicates_in_bucket(rows_of((TRAIN, some), near=False), near=2.0)
    assert found == [Duplicate(3, 1, "exact")]
    assert duplicates_in_bucket(rows_of((TRAIN, some)), near=2.0) == found


def test_e1_the_training_document_leaves_whatever_its_id() -> None:
    base, other = text(1), text(2)
    train = [document(1, edited(base, 0.01, 5)), document(2, other), document(6, text(3))]
    held_out = [document(3, base), document(4, other), document(5, edited(other, 0.01, 6))]
    found = duplicates_in_bucket(rows_of((TRAIN, train), (HELD_OUT, held_out)))
    assert found == [
        Duplicate(1, 3, "held_out"),
        Duplicate(2, 4, "held_out"),
        Duplicate(5, 4, "near"),
    ]


def test_e1_near_duplicates_on_one_side_may_stay_and_still_guard_it() -> None:
    base, other = text(1), text(2)
    shifted = [other[:size] + base[size:] for size in (0, 24, 48)]  # each near the next one only
    held_out = [document(1, shifted[0]), document(2, shifted[1])]
    rows = rows_of((TRAIN, [document(3, shifted[2])]), (HELD_OUT, held_out))
    guarded = Duplicate(3, 2, "held_out")
    assert duplicates_in_bucket(rows, near_on_one_side=False) == [guarded]
    assert Duplicate(2, 1, "near") in duplicates_in_bucket(rows)
    rows["side"] = TRAIN
    assert duplicates_in_bucket(rows, near_on_one_side=False) == []


def test_e1_excluded_text_leaves_both_sides_and_is_no_document_itself() -> None:
    base = text(1)
    excluded = [document(0, base), document(1, base)]
    found = duplicates_in_bucket(
        rows_of((EXCLUDED, excluded), (HELD_OUT, [document(8, base)]), (TRAIN, [document(9, base)]))
    )
    assert [(one.dropped_id, one.kind) for one in found] == [(8, "excluded"), (9, "excluded")]


def test_e1_no_near_duplicate_is_left_on_the_other_side() -> None:
    """Chains: every training document near a held-out one that stays is gone."""
    held_out, train = [], []
    for family in range(12):
        words = text(family)
        for step in range(6):
            words = edited(words, 0.006, 100 * family + step)
            side = train if (family + step) % 2 else held_out
            side.append(document(100 * family + (step * 7) % 13, words))
    rows = rows_of((TRAIN, train), (HELD_OUT, held_out))
    gone = {one.dropped_id for one in duplicates_in_bucket(rows)}
    left = rows[~np.isin(rows["document_id"], list(gone))]
    assert gone
    assert duplicates_in_bucket(left) == []


@pytest.mark.parametrize(("share", "least", "most"), [(0.0, 1, 1), (0.01, 0.97, 1), (0.1, 0, 0.02)])
def test_near_is_three_quarters_of_the_word_runs(share: float, least: float, most: float) -> None:
    first = [document(i, text(i)) for i in range(60)]
    second = [document(1000 + i, edited(text(i), share, i)) for i in range(60)]
    found = duplicates_in_bucket(rows_of((TRAIN, first), (TRAIN, second)))
    assert least <= len(found) / 60 <= most
    assert all(one.dropped_id - one.kept_id == 1000 for one in found)


@pytest.mark.parametrize(("equal", "found"), [(90, 1), (89, 0)])
def test_near_begins_at_three_quarters_of_the_minima(equal: int, found: int) -> None:
    """90 of 120 are just enough."""
    rows = np.zeros(2, ROW)
    rows["document_id"], rows["side"] = [1, 2], TRAIN
    rows["content"] = np.array([1, 2], "<u8").view("V8").astype("V16")
    rows["sketch"][1, equal:] = 1
    assert len(duplicates_in_bucket(rows)) == found


def test_chinese_and_thai_are_compared_by_character() -> None:
    chinese = (
        "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。" * 2
    )
    thai = "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ" * 2
    some = [
        Document(i, str(i), "", (content,))
        for i, content in enumerate([chinese, thai, chinese + "好。", thai + "ก"])
    ]
    assert duplicates_in_bucket(rows_of((TRAIN, some))) == [
        Duplicate(2, 0, "near"),
        Duplicate(3, 1, "near"),
    ]


def test_documents_without_words_are_no_duplicates_of_each_other() -> None:
    some = [Document(i, str(i), "", (mark * 30,)) for i, mark in enumerate("-=-")]
    assert duplicates_in_bucket(rows_of((TRAIN, some))) == [Duplicate(2, 0, "exact")]


def test_s1_buckets_splits_and_orders_change_nothing(tmp_path: Path) -> None:
    some = [document(i, edited(text(i % 7), 0.005 * (i % 3), i)) for i in range(40)]
    expected = resolve(duplicates_in_bucket(rows_of((TRAIN, some))))
    for num_buckets, num_splits in ((1, 3), (8, 1), (13, 5)):
        paths = [tmp_path / f"{num_buckets}-{split}.rows" for split in range(num_splits)]
        for split, path in enumerate(paths):
            write_rows(path, signature_rows(some[split::num_splits], TRAIN), num_buckets)
        found = []
        for bucket in reversed(range(num_buckets)):
            found += duplicates_in_bucket(read_bucket(paths[::-1], bucket, num_buckets))
        assert resolve(found) == expected


def test_bucket_files_are_named_when_they_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.rows"
    write_rows(path, signature_rows([document(1, text(1))], TRAIN), 1)
    data = path.read_bytes()
    with pytest.raises(DataError, match=r"a\.rows"):
        read_bucket([path], 0, 2)
    path.write_bytes(data[:-1])
    with pytest.raises(DataError, match=r"a\.rows"):
        read_bucket([path], 0, 1)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.rows"):
        read_bucket([path], 0, 1)
    assert read_bucket([], 0, 1).shape == (0,)


def test_of_several_findings_the_strongest_is_told() -> None:
    findings = [Duplicate(9, 5, "near"), Duplicate(9, 7, "held_out"), Duplicate(9, 6, "held_out")]
    assert resolve(findings) == resolve(reversed(findings)) == {9: Duplicate(9, 6, "held_out")}


def test_many_equal_documents_take_linear_time() -> None:
    rows = signature_rows([document(0, text(1))], TRAIN)[:1].repeat(20_000)
    rows["document_id"] = np.arange(20_000)
    assert len(duplicates_in_bucket(rows)) == 19_999


def true_jaccard(first: Document, second: Document) -> float:
    sets = [set(shingle_hashes("\n".join(each.paragraphs)).tolist()) for each in (first, second)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_recall_and_precision_on_real_text() -> None:
    """News of 1,200 characters against copies with words changed, some more, some less."""
    gensim = Path(str(distribution("gensim").locate_file("gensim")))  # not imported: it takes long
    lines = (gensim / "test/test_data/lee_background.cor").read_text("utf-8").splitlines()
    texts = [line.split() for line in dict.fromkeys(lines) if len(line) > 800][:72]
    pages = [document(number, words) for number, words in enumerate(texts)]
    shares = (0.003, 0.01, 0.02, 0.03, 0.05, 0.08)
    copies = [
        document(1000 + number, edited(words, shares[number % len(shares)], number))
        for number, words in enumerate(texts)
    ]
    found = duplicates_in_bucket(rows_of((TRAIN, pages), (TRAIN, copies)))
    kept = {one.dropped_id: one.kept_id for one in found if one.dropped_id >= 1000}
    true = {copy.id: true_jaccard(page, copy) for page, copy in zip(pages, copies, strict=True)}
    near = [number for number, jaccard in true.items() if jaccard >= 0.82]
    far = [number for number, jaccard in true.items() if jaccard <= 0.66]
    assert min(len(near), len(far)) > 15
    assert sum(number in kept for number in near) / len(near) >= 0.97  # recall
    assert sum(number in kept for number in far) / len(far) <= 0.03
    assert all(number - 1000 == other for number, other in kept.items())  # precision
    assert len(found) - len(kept) <= 2  # pages that are near another page
