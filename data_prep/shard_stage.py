"""The last stage: documents and tokenizer to finished shard sets (map, then seal).

OUTPUT/shards/{train,held_out}         the sets of one window length, or
OUTPUT/shards/LENGTH/{train,held_out}  those of each of several lengths, out of one encoding
OUTPUT/shards/quarantine.jsonl         the documents that were left out, if there are any

The driver holds a name and a size of each file of documents and the windows of each bucket (64 M
characters of text at most): nothing that grows with windows or blocks.
"""

import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from data_prep.cluster import Cluster
from data_prep.config import Prep
from data_prep.document_stage import read_documents_manifest
from data_prep.parts import SIDES, read_report, report_path, write_part
from data_prep.progress import StageProgress
from data_prep.quarantine import (
    FILE_NAME,
    QUARANTINED,
    Killers,
    Reported,
    refuse_standing,
    run_guarded,
    settle,
)
from data_prep.sealing import plan_shards, seal_shard, write_set
from data_prep.stages import Work, finish_stage, open_stage, stamp, still_to_do
from data_prep.tags import tags_fingerprint
from data_prep.words import words_fingerprint
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, make_folder
from mlmdist.manifest import Manifest
from mlmdist.tokenizer import META_NAME

log = logging.getLogger(__name__)

SMALL_BUCKET_CHARS = 4_000_000
SOME_BUCKETS_BITS = 4  # 16 buckets

# What the bytes of a shard set must not depend on: places, and how many records may be left out.
NO_PROVENANCE: Any = {
    "output": True,
    "ray": True,
    "sources": True,
    "exclude": True,
    "allow_quarantined": True,
    "tokenizer": {"path"},
    "words": {"dictionary"},
    "tags": {"word_list"},
}


@dataclass
class Encoded:
    """What all parts together hold, added up from their reports one by one."""

    buckets: dict[tuple[int, str], Counter[str]] = field(default_factory=dict)
    """Windows of each bucket, by length and side."""

    sides: dict[str, Counter[str]] = field(default_factory=dict)
    """Documents, characters and tokens_in of each side."""

    windows: dict[tuple[int, str], Counter[str]] = field(default_factory=dict)
    """Tokens, repeated and left_out, by length and side."""

    dropped: dict[str, Counter[str]] = field(default_factory=dict)
    """Documents and characters by reason."""

    disagreements: int = 0
    """Word boundaries of the segmenter inside tokens, which stay whole."""

    def add(self, report: dict[str, Any]) -> None:
        """Add one part's report."""
        self.disagreements += report["disagreements"]
        for side, counts in report["sides"].items():
            self.sides.setdefault(side, Counter()).update(counts)
        for unit, counts in report["dropped"].items():
            self.dropped.setdefault(unit, Counter()).update(counts)
        for length, sides in report["lengths"].items():
            for side, counts in sides.items():
                key = int(length), side
                numbers = {name: counts[name] for name in ("tokens", "repeated", "left_out")}
                self.windows.setdefault(key, Counter()).update(numbers)
                self.buckets.setdefault(key, Counter()).update(counts["buckets"])

    def balance(self, before: dict[str, Any], length: int, side: str) -> dict[str, Any]:
        """The balance of a set: of the documents stage's, what left here, and the set's tokens."""
        balance: dict[str, Any] = {}
        for unit in ("documents", "characters"):
            dropped = Counter(before[unit]["dropped"])
            dropped.update(self.dropped.get(unit, Counter()))
            out = sum(counts[unit] for counts in self.sides.values())
            balance[unit] = before[unit] | {"out": out, "dropped": dict(sorted(dropped.items()))}
        windows = self.windows[length, side]
        left_out = {"long_text": windows["left_out"]} if windows["left_out"] else {}
        balance["tokens"] = {
            "in": self.sides[side]["tokens_in"],
            "repeated": windows["repeated"],
            "out": windows["tokens"],
            "dropped": left_out,
        }
        return balance


def make_shards(config: Prep, cluster: Cluster, *, overwrite: bool) -> None:
    """Write OUTPUT/shards: for each length train and, with a held-out share, held_out."""
    documents = read_documents_manifest(config.output / "documents")
    meta = json.loads((config.output / "tokenizer" / META_NAME).read_bytes())
    settings = {
        "windows": config.windows.model_dump(mode="json"),
        "held_out": config.held_out.model_dump(mode="json"),
        "shards": config.shards.model_dump(mode="json"),
        "words": config.words.model_dump(mode="json", exclude={"dictionary"}),
        "tags": config.tags.model_dump(mode="json", exclude={"word_list"}),
    }
    inputs = {
        "documents": documents["fingerprint"],
        "tokenizer": meta["hash"],
        "words": words_fingerprint(config.words),
        "tags": tags_fingerprint(config.tags),
    }
    wanted = stamp(settings, inputs)
    work = open_stage(config.output / "shards", wanted, overwrite=overwrite)
    if work is None:
        _refuse_standing(config, documents)
        return
    parts = _map(cluster, config, documents, work)
    encoded = Encoded()
    for part in parts:
        encoded.add(read_report(part))
    if encoded.disagreements:
        log.info("words: %d of the segmenter end inside a token", encoded.disagreements)
    for length in config.windows.lengths:
        for side in SIDES if config.held_out.share else SIDES[:1]:
            described = {
                "tokenizer_hash": meta["hash"],
                "vocab_size": meta["vocab_size"],
                "special_ids": meta["special_ids"],
                "max_seq_len": length,
                "blocks_per_shard": config.shards.blocks_per_shard,
                "balance": encoded.balance(documents["balance"], length, side),
                "provenance": {
                    "versions": wanted.versions,
                    "config": config.model_dump(mode="json", exclude=NO_PROVENANCE),
                    "sources": documents["sources"],
                },
            }
            _seal(cluster, config, parts, encoded, (length, side), described, work)
    finish_stage(work)


