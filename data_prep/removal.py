"""Removing from files of documents what says the same as others: sign, compare, gather, filter.

Every step is a task over one file, one bucket of signatures, or one range of ids, and holds no more
than that; `data_prep.deduplication` runs them. Ids ascend from file to file.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from data_prep.config import Prep
from data_prep.documents import Document, held_out_side, read_documents, to_line
from data_prep.duplicates import KINDS, duplicates_in_bucket, read_bucket, write_rows
from data_prep.exclusion import build_table, without_excluded
from data_prep.progress import tell
from data_prep.signatures import EXCLUDED, HELD_OUT, ROW, TRAIN, signature_rows
from mlmdist.arrays import read_array
from mlmdist.files import AnyPath, atomic_writer, open_random, sha256, write_json

FOUND = np.dtype([("dropped_id", "<u8"), ("kept_id", "<u8"), ("kind", "u1")])
EXCLUDED_TEXT = "excluded"
ROWS_AT_ONCE = 200_000  # 31 MB
SIGNED_AT_ONCE = 1000
LOOKED_THROUGH_AT_ONCE = 100
LAST_ID = 2**64 - 1


def sign_file(
    documents: AnyPath, config: Prep, num_buckets: int, excluded: bool, target: AnyPath
) -> None:
    """Write the signatures of a file's documents, by bucket, to `target`.

    `excluded` documents are those of test sets. 3 kB a document.
    """
    tables: list[np.ndarray] = []
    for batch in _batches(read_documents(documents), SIGNED_AT_ONCE):
        sides: dict[int, list[Document]] = {EXCLUDED: [], HELD_OUT: [], TRAIN: []}
        for document in batch:
            sides[EXCLUDED if excluded else _side(document, config)].append(document)
        tables += [signature_rows(chosen, side) for side, chosen in sides.items()]
        tell(documents=len(batch), chars=sum(document.num_characters for document in batch))
    write_rows(target, np.concatenate(tables) if tables else np.empty(0, ROW), num_buckets)


def find_in_bucket(
    signatures: Sequence[AnyPath], bucket: int, num_buckets: int, config: Prep, target: AnyPath
) -> None:
    """Write, by id, the documents that leave by what one bucket shows.

    A near duplicate on the same side stays if the recipe says so; across the sides it never does.
    Memory grows with the different texts of the bucket, 153 bytes a row, and with the documents
    that leave, 17 bytes each: the same text in any number of documents is compared once.
    """
    rows, again = _different_texts(signatures, bucket, num_buckets)
    found = duplicates_in_bucket(rows, near_on_one_side=config.cleaning.near_duplicates)
    near = [(each.dropped_id, each.kept_id, KINDS.index(each.kind)) for each in found]
    _write_found(target, [again, np.array(near, FOUND)])


def gather_range(
    tables: Sequence[AnyPath], first: AnyPath, following: AnyPath | None, target: AnyPath
) -> None:
    """Write what all `tables` say of the documents from file `first` on, up to file `following`."""
    low = next(read_documents(first)).id
    high = next(read_documents(following)).id if following else LAST_ID
    _write_found(target, [_found_between(table, low, high) for table in tables])


def write_exclusion(documents: Sequence[AnyPath], target: AnyPath) -> None:
    """Write the table of what the documents of test sets contain."""
    tables = [build_table(read_documents(path)) for path in documents]
    with atomic_writer(target) as file:
        np.save(file, np.unique(np.concatenate(tables)))


def filter_file(
    documents: AnyPath,
    config: Prep,
    table: AnyPath,
    exclusion: AnyPath | None,
    target: AnyPath,
    report_path: AnyPath,
) -> dict[str, Any]:
    """Write what stays of a file's documents to `target` and, last, the report.

    Documents that the table names leave, and of the others the paragraphs that hold an excluded
    text; a document leaves with them if too little of it is left.
    """
    kept, dropped_documents, dropped_characters = Counter[str](), Counter[str](), Counter[str]()
    leaving = _leaving(documents, table)
    runs = read_array(exclusion) if exclusion else None
    with atomic_writer(target) as file:
        for document, stays, reason, lost in _judged(documents, leaving, runs, config):
            if lost:
                dropped_characters[reason] += lost
            if stays is None:
                dropped_documents[reason] += 1
                tell(dropped={reason: 1}, chars=document.num_characters)
                continue
            file.write(to_line(stays))
            kept.update(documents=1, chars=stays.num_characters)
            tell(documents=1, chars=document.num_characters)
    report = {
        "documents": kept["documents"],
        "chars": kept["chars"],
        "name": target.name,
        "sha256": sha256(target),
        "dropped": {"documents": dropped_documents, "characters": dropped_characters},
    }
    write_json(report_path, report)
    return report


def _judged(
    documents: AnyPath, leaving: dict[int, str], runs: np.ndarray | None, config: Prep
) -> Iterator[tuple[Document, Document | None, str, int]]:
    """Each document, what stays of it, why some or all of it leaves, and how many characters."""
    for batch in _batches(read_documents(documents), LOOKED_THROUGH_AT_ONCE):
        rest = [document for document in batch if document.id not in leaving]
        remains: list[tuple[Document | None, int]] = [(document, 0) for document in rest]
        if runs is not None:
            remains = without_excluded(rest, runs, config.cleaning.min_chars)
        of_rest = dict(zip((document.id for document in rest), remains, strict=True))
        for document in batch:
            if kind := leaving.get(document.id):
                yield document, None, f"duplicate ({kind})", document.num_characters
            else:
                stays, lost = of_rest[document.id]
                yield document, stays, EXCLUDED_TEXT, lost


def _side(document: Document, config: Prep) -> int:
    held_out = held_out_side(document.group, config.held_out.share, config.held_out.seed)
    return HELD_OUT if held_out else TRAIN


def _batches(documents: Iterator[Document], size: int) -> Iterator[list[Document]]:
    batch: list[Document] = []
    for document in documents:
        batch.append(document)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _different_texts(
    signatures: Sequence[AnyPath], bucket: int, num_buckets: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of each key and text in a bucket the row that stays, and all others as found.

    It is the first by side, then by id, as in comparing: sides are read one after another.
    """
    kept: list[np.ndarray] = []
    again: list[np.ndarray] = []
    waiting = 0
    for side in (EXCLUDED, HELD_OUT, TRAIN):
        for path in signatures:
            rows = read_bucket([path], bucket, num_buckets)
            rows = rows[rows["side"] == side]
            if not rows.size:
                continue
            kept.append(rows)
            waiting += rows.size
            if waiting >= max(ROWS_AT_ONCE, kept[0].size):
                stays, more = _merged(kept)
                kept, waiting = [stays], 0
                again.append(more)
    rows, more = _merged(kept)
    return rows, np.concatenate([*again, more])


