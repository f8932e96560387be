"""The first stage: raw sources to cleaned documents, without duplicates.

OUTPUT/documents/manifest.json     balance, sources, and the table of the files
OUTPUT/documents/000000.jsonl ...  the documents, in the order of their ids
OUTPUT/documents/quarantine.jsonl  the records that were left out as damaged, if there are any

The driver holds what is known of each split and each file of documents, a kilobyte or so each (64
MB of source, 32 M characters), and nothing that grows faster.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from data_prep.cleaning import libraries
from data_prep.cluster import Cluster
from data_prep.config import Cleaning, Prep
from data_prep.deduplication import remove_duplicates
from data_prep.progress import StageProgress
from data_prep.quarantine import FILE_NAME, Killers, Reported, refuse_standing, run_guarded, settle
from data_prep.reading import read_split
from data_prep.sources.files import SourceFile, find_files
from data_prep.sources.splits import Piece, Split, plan_splits
from data_prep.stages import Work, finish_stage, open_stage, stamp, still_to_do
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, write_json
from mlmdist.logs import quantity

log = logging.getLogger(__name__)

UNFILTERED = {"min_chars": 0, "max_repeated_share": 1.0, "min_letter_share": 0.0, "languages": ()}


@dataclass(frozen=True)
class Reading:
    """One list of sources: its splits, how they are cleaned, and where what is read goes."""

    label: str
    cleaning: Cleaning
    splits: list[Split]
    targets: list[AnyPath]

    @property
    def names(self) -> list[str]:
        """What a person calls the splits."""
        return [f"{self.label} {split.index}: {split.name}" for split in self.splits]

    @property
    def reports(self) -> list[AnyPath]:
        """Where the report of each split is when it has been read."""
        return [target.with_name(f"{target.name}.json") for target in self.targets]

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The files of documents that were read, in order."""
        return [part for path in self.reports for part in _report(path)["parts"]]


def clean_documents(config: Prep, cluster: Cluster, *, overwrite: bool) -> None:
    """Write OUTPUT/documents; raises DataError if nothing is left, or too much is quarantined."""
    files, excluded = find_files(config.sources), find_files(config.exclude)
    work = _open(config, files, excluded, overwrite=overwrite)
    if work is None:
        standing = config.output / "documents"
        number = read_documents_manifest(standing)["quarantined"]
        refuse_standing(number, config.allow_quarantined, standing)
        return
    killers = Killers(work.scratch / "killers.json", config.allow_quarantined)
    tests = _plan("exclude", excluded, _unfiltered(config.cleaning), work)
    reading = _plan("read", files, config.cleaning, work)
    for each in (tests, reading):
        _read(cluster, each, killers)
    quarantined = _settle(config, [tests, reading], killers, work)
    parts = reading.parts
    if not parts:
        raise DataError(_nothing_left(files, reading))
    filtered = remove_duplicates(cluster, config, parts, tests.parts, work)
    manifest = _manifest(files, reading, filtered) | {"quarantined": quarantined}
    write_json(work.result / "manifest.json", manifest)
    finish_stage(work)
    _log_balance(manifest)


def read_documents_manifest(folder: AnyPath) -> dict[str, Any]:
    """The manifest of a finished folder of documents."""
    return json.loads((folder / "manifest.json").read_bytes())


def _open(
    config: Prep, files: list[SourceFile], excluded: list[SourceFile], *, overwrite: bool
) -> Work | None:
    settings = {
        "cleaning": config.cleaning.model_dump(mode="json"),
        "held_out": config.held_out.model_dump(mode="json"),
    }
    inputs = {
        "sources": [file.identity for file in files],
        "exclude": [file.identity for file in excluded],
        "libraries": libraries(config.cleaning),
    }
    return open_stage(config.output / "documents", stamp(settings, inputs), overwrite=overwrite)


def _unfiltered(cleaning: Cleaning) -> Cleaning:
    """The same normal form, and nothing dropped: a test set may be of short or odd texts."""
    return cleaning.model_copy(update=UNFILTERED)


