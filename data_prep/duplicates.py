"""Which documents leave because another one says the same, and the files they are compared from.

Near means: of the runs of five words that two documents have, at least `NEAR` are in both, as their
signatures estimate it (`data_prep.signatures`). Of two documents on one side the smaller id stays.
Across sides the training document leaves, and nothing stays that an excluded text says (law E1).

    rows of each split -> one file a split, cut by key into buckets -> each bucket alone -> resolve

A bucket holds all rows of its keys, so memory is bounded by the number of buckets; what is found
depends on the rows alone, never on splits, their order or their number.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from data_prep.signatures import EXCLUDED, HELD_OUT, NUM_HASHES, ROW
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, atomic_writer

NEAR = 0.75
"""The estimated part of common word runs from which two documents are near duplicates."""

MOST_COMPARED = 1000
"""Kept documents of one key that another is compared with, held-out ones first, then the smallest
ids: a phrase that a hundred thousand documents share must not take a hundred thousand squared."""

KINDS = ("excluded", "held_out", "exact", "near")
"""Why a document leaves, strongest reason first: its twin is a test set's, a held-out one, equal to
the byte, or near."""


@dataclass(frozen=True)
class Duplicate:
    """A document that leaves, the one that says the same, and why (one of KINDS)."""

    dropped_id: int
    kept_id: int
    kind: str


def duplicates_in_bucket(
    rows: np.ndarray, near: float = NEAR, *, near_on_one_side: bool = True
) -> list[Duplicate]:
    """The documents that rows of dtype ROW show to be duplicates, in order of their ids.

    `rows` holds all rows of each key it holds. A document is compared with the first of its key
    that were kept, at most MOST_COMPARED, held-out ones first, then by id: time and memory are
    linear in the rows. `near` above 1 finds only exact duplicates; without `near_on_one_side` near
    ones stay, but for those on different sides (law E1).
    """
    rows = rows[np.lexsort((rows["document_id"], rows["side"], rows["key"]))]
    _, starts, counts = np.unique(rows["key"], return_index=True, return_counts=True)
    found: list[Duplicate] = []
    for start, count in zip(starts[counts > 1], counts[counts > 1], strict=True):
        found += _of_one_key(rows[start : start + count], near, near_on_one_side)
    return sorted(resolve(found).values(), key=lambda duplicate: duplicate.dropped_id)


def resolve(duplicates: Iterable[Duplicate]) -> dict[int, Duplicate]:
    """One finding for each document that leaves: of several the strongest, then the smallest id.

    The order of `duplicates` does not matter, so buckets may be done in any order, and again.
    """
    chosen: dict[int, Duplicate] = {}
    for duplicate in duplicates:
        other = chosen.get(duplicate.dropped_id)
        if other is None or _rank(duplicate) < _rank(other):
            chosen[duplicate.dropped_id] = duplicate
    return chosen


def write_rows(path: AnyPath, rows: np.ndarray, num_buckets: int) -> None:
    """Write a split's rows by bucket, atomically: the places where buckets begin, then the rows."""
    rows = rows[np.lexsort((rows["document_id"], rows["key"]))]
    offsets = np.searchsorted(_bucket(rows["key"], num_buckets), np.arange(num_buckets + 1))
    with atomic_writer(path) as file:
        np.save(file, offsets.astype(np.uint64))
        file.write(rows.tobytes())


def read_bucket(paths: Sequence[AnyPath], bucket: int, num_buckets: int) -> np.ndarray:
    """All rows of one of `num_buckets` buckets, out of the files of all splits.

    Raises DataError where a file is damaged or was written for another number of buckets.
    """
    tables = [_bucket_of_file(path, bucket, num_buckets) for path in paths]
    return np.concatenate(tables) if tables else np.empty(0, ROW)


def _of_one_key(rows: np.ndarray, near: float, on_one_side: bool) -> Iterator[Duplicate]:
    """The duplicates among rows of one key, which come in the order of keeping."""
    ids, sides, contents = (rows[name].tolist() for name in ("document_id", "side", "content"))
    twin_of: dict[bytes, int] = {}  # content -> the kept row that stands for it
    kept: list[int] = []
    sketches = np.empty((min(len(rows), MOST_COMPARED), NUM_HASHES), np.uint8)  # of the kept rows
    least = math.ceil(near * NUM_HASHES)
    for place, content in enumerate(contents):
        twin = twin_of.get(content)
        if twin is None and kept and least <= NUM_HASHES:
            equal = np.count_nonzero(sketches[: len(kept)] == rows["sketch"][place], axis=1)
            twin = kept[int(np.argmax(equal >= least))] if equal.max() >= least else None
            if twin is not None and sides[twin] == sides[place] and not on_one_side:
                twin = None
        twin_of[content] = place if twin is None else twin
        if twin is None and len(kept) < MOST_COMPARED:
            sketches[len(kept)] = rows["sketch"][place]
            kept.append(place)
        if twin is None:
            continue
        if sides[place] != EXCLUDED:  # an excluded text is no document that could leave
            kind = _kind(sides[place], sides[twin], content == contents[twin])
            yield Duplicate(ids[place], ids[twin], kind)


def _kind(dropped_side: int, kept_side: int, exact: bool) -> str:
    """Why a document leaves, from the sides of both."""
    if kept_side == EXCLUDED:
        return "excluded"
    if kept_side == HELD_OUT and dropped_side != HELD_OUT:
        return "held_out"
    return "exact" if exact else "near"


def _rank(duplicate: Duplicate) -> tuple[int, int]:
    return KINDS.index(duplicate.kind), duplicate.kept_id


def _bucket(keys: np.ndarray, num_buckets: int) -> np.ndarray:
    """The bucket of each key: near-equal ranges of its top 32 bits."""
    return ((keys >> np.uint64(32)) * np.uint64(num_buckets)) >> np.uint64(32)


def _bucket_of_file(path: AnyPath, bucket: int, num_buckets: int) -> np.ndarray:
    try:
        with path.open("rb") as file:
            offsets = np.load(file, allow_pickle=False)
            first, last = int(offsets[bucket]), int(offsets[bucket + 1])
            file.seek(first * ROW.itemsize, 1)
            data = file.read((last - first) * ROW.itemsize)
        if len(offsets) != num_buckets + 1 or len(data) != (last - first) * ROW.itemsize:
            raise ValueError(f"{len(offsets) - 1} buckets, {len(data)} bytes of bucket {bucket}")
    except (ValueError, IndexError, EOFError) as error:
        raise DataError(
            f"{path}: no whole file of signatures for {num_buckets} buckets ({error}); remove it "
            f"and run `clean` again"
        ) from error
    return np.frombuffer(data, ROW)
