"""Laws E1 and W2 over files of documents: what leaves, why, and that nothing else does."""

from pathlib import Path

import pytest

from data_prep.config import Prep
from data_prep.documents import Document, held_out_side, read_documents, to_line
from data_prep.removal import filter_file, find_in_bucket, sign_file
from mlmdist.config.loading import build
from tests.data_prep.test_verify import documents

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


def remaining(corpus: list[Document], folder: Path, config: Prep) -> dict[int, Document]:
    """What stays of the corpus, kept in two files; the balance is checked on the way."""
    corpus = sorted(corpus, key=lambda document: document.id)
    middle = len(corpus) // 2
    paths = []
    for number, part in enumerate((corpus[:middle], corpus[middle:])):
        paths.append(folder / f"{number}.jsonl")
        paths[-1].write_bytes(b"".join(map(to_line, part)))
    rows = [path.with_suffix(".rows") for path in paths]
    for path, target in zip(paths, rows, strict=True):
        sign_file(path, config, NUM_BUCKETS, target)
    tables = [folder / f"{bucket}.npy" for bucket in range(NUM_BUCKETS)]
    for bucket, table in enumerate(tables):
        find_in_bucket(rows, bucket, NUM_BUCKETS, config, table)
    kept: list[Document] = []
    for path in paths:
        target = path.with_name(f"kept-{path.name}")
        report = filter_file(path, tables, target, path.with_suffix(".json"))
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
