"""The steps of removing duplicates: ranges of ids and buckets change nothing, none is too big."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_prep import deduplication
from data_prep.cluster import Call
from data_prep.deduplication import remove_duplicates
from data_prep.documents import Document, read_documents, to_line
from data_prep.removal import FOUND, LAST_ID
from data_prep.stages import Work, open_stage, stamp
from mlmdist.files import write_bytes
from tests.data_prep.corpus import documents
from tests.data_prep.inline import Inline
from tests.data_prep.test_removal import recipe, twin

A_PART = 10


class Counting(Inline):
    """Notes the name of each function that it is given to run."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.ran: list[str] = []

    def outcomes(
        self, function: Callable[..., Any], calls: Iterable[Call], shown: object = None
    ) -> Iterator[tuple[int, Any]]:
        for number, outcome in super().outcomes(function, calls, shown):
            self.ran.append(function.__name__)
            yield number, outcome


def corpus() -> list[Document]:
    """Sixty documents, of which each of the last thirty says what one of the first does."""
    some = documents(0, 30)
    return [*some, *(twin(each, 1000 + each.id, exact=each.id % 2 == 0) for each in some)]


def begin(folder: Path) -> tuple[Work, list[dict[str, Any]]]:
    """The work of a stage with the corpus in its scratch, and its files."""
    work = open_stage(folder / "documents", stamp({}, {}), overwrite=False)
    assert work is not None
    parts: list[dict[str, Any]] = []
    for first in range(0, 60, A_PART):
        chosen = corpus()[first : first + A_PART]
        name = f"read-{len(parts):06d}.jsonl"
        write_bytes(work.scratch / name, b"".join(map(to_line, chosen)))
        chars = sum(each.num_characters for each in chosen)
        parts.append({"name": name, "documents": A_PART, "chars": chars})
    return work, parts


def remaining(folder: Path, cluster: Inline) -> tuple[list[int], Work]:
    """The ids of the documents that stay, and the work."""
    work, parts = begin(folder)
    remove_duplicates(cluster, recipe(), parts, [], work)
    files = sorted((folder / "documents.work").glob("*.jsonl"))
    return [each.id for path in files for each in read_documents(path)], work


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    kept, _ = remaining(tmp_path_factory.mktemp("one"), Inline(recipe().ray))
    assert 25 < len(kept) < 35
    return kept


@pytest.mark.parametrize(
    ("a_range", "starts"), [(5, [0, 1, 2, 3, 4, 5]), (20, [0, 2, 4]), (25, [0, 2, 4]), (59, [0, 5])]
)
def test_ranges_change_nothing_and_hold_their_own_ids(
    a_range: int,
    starts: list[int],
    expected: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deduplication, "DOCUMENTS_A_RANGE", a_range)
    kept, _ = remaining(tmp_path, Inline(recipe().ray))
    assert kept == expected
    firsts = [corpus()[start * A_PART].id for start in starts]
    tables = sorted((tmp_path / "documents.scratch").glob("gather-*.rows"))
    assert len(tables) == len(starts)
    found = 0
    for table, first, following in zip(tables, firsts, [*firsts[1:], LAST_ID], strict=True):
        ids = np.fromfile(table, FOUND)["dropped_id"]
        assert ((ids >= first) & (ids < following)).all()
        found += len(set(ids.tolist()))
    assert found == 60 - len(expected)


def test_buckets_change_nothing(
    expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deduplication, "DOCUMENTS_A_BUCKET", 7)
    kept, _ = remaining(tmp_path, Inline(recipe().ray))
    assert kept == expected
    tables = sorted((tmp_path / "documents.scratch").glob("compare-*.rows"))
    assert len(tables) == 1 + 60 // 7
    assert sum(table.stat().st_size > 0 for table in tables) > 1


def test_s1_what_is_there_is_not_done_again(expected: list[int], tmp_path: Path) -> None:
    cluster = Counting(recipe().ray)
    _, work = remaining(tmp_path, cluster)
    assert cluster.ran == [
        *["sign_file"] * 6, "find_in_bucket", "gather_range", *["filter_file"] * 6
    ]  # fmt: skip
    (work.scratch / "filter-000003.json").unlink()
    (work.scratch / "gather-000000.rows").unlink()
    cluster.ran.clear()
    assert remaining(tmp_path, cluster)[0] == expected
    assert cluster.ran == ["gather_range", "filter_file"]