def _merged(tables: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each key and text, and the others as documents that leave because of it."""
    if not tables:
        return np.empty(0, ROW), np.empty(0, FOUND)
    rows = np.concatenate(tables)
    content = np.ascontiguousarray(rows["content"]).view("<u8").reshape(-1, 2)
    order = np.lexsort(
        (rows["document_id"], rows["side"], content[:, 1], content[:, 0], rows["key"])
    )
    key, content = rows["key"][order], content[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (key[1:] != key[:-1]) | (content[1:] != content[:-1]).any(axis=1)
    twin = order[np.flatnonzero(first)[np.cumsum(first) - 1]]
    other, twin = order[~first], twin[~first]
    found = np.empty(len(other), FOUND)
    found["dropped_id"], found["kept_id"] = rows["document_id"][other], rows["document_id"][twin]
    found["kind"] = _kinds(rows["side"][other], rows["side"][twin])
    return rows[order[first]], found[rows["side"][other] != EXCLUDED]


def _kinds(dropped: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Why documents leave that say the same to the byte, from the sides of both."""
    exact, held_out, excluded = (KINDS.index(kind) for kind in ("exact", "held_out", "excluded"))
    across = (kept == HELD_OUT) & (dropped != HELD_OUT)
    return np.where(kept == EXCLUDED, excluded, np.where(across, held_out, exact))


def _write_found(target: AnyPath, tables: Sequence[np.ndarray]) -> None:
    """Write one finding a document, by id: the strongest, then that of the smallest kept id."""
    rows = np.concatenate([np.empty(0, FOUND), *tables])
    rows = rows[np.lexsort((rows["kept_id"], rows["kind"], rows["dropped_id"]))]
    first = np.ones(len(rows), np.bool_)
    first[1:] = rows["dropped_id"][1:] != rows["dropped_id"][:-1]
    with atomic_writer(target) as file:
        file.write(rows[first].tobytes())


def _found_between(table: AnyPath, low: int, high: int) -> np.ndarray:
    """The rows of a table of the documents from id `low` to below `high`, by positioned reads."""
    size = FOUND.itemsize
    file = open_random(table)
    try:
        places = range(file.size // size)

        def dropped_id(place: int) -> int:
            return int.from_bytes(file.read(place * size, 8), "little")

        first = bisect_left(places, low, key=dropped_id)
        last = bisect_left(places, high, lo=first, key=dropped_id)
        return np.frombuffer(file.read(first * size, (last - first) * size), FOUND)
    finally:
        file.close()


def _leaving(documents: AnyPath, table: AnyPath) -> dict[int, str]:
    """The documents of a file that leave, by id, and why."""
    ids = [document.id for document in read_documents(documents)]
    rows = _found_between(table, ids[0], ids[-1] + 1)
    kinds = [KINDS[kind] for kind in rows["kind"].tolist()]
    return dict(zip(rows["dropped_id"].tolist(), kinds, strict=True))
