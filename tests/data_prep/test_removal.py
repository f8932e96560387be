"""Laws E1 and W2 over files of documents: what leaves, why, and that nothing else does."""

from pathlib import Path

import numpy as np
import pytest

from data_prep import removal
from data_prep.config import Prep
from data_prep.documents import Document, held_out_side, read_documents, to_line
from data_prep.duplicates import KINDS, Duplicate
from data_prep.removal import (
    FOUND,
    filter_file,
    find_in_bucket,
    gather_range,
    sign_file,
    write_exclusion,
)
from data_prep.signatures import NUM_BANDS
from mlmdist.config.loading import build
from tests.data_prep.corpus import documents

NUM_BUCKETS = 3


def recipe(**cleaning: object) -> Prep:
    values = {
        "output": "out",
        "sources": [{"path": "x", "format": "jsonl"}],
        "cleaning": cleaning,
        "held_out": {"share": 0.3},
    }
    return build(Prep, values, "test")


def twin(document: Document, identity: int, *, exact: bool) -> Document:
    """The document under another id and group; with one word changed, it is only near."""
    paragraphs = list(document.paragraphs)
    if not exact:
        paragraphs[0] = paragraphs[0].replace("river", "stream", 1) + " Today."
    return Document(identity, str(identity), "", tuple(paragraphs))


def write(path: Path, corpus: list[Document]) -> Path:
    path.write_bytes(b"".join(map(to_line, corpus)))
    return path


