"""The last stage: documents and tokenizer to finished shard sets (map, then seal)."""

import json
import logging
from pathlib import Path
from typing import Any

from data_prep.cluster import Cluster
from data_prep.config import Prep
from data_prep.document_stage import read_documents_manifest
from data_prep.parts import SIDES, read_report, report_path, write_part
from data_prep.sealing import bucket_sizes, plan_shards, seal_shard, write_set
from data_prep.stages import Work, finish_stage, open_stage, stamp
from mlmdist.errors import DataError
from mlmdist.logs import Progress
from mlmdist.shards import Manifest
from mlmdist.tokenizer import META_NAME

log = logging.getLogger(__name__)


def make_shards(config: Prep, cluster: Cluster, *, overwrite: bool) -> None:
    """Write OUTPUT/shards/train and, with a held-out share, OUTPUT/shards/held_out."""
    documents = config.output / "documents"
    manifest = read_documents_manifest(documents)
    tokenizer = config.output / "tokenizer"
    meta = json.loads((tokenizer / META_NAME).read_bytes())
    settings = {
        "windows": config.windows.model_dump(mode="json"),
        "held_out": config.held_out.model_dump(mode="json"),
        "shards": config.shards.model_dump(mode="json"),
    }
    wanted = stamp(settings, {"documents": manifest["fingerprint"], "tokenizer": meta["hash"]})
    work = open_stage(config.output / "shards", wanted, overwrite=overwrite)
    if work is None:
        return
    num_buckets = _num_buckets(manifest["chars"], config.shards.bucket_chars)
    parts = _map(cluster, config, manifest, num_buckets, work)
    reports = [read_report(part) for part in parts]
    for side in SIDES:
        if config.held_out.share or side == "train":
            described = _describe(config, manifest, meta, reports, side, wanted.versions)
            _seal(cluster, config, parts, reports, side, described, work)
    finish_stage(work)


def _num_buckets(chars: int, bucket_chars: int) -> int:
    """Buckets, a power of two, by the size of the text alone."""
    return 1 << max(0, (chars // bucket_chars).bit_length())


def _map(
    cluster: Cluster, config: Prep, manifest: dict[str, Any], num_buckets: int, work: Work
) -> list[Path]:
    """Encode every file of documents that has no part yet; all the parts, in order."""
    files = manifest["parts"]
    parts = [work.scratch / f"part-{number:06d}" for number in range(len(files))]
    missing = [number for number, part in enumerate(parts) if not report_path(part).exists()]
    tokenizer = config.output / "tokenizer"
    tasks = [
        (config.output / "documents" / files[n]["name"], tokenizer, config, num_buckets, parts[n])
        for n in missing
    ]
    with Progress("encoding", sum(file["chars"] for file in files), "chars") as progress:
        progress.resume_at(manifest["chars"] - sum(files[n]["chars"] for n in missing))
        for task, _ in cluster.run(write_part, tasks):
            progress.advance(files[missing[task]]["chars"])
    return parts


def _seal(
    cluster: Cluster,
    config: Prep,
    parts: list[Path],
    reports: list[dict[str, Any]],
    side: str,
    described: dict[str, Any],
    work: Work,
) -> Manifest:
    """Write the shards of a side that are not there yet, then its table and manifest."""
    folder = work.result / side
    folder.mkdir(exist_ok=True)
    sizes = bucket_sizes(reports, side)
    if not sizes:
        raise DataError(_empty_side(config, side))
    plans = plan_shards(sizes, config.shards.blocks_per_shard)
    reports_made = [work.scratch / f"{side}-{number:06d}.json" for number in range(len(plans))]
    tasks: list[tuple[Any, ...]] = []
    for number, plan in enumerate(plans):
        target = folder / f"{number:06d}.tar"
        if not reports_made[number].exists():
            first_block = number * config.shards.blocks_per_shard
            seed, vocab = config.shards.seed, described["vocab_size"]
            tasks.append(
                (parts, side, plan, seed, first_block, vocab, target, reports_made[number])
            )
    with Progress(f"sealing {side}", len(plans), "shards") as progress:
        progress.resume_at(len(plans) - len(tasks))
        for _ in cluster.run(seal_shard, tasks):
            progress.advance(1)
    documents = sum(report[side]["documents"] for report in reports)
    manifest = write_set(folder, reports_made, documents=documents, described=described)
    log.info(
        "%s: %d documents, %d windows, %d tokens (%d of them repeated) in %d shards",
        side,
        manifest.num_documents,
        manifest.num_windows,
        manifest.num_tokens,
        manifest.num_repeated,
        manifest.num_shards,
    )
    return manifest


def _empty_side(config: Prep, side: str) -> str:
    if side == "train":
        return f"{config.output}/documents: no document gives a window to train on"
    return (
        f"held_out.share={config.held_out.share}: holds out no document of so small a corpus; "
        "raise the share, choose another held_out.seed, or set the share to 0"
    )


def _describe(
    config: Prep,
    manifest: dict[str, Any],
    meta: dict[str, Any],
    reports: list[dict[str, Any]],
    side: str,
    versions: dict[str, str],
) -> dict[str, Any]:
    """What the manifest of a side says besides its shards."""
    names = ("tokens_in", "tokens", "repeated")
    tokens = {name: sum(report[side][name] for report in reports) for name in names}
    balance = manifest["balance"] | {
        "tokens": {
            "in": tokens["tokens_in"],
            "repeated": tokens["repeated"],
            "out": tokens["tokens"],
            "dropped": {},
        }
    }
    return {
        "tokenizer_hash": meta["hash"],
        "vocab_size": meta["vocab_size"],
        "max_seq_len": config.windows.max_seq_len,
        "blocks_per_shard": config.shards.blocks_per_shard,
        "balance": balance,
        "provenance": {
            "versions": versions,
            "config": config.model_dump(mode="json", exclude={"output", "ray", "sources"}),
            "sources": manifest["sources"],
        },
    }