def _plan(label: str, files: list[SourceFile], cleaning: Cleaning, work: Work) -> Reading:
    """The splits of the files: as an earlier try of this stage planned them, if there was one."""
    path = work.scratch / f"{label}-plan.json"
    if not path.exists():
        plan = [
            [[piece.file.index, piece.start, piece.stop] for piece in split.pieces]
            for split in plan_splits(files)
        ]
        write_json(path, plan)
    splits = [
        Split(index, tuple(Piece(files[place], start, stop) for place, start, stop in pieces))
        for index, pieces in enumerate(json.loads(path.read_bytes()))
    ]
    targets = [work.scratch / f"{label}-{split.index:06d}" for split in splits]
    return Reading(label, cleaning, splits, targets)


def _read(cluster: Cluster, reading: Reading, killers: Killers) -> None:
    """Read every split that has no report yet, but those that kill their worker too often."""
    sizes = [split.num_bytes for split in reading.splits]
    missing = still_to_do(reading.reports, sizes)
    sizes_missing = [sizes[number] for number in missing]
    tasks = [(reading.splits[n], reading.cleaning, reading.targets[n]) for n in missing]
    names = [reading.names[number] for number in missing]
    with StageProgress(
        "reading" if reading.label == "read" else "reading what to exclude",
        sizes_missing,
        names,
        done_before=sum(sizes) - sum(sizes_missing),
    ) as shown:
        for _ in run_guarded(cluster, read_split, tasks, names=names, killers=killers, shown=shown):
            pass


def _settle(config: Prep, readings: Sequence[Reading], killers: Killers, work: Work) -> int:
    """The number of quarantined records; DataError if the recipe does not allow so many."""
    tasks = [
        Reported(name, split.pieces[0].file.name, report)
        for reading in readings
        for name, split, report in zip(reading.names, reading.splits, reading.reports, strict=True)
    ]
    return settle(
        tasks,
        killers,
        stage="read",
        kept=work.result / FILE_NAME,
        refused=config.output / f"documents.{FILE_NAME}",
        allowance=config.allow_quarantined,
    )


def _report(path: AnyPath) -> dict[str, Any]:
    """A split's report without the list of what is quarantined, which may be long."""
    report = json.loads(path.read_bytes())
    del report["quarantined"]
    return report


def _manifest(
    files: list[SourceFile], reading: Reading, filtered: Sequence[AnyPath]
) -> dict[str, Any]:
    parts = [json.loads(path.read_bytes()) for path in filtered]
    digest = hashlib.sha256("".join(part["sha256"] for part in parts).encode())
    reports = [_report(path) for path in reading.reports]
    balance: dict[str, Any] = {}
    for unit, kept in (("documents", "documents"), ("characters", "chars")):
        dropped = Counter[str]()
        for counts in chain(
            (report[unit]["dropped"] for report in reports),
            (part["dropped"][unit] for part in parts),
        ):
            dropped.update(counts)
        balance[unit] = {
            "in": sum(report[unit]["in"] for report in reports),
            "out": sum(part[kept] for part in parts),
            "dropped": dict(sorted(dropped.items())),
        }
    return {
        "fingerprint": digest.hexdigest(),
        "chars": balance["characters"]["out"],
        "invalid_bytes": sum(report.get("invalid_bytes", 0) for report in reports),
        "balance": balance,
        "sources": [{"name": file.name, "bytes": file.num_bytes} for file in files],
        "parts": [{key: part[key] for key in ("name", "documents", "chars")} for part in parts],
    }


def _nothing_left(files: list[SourceFile], reading: Reading) -> str:
    dropped = Counter[str]()
    for path in reading.reports:
        dropped.update(_report(path)["documents"]["dropped"])
    names = ", ".join(file.name for file in files[:3])
    reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items()) or "no record"
    return (
        f"sources ({names}): no document is left to train on ({reasons}); "
        "give other files, or let `cleaning` keep more"
    )


def _log_balance(manifest: dict[str, Any]) -> None:
    documents = manifest["balance"]["documents"]
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in documents["dropped"].items())
    log.info(
        "documents: %d of %d records kept, %s characters; dropped: %s",
        documents["out"],
        documents["in"],
        quantity(manifest["chars"]),
        reasons or "none",
    )
