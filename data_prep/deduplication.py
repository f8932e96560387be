"""The steps of removing duplicates, in order, over a cluster.

    sign each file of documents -> compare each bucket of signatures -> gather what leaves, by
    ranges of ids -> filter each file

A bucket has the signatures of some 20,000 documents, a range what is known of some 200,000, so no
step's memory grows with the corpus. What leaves depends on the documents alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from data_prep.cluster import Cluster
from data_prep.config import Prep
from data_prep.progress import StageProgress
from data_prep.removal import (
    filter_file,
    find_in_bucket,
    gather_range,
    sign_file,
    write_exclusion,
)
from data_prep.stages import Work, still_to_do
from mlmdist.files import AnyPath

DOCUMENTS_A_BUCKET = 20_000  # signatures of so many take 61 MB
DOCUMENTS_A_RANGE = 200_000  # what is found of so many takes 68 MB at most, by 20 bands each

Part = dict[str, Any]
"""A file of documents in the scratch as a report names it: its name, documents and chars."""


@dataclass(frozen=True)
class Step:
    """Tasks of one kind: a file each is done when its target is there."""

    label: str
    function: Callable[..., Any]
    tasks: Sequence[tuple[Any, ...]]
    """Arguments but the last, the target."""

    targets: Sequence[AnyPath]
    sizes: Sequence[int]
    unit: str

    def run(self, cluster: Cluster) -> None:
        """Do what is not done yet."""
        missing = still_to_do(self.targets, self.sizes)
        sizes = [self.sizes[number] for number in missing]
        with StageProgress(
            self.label,
            sizes,
            [self.targets[number].name for number in missing],
            unit=self.unit,
            measured_by="chars",
            done_before=sum(self.sizes) - sum(sizes),
        ) as shown:
            tasks = [(*self.tasks[number], self.targets[number]) for number in missing]
            for _ in cluster.run(self.function, tasks, shown):
                pass


def remove_duplicates(
    cluster: Cluster, config: Prep, parts: Sequence[Part], excluded: Sequence[Part], work: Work
) -> list[AnyPath]:
    """Write the documents that stay to the result, a file a part; where the files' reports are.

    `excluded` are the documents of test sets. What an earlier try left is not done again.
    """
    raw = [work.scratch / part["name"] for part in parts]
    tests = [work.scratch / part["name"] for part in excluded]
    tables = _compare(cluster, config, [*excluded, *parts], len(tests), work)
    table_of = _gather(cluster, parts, raw, tables, work)
    exclusion = work.scratch / "exclusion.npy" if tests else None
    if exclusion:
        Step("what to exclude", write_exclusion, [(tests,)], [exclusion], [1], "tables").run(
            cluster
        )
    reports = _targets(work, "filter", len(raw), "json")
    tasks = [
        (path, config, table_of[number], exclusion, work.result / f"{number:06d}.jsonl")
        for number, path in enumerate(raw)
    ]
    Step("filtering", filter_file, tasks, reports, _chars(parts), "chars").run(cluster)
    return reports


def _compare(
    cluster: Cluster, config: Prep, parts: Sequence[Part], num_tests: int, work: Work
) -> list[AnyPath]:
    """What each bucket of signatures shows; the first `num_tests` parts are those of test sets."""
    num_buckets = 1 + sum(part["documents"] for part in parts) // DOCUMENTS_A_BUCKET
    signatures = _targets(work, "sign", len(parts), "rows")
    tasks = [
        (work.scratch / part["name"], config, num_buckets, number < num_tests)
        for number, part in enumerate(parts)
    ]
    Step("signing", sign_file, tasks, signatures, _chars(parts), "chars").run(cluster)
    tables = _targets(work, "compare", num_buckets, "rows")
    compared = [(signatures, bucket, num_buckets, config) for bucket in range(num_buckets)]
    Step("comparing", find_in_bucket, compared, tables, [1] * num_buckets, "buckets").run(cluster)
    return tables


def _gather(
    cluster: Cluster,
    parts: Sequence[Part],
    raw: Sequence[AnyPath],
    tables: Sequence[AnyPath],
    work: Work,
) -> list[AnyPath]:
    """For each part the table of what leaves of its range of ids."""
    firsts = _range_starts(parts)
    targets = _targets(work, "gather", len(firsts), "rows")
    tasks = [
        (tables, raw[first], raw[following] if following is not None else None)
        for first, following in zip(firsts, [*firsts[1:], None], strict=True)
    ]
    Step("gathering", gather_range, tasks, targets, [1] * len(firsts), "ranges").run(cluster)
    place = 0
    table_of: list[AnyPath] = []
    for number in range(len(parts)):
        place += number in firsts[1:]
        table_of.append(targets[place])
    return table_of


def _range_starts(parts: Sequence[Part]) -> list[int]:
    """The parts with which a range begins: a range has DOCUMENTS_A_RANGE documents, or one part."""
    starts, documents = [0], 0
    for number, part in enumerate(parts):
        if documents and documents + part["documents"] > DOCUMENTS_A_RANGE:
            starts.append(number)
            documents = 0
        documents += part["documents"]
    return starts


def _targets(work: Work, step: str, number: int, ending: str) -> list[AnyPath]:
    return [work.scratch / f"{step}-{n:06d}.{ending}" for n in range(number)]


def _chars(parts: Sequence[Part]) -> list[int]:
    return [part["chars"] for part in parts]
