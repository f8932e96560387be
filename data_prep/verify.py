"""Proof of shard sets by reading all of them back: each by itself, then what they must agree on.

A folder is a set, or holds the sets of both sides, or those of several window lengths, or is the
output of a recipe, which has documents and tokenizer too. Memory holds a few blocks a worker, and
in this process one set's counts of tokens.
"""

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from data_prep.block_proof import Findings
from data_prep.cluster import Cluster
from data_prep.config import Ray
from data_prep.parts import SIDES
from data_prep.progress import StageProgress
from data_prep.shard_proof import check_shard
from mlmdist.blocks import OPTIONAL
from mlmdist.files import AnyPath
from mlmdist.manifest import Manifest, fingerprint, manifest_checksum
from mlmdist.shard import ShardEntry
from mlmdist.shards import SHARD_LINE_BYTES, ShardSet, table_line
from mlmdist.tokenizer import META_NAME

log = logging.getLogger(__name__)

INLINE_SHARDS = 3  # so few are read faster than Ray starts
MOST_LISTED = 100  # findings of one set
SET_FILES = ("manifest.json", "shards.jsonl", "unigram.npy")
Group = dict[str, AnyPath]
"""The sets of one window length, by side; {"": folder} is a set of which no more is known."""


@dataclass(frozen=True)
class Proved:
    """What a set that is whole says to its neighbours."""

    folder: AnyPath
    manifest: Manifest
    documents: tuple[int, int]
    """A hash of the multiset of its documents."""


def verify(folder: AnyPath, ray: Ray) -> list[str]:
    """What is broken in the shard sets in `folder`; an empty list is the proof.

    Raises DataError if there is no set.
    """
    shards = folder / "shards" if _holds_sets(folder / "shards") else folder
    broken: list[str] = []
    proved: list[dict[str, Proved]] = []
    for group in find_sets(shards):
        sets: dict[str, Proved] = {}
        for side, path in sorted(group.items()):
            other = group.get("held_out") if side == "train" else None
            made = _verify_set(path, other, ray)
            if isinstance(made, Proved):
                sets[side] = made
            else:
                broken += made
        proved.append(sets)
    if not broken:
        broken = [line for sets in proved for line in _check_sides(sets)]
        broken += _check_lengths(proved)
        broken += _check_origin(folder, proved) if shards != folder else []
    return broken


def find_sets(folder: AnyPath) -> list[Group]:
    """The sets in a folder, by side, of each window length; DataError if there are none."""
    if (folder / "manifest.json").exists():
        return [{"": folder}]
    if sides := _sides(folder):
        return [sides]
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    lengths = sorted(int(name) for name in names if name.isdecimal())
    groups = [sides for length in lengths if (sides := _sides(folder / str(length)))]
    if not groups:
        ShardSet.open(folder)  # raises, and says what makes a set
    return groups


def _sides(folder: AnyPath) -> Group:
    return {side: folder / side for side in SIDES if (folder / side).is_dir()}


def _holds_sets(folder: AnyPath) -> bool:
    return folder.is_dir()


def _verify_set(folder: AnyPath, held_out: AnyPath | None, ray: Ray) -> Proved | list[str]:
    opened = ShardSet.open(folder)
    manifest = opened.manifest
    broken = _check_manifest(folder, manifest) or _check_table(opened) + _check_files(opened)
    if broken:
        return broken
    if held_out is not None and _seed(ShardSet.open(held_out).manifest) != _seed(manifest):
        return [f"{folder}: has another shards.seed than {held_out}"]
    total = Findings()
    for found in _read_all(folder, held_out, manifest.num_shards, ray):
        total += found
        total.broken = total.broken[:MOST_LISTED]
    broken = total.broken or _check_totals(folder, manifest, total)
    if broken:
        return broken
    log.info("%s: %d windows, %d tokens: whole", folder, total.windows, total.tokens)
    return Proved(folder, manifest, total.documents)


