"""Removing duplicates from files of documents: sign each file, compare each bucket, filter.

Every step is a task over one file or one bucket. What leaves is kept in tables sorted by document,
one a bucket; a file of documents, whose ids are a range, looks up only its own.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.config import Prep
from data_prep.documents import Document, held_out_side, read_documents, to_line
from data_prep.duplicates import (
    KINDS,
    Duplicate,
    duplicates_in_bucket,
    read_bucket,
    resolve,
    write_rows,
)
from data_prep.signatures import HELD_OUT, TRAIN, signature_rows
from mlmdist.files import atomic_writer, sha256, write_json

FOUND = np.dtype([("dropped_id", "<u8"), ("kept_id", "<u8"), ("kind", "u1")])


def sign_file(documents: Path, config: Prep, num_buckets: int, target: Path) -> None:
    """Write the signatures of a file's documents, by bucket, to `target`."""
    sides: dict[int, list[Document]] = {HELD_OUT: [], TRAIN: []}
    for document in read_documents(documents):
        held_out = held_out_side(document.group, config.held_out.share, config.held_out.seed)
        sides[HELD_OUT if held_out else TRAIN].append(document)
    rows = [signature_rows(chosen, side) for side, chosen in sides.items()]
    write_rows(target, np.concatenate(rows), num_buckets)


def find_in_bucket(
    signatures: Sequence[Path], bucket: int, num_buckets: int, config: Prep, target: Path
) -> int:
    """Write the table of documents that leave by what one bucket shows; their number.

    A near duplicate on the same side stays if the recipe says so; across the sides it never does.
    """
    found = duplicates_in_bucket(
        read_bucket(signatures, bucket, num_buckets),
        near_on_one_side=config.cleaning.near_duplicates,
    )
    rows = [(each.dropped_id, each.kept_id, KINDS.index(each.kind)) for each in found]
    with atomic_writer(target) as file:
        np.save(file, np.array(rows, dtype=FOUND))
    return len(rows)


def filter_file(
    documents: Path, tables: Sequence[Path], target: Path, report_path: Path
) -> dict[str, Any]:
    """Write the documents of a file that stay to `target` and, last, the report."""
    kept = {"documents": 0, "chars": 0}
    dropped_documents, dropped_characters = Counter[str](), Counter[str]()
    leaving = _leaving(documents, tables)
    with atomic_writer(target) as file:
        for document in read_documents(documents):
            if duplicate := leaving.get(document.id):
                dropped_documents[f"duplicate ({duplicate.kind})"] += 1
                dropped_characters[f"duplicate ({duplicate.kind})"] += document.num_characters
            else:
                file.write(to_line(document))
                kept["documents"] += 1
                kept["chars"] += document.num_characters
    report = {
        **kept,
        "name": target.name,
        "sha256": sha256(target),
        "dropped": {"documents": dropped_documents, "characters": dropped_characters},
    }
    write_json(report_path, report)
    return report


def _leaving(documents: Path, tables: Sequence[Path]) -> dict[int, Duplicate]:
    """The documents of a file that leave, by id."""
    ids = [document.id for document in read_documents(documents)]
    found: list[Duplicate] = []
    for table in tables:
        rows = np.load(table)
        low, high = np.searchsorted(rows["dropped_id"], np.array([ids[0], ids[-1] + 1], np.uint64))
        found += [
            Duplicate(int(row["dropped_id"]), int(row["kept_id"]), KINDS[row["kind"]])
            for row in rows[low:high]
        ]
    return resolve(found)