def set_folder(shards: AnyPath, config: Prep, length: int, side: str) -> AnyPath:
    """Where the set of a length and side lies: a level of lengths is there if there are several."""
    return (shards / str(length) if len(config.windows.lengths) > 1 else shards) / side


def _num_buckets(chars: int, bucket_chars: int) -> int:
    """Buckets, a power of two, by the size of the text alone.

    A shard reads whole buckets, so a few large ones would be read by each: of smaller ones there
    are some more.
    """
    small = min(SOME_BUCKETS_BITS, (chars // SMALL_BUCKET_CHARS).bit_length())
    return 1 << max(small, (chars // bucket_chars).bit_length())


def _map(cluster: Cluster, config: Prep, manifest: dict[str, Any], work: Work) -> list[AnyPath]:
    """Encode every file of documents that has no part yet; all the parts, in order.

    Raises DataError if more is quarantined than the recipe allows.
    """
    files = manifest["parts"]
    num_buckets = _num_buckets(manifest["chars"], config.shards.bucket_chars)
    parts = [work.scratch / f"part-{n:06d}-of-{num_buckets}-buckets" for n in range(len(files))]
    chars = [file["chars"] for file in files]
    missing = still_to_do([report_path(part) for part in parts], chars)
    documents, tokenizer = config.output / "documents", config.output / "tokenizer"
    tasks = [
        (documents / files[n]["name"], tokenizer, config, num_buckets, parts[n]) for n in missing
    ]
    allowance = config.allow_quarantined - manifest["quarantined"]
    killers = Killers(work.scratch / "killers.json", allowance)
    names = [file["name"] for file in files]
    sizes = [chars[number] for number in missing]
    with StageProgress(
        "encoding",
        sizes,
        [names[number] for number in missing],
        unit="chars",
        measured_by="chars",
        done_before=manifest["chars"] - sum(sizes),
    ) as shown:
        for _ in run_guarded(
            cluster,
            write_part,
            tasks,
            names=[names[number] for number in missing],
            num_records=[files[number]["documents"] for number in missing],
            killers=killers,
            shown=shown,
        ):
            pass
    settle(
        [Reported(name, name, report_path(part)) for name, part in zip(names, parts, strict=True)],
        killers,
        stage="encode",
        kept=work.result / FILE_NAME,
        refused=config.output / f"shards.{FILE_NAME}",
        allowance=config.allow_quarantined,
        number_before=manifest["quarantined"],
    )
    return parts


def _seal(
    cluster: Cluster,
    config: Prep,
    parts: Sequence[AnyPath],
    encoded: Encoded,
    which: tuple[int, str],
    described: dict[str, Any],
    work: Work,
) -> Manifest:
    """Write the shards of a length and side that are not there yet, then table and manifest."""
    length, side = which
    label = f"{length} {side}" if len(config.windows.lengths) > 1 else side
    folder = set_folder(work.result, config, length, side)
    make_folder(folder)
    sizes = dict(sorted(encoded.buckets[which].items()))
    if not sizes:
        raise DataError(_empty_side(config, side))
    plans = plan_shards(sizes, config.shards.blocks_per_shard)
    reports = [work.scratch / f"{length}-{side}-{n:06d}.json" for n in range(len(plans))]
    missing = still_to_do(reports, [windows for _, _, windows in plans])
    tasks = [
        (
            parts, length, side, plans[n], config.shards.seed, n * config.shards.blocks_per_shard,
            described["vocab_size"], folder / f"{n:06d}.tar", reports[n],
        )
        for n in missing
    ]  # fmt: skip
    windows = [plans[number][2] for number in missing]
    with StageProgress(
        f"sealing {label}",
        windows,
        [f"{number:06d}.tar" for number in missing],
        unit="windows",
        done_before=sum(sizes.values()) - sum(windows),
    ) as shown:
        for _ in cluster.run(seal_shard, tasks, shown):
            pass
    number = encoded.sides[side]["documents"]
    manifest = write_set(folder, reports, documents=number, described=described)
    log.info(
        "%s: %d documents, %d windows, %d tokens (%d of them repeated) in %d shards",
        label,
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


def _refuse_standing(config: Prep, documents: dict[str, Any]) -> None:
    """Refuse a result that is there if more was left out of it than the recipe allows."""
    folder = set_folder(config.output / "shards", config, config.windows.lengths[0], SIDES[0])
    balance = json.loads((folder / "manifest.json").read_bytes())["balance"]["documents"]
    here = balance["dropped"].get(QUARANTINED, 0)
    before = documents["balance"]["documents"]["dropped"].get(QUARANTINED, 0)
    refuse_standing(
        here - before + documents["quarantined"], config.allow_quarantined, config.output / "shards"
    )