def _read_all(
    folder: AnyPath, held_out: AnyPath | None, num_shards: int, ray: Ray
) -> Iterator[Findings]:
    tasks = [(folder, number, held_out) for number in range(num_shards)]
    if len(tasks) <= INLINE_SHARDS:
        yield from (check_shard(*task) for task in tasks)
        return
    names = [f"{number:06d}.tar" for number in range(num_shards)]
    with (
        Cluster(ray) as cluster,
        StageProgress(
            f"verifying {folder.name}", [1] * num_shards, names, unit="shards", measured_by="shards"
        ) as shown,
    ):
        for _, found in cluster.run(check_shard, tasks, shown):
            yield found


def _seed(manifest: Manifest) -> Any:
    return manifest.provenance["config"]["shards"]["seed"]


def _check_manifest(folder: AnyPath, manifest: Manifest) -> list[str]:
    """Whether the manifest is as it was written and says what the proof needs besides counts."""
    path = folder / "manifest.json"
    if manifest.checksum != manifest_checksum(manifest):
        return [f"{path}: does not match its checksum"]
    try:
        rows = [
            (row["in"], row["out"], *row["dropped"].values()) for row in manifest.balance.values()
        ]
        numbers = [_seed(manifest), manifest.balance["tokens"]["in"], *chain.from_iterable(rows)]
    except (KeyError, TypeError, AttributeError) as error:
        return [f"{path}: lacks provenance or balance ({error!r})"]
    wrong = [
        number for number in [*numbers, *manifest.special_ids.values()] if type(number) is not int
    ]
    return [f"{path}: {wrong[0]!r} is no count"] if wrong else []


def _check_table(opened: ShardSet) -> list[str]:
    """Whether the table has a line a shard and gives the fingerprint the manifest names."""
    manifest = opened.manifest
    path = opened.folder / "shards.jsonl"
    checksums: list[str] = []
    try:
        with path.open("rb") as table:
            while line := table.read(SHARD_LINE_BYTES):
                entry = ShardEntry(**json.loads(line))
                if table_line(entry) != line:
                    raise ValueError("it is not as it was written")
                checksums.append(bytes.fromhex(entry.sha256).hex())
    except (OSError, ValueError, TypeError) as error:
        return [f"{path}: line {len(checksums) + 1} cannot be read ({error})"]
    if len(checksums) != manifest.num_shards:
        return [f"{path}: must have a line for each of {manifest.num_shards} shards"]
    names = ("blocks", "windows", "tokens", "repeated", "documents", "shards")
    counts = {name: getattr(manifest, f"num_{name}") for name in names}
    if fingerprint(manifest.tokenizer_hash, counts, checksums) != manifest.content_fingerprint:
        return [f"{opened.folder}: manifest and table do not give the fingerprint it names"]
    return []


def _check_files(opened: ShardSet) -> list[str]:
    """Whether the folder holds the files of the set and no others."""
    names = {path.name for path in opened.folder.iterdir()}
    wanted = {*SET_FILES, *(f"{n:06d}.tar" for n in range(opened.manifest.num_shards))}
    missing = [
        f"{opened.folder / name}: cannot be opened: it is not there"
        for name in sorted(wanted - names)
    ]
    extra = [
        f"{opened.folder / name}: is no file of the set" for name in sorted(names - wanted) if name
    ]
    return [*missing, *extra][:MOST_LISTED]


def _check_totals(folder: AnyPath, manifest: Manifest, total: Findings) -> list[str]:
    broken: list[str] = []
    for name in ("windows", "tokens", "repeated"):
        counted, said = getattr(total, name), getattr(manifest, f"num_{name}")
        if counted != said:
            broken.append(f"{folder}: holds {counted} {name}, its manifest says {said}")
    if total.firsts != manifest.num_documents or total.lasts != manifest.num_documents:
        broken.append(
            f"{folder}: {total.firsts} documents start and {total.lasts} end; "
            f"its manifest says {manifest.num_documents}"
        )
    if total.promised != total.claimed:
        broken.append(f"{folder}: the windows of a document do not join to its tokens (law W1)")
    broken += [
        f"{folder}: {getattr(total, name)} of {manifest.num_blocks} blocks have {name}s; "
        "all must or none"
        for name in OPTIONAL
        if getattr(total, name) not in (0, manifest.num_blocks)
    ]
    return broken + _check_balance(folder, manifest, total) + _check_unigram(folder, total)


