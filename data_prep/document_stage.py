"""The first stage: raw sources to cleaned documents, without duplicates.

OUTPUT/documents/manifest.json     balance, sources, and the table of the files
OUTPUT/documents/000000.jsonl ...  the documents, in the order of their ids
"""

import hashlib
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

from data_prep.cluster import Cluster
from data_prep.config import Prep
from data_prep.reading import read_source
from data_prep.removal import filter_file, find_in_bucket, sign_file
from data_prep.sources.files import SourceFile, find_files
from data_prep.stages import Work, finish_stage, open_stage, stamp
from mlmdist.errors import DataError
from mlmdist.files import write_json
from mlmdist.logs import Progress, quantity

log = logging.getLogger(__name__)

DOCUMENTS_A_BUCKET = 20_000  # signatures of so many take 61 MB


def clean_documents(config: Prep, cluster: Cluster, *, overwrite: bool) -> None:
    """Write OUTPUT/documents; raises DataError if nothing is left."""
    files = find_files(config.sources)
    settings = {
        "cleaning": config.cleaning.model_dump(mode="json"),
        "held_out": config.held_out.model_dump(mode="json"),
    }
    wanted = stamp(settings, [file.identity for file in files])
    work = open_stage(config.output / "documents", wanted, overwrite=overwrite)
    if work is None:
        return
    reports = _read(cluster, config, files, work)
    raw = [work.scratch / part["name"] for report in reports for part in report["parts"]]
    if not raw:
        raise DataError(_nothing_left(files, reports))
    filtered = _remove_duplicates(cluster, config, reports, raw, work)
    manifest = _manifest(files, reports, filtered)
    write_json(work.result / "manifest.json", manifest)
    finish_stage(work)
    _log_balance(manifest)


def read_documents_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished folder of documents."""
    return json.loads((folder / "manifest.json").read_bytes())


def _read(
    cluster: Cluster, config: Prep, files: list[SourceFile], work: Work
) -> list[dict[str, Any]]:
    """Read every file that has no report yet; all the reports, in the order of the files."""
    targets = [work.scratch / f"read-{file.index:06d}" for file in files]
    missing = [n for n, target in enumerate(targets) if not target.with_suffix(".json").exists()]
    sizes = [file.path.stat().st_size for file in files]
    with Progress("reading", sum(sizes), "B") as progress:
        progress.resume_at(sum(sizes) - sum(sizes[n] for n in missing))
        tasks = [(files[n], config.cleaning, targets[n]) for n in missing]
        for task, _ in cluster.run(read_source, tasks):
            progress.advance(sizes[missing[task]])
    return [json.loads(target.with_suffix(".json").read_bytes()) for target in targets]


def _remove_duplicates(
    cluster: Cluster, config: Prep, reports: list[dict[str, Any]], raw: list[Path], work: Work
) -> list[dict[str, Any]]:
    """Sign, compare and filter what is not done yet; the reports of the filtered files."""
    parts = [part for report in reports for part in report["parts"]]
    num_buckets = 1 + sum(part["documents"] for part in parts) // DOCUMENTS_A_BUCKET
    signatures = [work.scratch / f"{number:06d}.rows" for number in range(len(raw))]
    tables = [work.scratch / f"{number:06d}.npy" for number in range(num_buckets)]
    filtered = [work.scratch / f"filtered-{number:06d}.json" for number in range(len(raw))]
    with Progress("comparing", 2 * len(raw) + num_buckets, "files") as progress:
        for function, done, tasks in (
            (sign_file, signatures, [(path, config, num_buckets) for path in raw]),
            (
                find_in_bucket,
                tables,
                [(signatures, bucket, num_buckets, config) for bucket in range(num_buckets)],
            ),
            (
                filter_file,
                filtered,
                [(p, tables, work.result / f"{n:06d}.jsonl") for n, p in enumerate(raw)],
            ),
        ):
            missing = [n for n, path in enumerate(done) if not path.exists()]
            progress.advance(len(done) - len(missing))
            for _ in cluster.run(function, [(*tasks[n], done[n]) for n in missing]):
                progress.advance(1)
    return [json.loads(report.read_bytes()) for report in filtered]


def _manifest(
    files: list[SourceFile], reports: list[dict[str, Any]], filtered: list[dict[str, Any]]
) -> dict[str, Any]:
    digest = hashlib.sha256("".join(part["sha256"] for part in filtered).encode())
    balance: dict[str, Any] = {}
    for unit, kept in (("documents", "documents"), ("characters", "chars")):
        dropped = Counter[str]()
        for source in reports:
            dropped.update(source[unit]["dropped"])
        for part in filtered:
            dropped.update(part["dropped"][unit])
        balance[unit] = {
            "in": sum(report[unit]["in"] for report in reports),
            "out": sum(part[kept] for part in filtered),
            "dropped": dict(sorted(dropped.items())),
        }
    return {
        "fingerprint": digest.hexdigest(),
        "chars": balance["characters"]["out"],
        "balance": balance,
        "sources": [{"name": f.path.name, "bytes": f.path.stat().st_size} for f in files],
        "parts": [{key: part[key] for key in ("name", "documents", "chars")} for part in filtered],
    }


def _nothing_left(files: list[SourceFile], reports: list[dict[str, Any]]) -> str:
    dropped = Counter[str]()
    for report in reports:
        dropped.update(report["documents"]["dropped"])
    names = ", ".join(file.path.name for file in files[:3])
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