def remaining(
    corpus: list[Document],
    folder: Path,
    config: Prep,
    *,
    files: int = 2,
    buckets: int = NUM_BUCKETS,
    tests: list[Document] | None = None,
    by_runs: bool = True,
) -> dict[int, Document]:
    """What stays of the corpus, kept in some files; the balance is checked on the way."""
    corpus = sorted(corpus, key=lambda document: document.id)
    size = -(-len(corpus) // files)
    paths = [write(folder / f"{n}.jsonl", corpus[n * size : (n + 1) * size]) for n in range(files)]
    test_paths = [write(folder / "tests.jsonl", tests)] if tests else []
    rows = [path.with_suffix(".rows") for path in [*test_paths, *paths]]
    for path, target in zip([*test_paths, *paths], rows, strict=True):
        sign_file(path, config, buckets, path in test_paths, target)
    tables = [folder / f"{bucket}.found" for bucket in range(buckets)]
    for bucket, table in enumerate(tables):
        find_in_bucket(rows, bucket, buckets, config, table)
    exclusion = folder / "exclusion.npy" if tests and by_runs else None
    if exclusion:
        write_exclusion(test_paths, exclusion)
    kept: list[Document] = []
    for number, path in enumerate(paths):
        following = paths[number + 1] if number + 1 < len(paths) else None
        gathered = folder / f"{number}.gathered"
        gather_range(tables, path, following, gathered)
        target = path.with_name(f"kept-{path.name}")
        report = filter_file(path, config, gathered, exclusion, target, path.with_suffix(".json"))
        stays = list(read_documents(target))
        dropped = report["dropped"]
        came = list(read_documents(path))
        assert report["documents"] + sum(dropped["documents"].values()) == len(came)
        characters = sum(document.num_characters for document in came)
        assert report["chars"] + sum(dropped["characters"].values()) == characters
        kept += stays
    return {document.id: document for document in kept}


def by_side(config: Prep) -> tuple[list[Document], list[Document]]:
    """Documents of the training and of the held-out side."""
    sides: tuple[list[Document], list[Document]] = ([], [])
    for document in documents(0, 40):
        share, seed = config.held_out.share, config.held_out.seed
        sides[held_out_side(document.group, share, seed)].append(document)
    return sides


def ids_on(side: bool, config: Prep, start: int) -> list[int]:
    """Ids from `start` on whose own group is on that side."""
    share, seed = config.held_out.share, config.held_out.seed
    return [n for n in range(start, start + 400) if held_out_side(str(n), share, seed) == side]


@pytest.mark.parametrize("exact", [True, False])
def test_of_two_on_one_side_the_smaller_id_stays(exact: bool, tmp_path: Path) -> None:
    config = recipe()
    train, _ = by_side(config)
    later = ids_on(False, config, 1000)
    corpus = [*train, *(twin(d, n, exact=exact) for d, n in zip(train, later, strict=False))]
    assert set(remaining(corpus, tmp_path, config)) == {document.id for document in train}


@pytest.mark.parametrize("near_duplicates", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_e1_of_two_on_two_sides_the_held_out_one_stays(
    exact: bool, near_duplicates: bool, tmp_path: Path
) -> None:
    config = recipe(near_duplicates=near_duplicates)
    train, _ = by_side(config)
    held_out = [
        twin(d, n, exact=exact) for d, n in zip(train, ids_on(True, config, 1000), strict=False)
    ]
    kept = remaining([*train, *held_out], tmp_path, config)
    assert set(kept) == {document.id for document in held_out}


def test_near_duplicates_of_one_side_stay_if_the_recipe_says_so(tmp_path: Path) -> None:
    config = recipe(near_duplicates=False)
    train, _ = by_side(config)
    later = ids_on(False, config, 1000)
    corpus = [*train, *(twin(d, n, exact=False) for d, n in zip(train, later, strict=False))]
    assert set(remaining(corpus, tmp_path, config)) == {document.id for document in corpus}


def test_different_documents_stay(tmp_path: Path) -> None:
    config = recipe()
    corpus = documents(0, 60)
    assert set(remaining(corpus, tmp_path, config)) == {document.id for document in corpus}


@pytest.mark.parametrize("by_runs", [False, True])
@pytest.mark.parametrize("side", [False, True])
@pytest.mark.parametrize("exact", [True, False])
def test_e1_what_a_test_set_says_leaves_from_both_sides(
    exact: bool, side: bool, by_runs: bool, tmp_path: Path
) -> None:
    config = recipe(near_duplicates=False)
    corpus = by_side(config)[side]
    tests = [twin(corpus[0], 0, exact=exact), twin(corpus[2], 5, exact=exact)]
    kept = remaining(corpus, tmp_path, config, tests=tests, by_runs=by_runs)
    assert set(kept) == {d.id for d in corpus} - {corpus[0].id, corpus[2].id}


def test_what_leaves_depends_on_the_documents_alone(tmp_path: Path) -> None:
    config = recipe()
    corpus = documents(0, 30)
    corpus += [twin(d, 1000 + n, exact=n % 2 == 0) for n, d in enumerate(corpus)]
    kept = []
    for files, buckets in ((1, 1), (2, 3), (7, 5)):
        folder = tmp_path / str(files)
        folder.mkdir()
        kept.append(remaining(corpus, folder, config, files=files, buckets=buckets))
    assert kept[0] == kept[1] == kept[2]
    assert 0 < len(kept[0]) < len(corpus)


def test_one_text_many_times_is_compared_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "ROWS_AT_ONCE", 100)
    compared: list[int] = []
    original = removal.duplicates_in_bucket

    def counted(rows: np.ndarray, **named: bool) -> list[Duplicate]:
        compared.append(len(rows))
        return original(rows, **named)

    monkeypatch.setattr(removal, "duplicates_in_bucket", counted)
    config = recipe()
    one, *others = documents(0, 12)
    corpus = [*others, *(twin(one, n, exact=True) for n in range(1000, 1200))]
    kept = remaining(corpus, tmp_path, config, files=4, buckets=2)
    first = min(
        (n for n in range(1000, 1200)),
        key=lambda n: (not held_out_side(str(n), config.held_out.share, config.held_out.seed), n),
    )
    assert set(kept) == {d.id for d in others} | {first}
    assert sum(compared) == 12 * NUM_BANDS


def test_found_rows_are_read_by_ids(tmp_path: Path) -> None:
    rows = np.zeros(50, FOUND)
    rows["dropped_id"] = np.arange(50) * 3
    (tmp_path / "table").write_bytes(rows.tobytes())
    for low, high in ((0, 1), (0, 151), (7, 31), (6, 30), (148, 1 << 64), (200, 300), (5, 5)):
        found = removal._found_between(tmp_path / "table", low, min(high, (1 << 64) - 1))
        assert found["dropped_id"].tolist() == [n for n in range(0, 150, 3) if low <= n < high]


def test_what_is_found_does_not_depend_on_how_much_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = recipe()
    one, *others = documents(0, 6)
    corpus = [*others, *(twin(one, n, exact=n % 9 > 0) for n in range(1000, 1040))]
    paths = [write(tmp_path / f"{n}.jsonl", corpus[n * 15 : (n + 1) * 15]) for n in range(3)]
    rows = [path.with_suffix(".rows") for path in paths]
    for path, target in zip(paths, rows, strict=True):
        sign_file(path, config, 1, False, target)
    tables = []
    for size in (20, 1 << 30):
        monkeypatch.setattr(removal, "ROWS_AT_ONCE", size)
        find_in_bucket(rows, 0, 1, config, tmp_path / "table")
        tables.append((tmp_path / "table").read_bytes())
    assert tables[0] == tables[1]
    kinds = np.frombuffer(tables[0], FOUND)["kind"].tolist()
    assert {KINDS[kind] for kind in kinds} >= {"held_out", "exact"}


def test_of_several_findings_the_strongest_counts(tmp_path: Path) -> None:
    rows = np.array([(7, 1, 3), (7, 9, 1), (7, 4, 1), (5, 2, 3), (5, 2, 2)], FOUND)
    removal._write_found(tmp_path / "table", [rows[:2], rows[2:]])
    found = np.frombuffer((tmp_path / "table").read_bytes(), FOUND)
    assert found.tolist() == [(5, 2, 2), (7, 4, 1)]