def _check_balance(folder: AnyPath, manifest: Manifest, total: Findings) -> list[str]:
    """Law W2 over what the manifest says, and what it says of tokens against what is there."""
    broken: list[str] = []
    for unit, row in manifest.balance.items():
        came = row["in"] + row.get("repeated", 0)
        if came != row["out"] + sum(row["dropped"].values()):
            broken.append(f"{folder}: {unit}: in is not out + dropped (law W2): {json.dumps(row)}")
    tokens = manifest.balance["tokens"]
    if (tokens["out"], tokens.get("repeated", 0)) != (total.tokens, total.repeated):
        broken.append(f"{folder}: tokens in + repeated are not tokens out (law W2)")
    left_out = sum(tokens["dropped"].values())
    if left_out < total.left_out or (left_out > total.left_out and not total.tails):
        broken.append(f"{folder}: {left_out} tokens left out, its gaps say {total.left_out} (W2)")
    return broken


def _check_unigram(folder: AnyPath, total: Findings) -> list[str]:
    """Whether the file is to the byte what counting the tokens gives."""
    path = folder / "unigram.npy"
    expected = io.BytesIO()
    np.save(expected, np.asarray(total.unigram).astype(np.uint64))
    try:
        same = path.read_bytes() == expected.getvalue()
    except OSError as error:
        return [f"{path}: cannot be read ({error})"]
    return [] if same else [f"{path}: does not count the tokens of the set"]


def _check_sides(sets: dict[str, Proved]) -> list[str]:
    """What train and held-out set of one length must agree on."""
    if not set(SIDES) <= sets.keys():
        return []
    train, held_out = (sets[side] for side in SIDES)
    names = ("tokenizer_hash", "vocab_size", "special_ids", "max_seq_len")
    broken = [
        f"{train.folder}: has another {name} than {held_out.folder}"
        for name in names
        if getattr(train.manifest, name) != getattr(held_out.manifest, name)
    ]
    said = train.manifest.balance.get("documents")
    kept = train.manifest.num_documents + held_out.manifest.num_documents
    if said and said["out"] != kept:
        broken.append(
            f"{train.folder}: {kept} documents on both sides, {said['out']} kept (law W2)"
        )
    return broken


def _check_lengths(groups: list[dict[str, Proved]]) -> list[str]:
    """What the sets of all lengths must agree on: tokenizer, documents and tokens that came in."""
    broken: list[str] = []
    for sets in groups[1:]:
        for side in sorted(groups[0].keys() | sets.keys()):
            one, other = groups[0].get(side), sets.get(side)
            if one is None or other is None:
                here = one or other
                assert here is not None, "a side comes from one of the two"
                broken.append(f"{here.folder}: is not there for all lengths")
            elif _identity(one) != _identity(other):
                broken.append(
                    f"{other.folder}: other documents or another tokenizer than {one.folder}"
                )
    return broken


def _identity(proved: Proved) -> tuple[object, ...]:
    came = proved.manifest.balance["tokens"]["in"]
    return proved.manifest.tokenizer_hash, proved.documents, came


def _check_origin(output: AnyPath, groups: list[dict[str, Proved]]) -> list[str]:
    """Whether the sets come from the documents and the tokenizer that stand beside them."""
    broken: list[str] = []
    for proved in chain.from_iterable(sets.values() for sets in groups):
        meta = output / "tokenizer" / META_NAME
        made_with = proved.manifest.tokenizer_hash
        if meta.exists() and json.loads(meta.read_bytes())["hash"] != made_with:
            broken.append(f"{proved.folder}: was made with another tokenizer than {meta.parent}")
        documents = output / "documents" / "manifest.json"
        if documents.exists():
            balance = json.loads(documents.read_bytes())["balance"]
            broken += [
                f"{proved.folder}: other {unit} came in than {documents} says"
                for unit, row in balance.items()
                if proved.manifest.balance.get(unit, {}).get("in") != row["in"]
            ]
    return broken
