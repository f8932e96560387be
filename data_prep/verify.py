"""Proof of a shard set by reading all of it back: own reader, plain webdataset, laws of the data.

That the windows of each document join to its tokens (law W1) is shown without a table of documents:
every window but a document's last promises (document, next number, where it stops), every window
but a first claims (document, its number, where its new tokens start). Promises and claims are the
same multiset if and only if the chains are whole; multisets are compared by sums of two independent
64-bit hashes (Clarke et al. 2003, MSet-Add-Hash), which any number of readers can add up.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt64

from data_prep.cluster import Cluster
from data_prep.config import Ray
from data_prep.parts import SIDES, seal_keys
from data_prep.sealing import count_tokens
from mlmdist.blocks import ENDS_ON_SENTENCE, LAST_OF_DOCUMENT, ROWS_PER_BLOCK, Block
from mlmdist.errors import DataError
from mlmdist.files import sha256
from mlmdist.logs import Progress
from mlmdist.rng import absorb_array, hash64
from mlmdist.shards import SHARD_LINE_BYTES, Manifest, Shard, ShardSet, fingerprint
from mlmdist.tokenizer import CLS_ID, MASK_ID, NUM_SPECIAL_POSITIONS, PAD_ID, SEP_ID

log = logging.getLogger(__name__)

NEVER_IN_TEXT = (PAD_ID, CLS_ID, SEP_ID, MASK_ID)  # [UNK] stands for a character of the text
MASK64 = (1 << 64) - 1
FIELD_NAMES = tuple(f.name for f in fields(Block))
INLINE_SHARDS = 3  # so few are read faster than Ray starts


@dataclass
class Findings:
    """What reading one shard, or several, gives; `a + b` is what reading both gives."""

    broken: list[str] = field(default_factory=list)
    windows: int = 0
    tokens: int = 0
    repeated: int = 0
    firsts: int = 0
    lasts: int = 0
    promised: tuple[int, int] = (0, 0)
    claimed: tuple[int, int] = (0, 0)
    unigram: Int64[np.ndarray, "ids"] | int = 0

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(
            self.broken + other.broken,
            *(
                getattr(self, name) + getattr(other, name)
                for name in ("windows", "tokens", "repeated", "firsts", "lasts")
            ),
            promised=_add(self.promised, other.promised),
            claimed=_add(self.claimed, other.claimed),
            unigram=self.unigram + other.unigram,
        )


def verify(folder: Path, ray: Ray) -> list[str]:
    """What is broken in the shard set in `folder`, or in the sets of both sides below it.

    An empty list is the proof. Raises DataError if there is no set.
    """
    sets = [folder / side for side in SIDES if (folder / side).is_dir()] or [folder]
    broken = [finding for found in sets for finding in _verify_set(found, ray)]
    if len(sets) == len(SIDES) and not broken:
        broken += _shared_documents(*sets)
    return broken


def _verify_set(folder: Path, ray: Ray) -> list[str]:
    opened = ShardSet.open(folder)
    manifest = opened.manifest
    broken = _check_table(opened) + _check_manifest(folder, manifest)
    if broken:
        return broken
    tasks = [(folder, number) for number in range(manifest.num_shards)]
    total = Findings()
    with Progress(f"verifying {folder.name}", len(tasks), "shards") as progress:
        for found in _read_all(tasks, ray):
            total += found
            progress.advance(1)
    broken = total.broken or _check_totals(folder, manifest, total)
    if not broken:
        log.info("%s: %d windows, %d tokens: whole", folder, total.windows, total.tokens)
    return broken


def _check_manifest(folder: Path, manifest: Manifest) -> list[str]:
    """Whether the manifest says what the proof needs besides counts."""
    try:
        seed = manifest.provenance["config"]["shards"]["seed"]
        rows = [
            (row["in"], row["out"], *row["dropped"].values()) for row in manifest.balance.values()
        ]
        numbers = [seed, manifest.balance["tokens"]["in"], *chain.from_iterable(rows)]
    except (KeyError, TypeError, AttributeError) as error:
        return [f"{folder}/manifest.json: lacks provenance or balance ({error!r})"]
    wrong = [number for number in numbers if type(number) is not int]
    return [f"{folder}/manifest.json: {wrong[0]!r} is no count"] if wrong else []


def _read_all(tasks: list[tuple[Path, int]], ray: Ray) -> Iterator[Findings]:
    if len(tasks) <= INLINE_SHARDS:
        yield from (check_shard(*task) for task in tasks)
        return
    with Cluster(ray) as cluster:
        for _, found in cluster.run(check_shard, tasks):
            yield found


def _check_table(opened: ShardSet) -> list[str]:
    """Whether the table has a line a shard and gives the fingerprint the manifest names."""
    manifest = opened.manifest
    path = opened.folder / "shards.jsonl"
    expected = manifest.num_shards * SHARD_LINE_BYTES
    if not path.is_file() or path.stat().st_size != expected:
        return [
            f"{path}: must be {expected} bytes, a line for each of {manifest.num_shards} shards"
        ]
    try:
        checksums = [opened.entry(number).sha256 for number in range(manifest.num_shards)]
    except DataError as error:
        return [str(error)]
    names = ("blocks", "windows", "tokens", "repeated", "documents", "shards")
    counts = {name: getattr(manifest, f"num_{name}") for name in names}
    if fingerprint(manifest.tokenizer_hash, counts, checksums) != manifest.content_fingerprint:
        return [f"{opened.folder}: manifest and table do not give the fingerprint it names"]
    return []


def check_shard(folder: Path, number: int) -> Findings:
    """Read one shard in both ways and check each block of it against the laws."""
    opened = ShardSet.open(folder)
    found = Findings()
    try:
        entry = opened.entry(number)
        path = folder / entry.name
        shard = Shard(path, entry)
    except DataError as error:
        return Findings(broken=[str(error)])
    if sha256(path) != entry.sha256:
        found.broken.append(f"{path}: its SHA-256 is not the one in the table")
    before: UInt64[np.ndarray, 3] | None = None
    for index, block_entry in enumerate(shard.index):
        where = f"{path}, block {block_entry.key}"
        try:
            block = shard.read_block(index)
        except DataError as error:
            found.broken.append(str(error))
            continue
        found += _check_block(block, opened.manifest, where)
        found.broken += _check_place(opened.manifest, number, index, block_entry.key, block, where)
        order, before = _check_order(block, opened.manifest, before, where)
        found.broken += order
    if not found.broken:
        found.broken += _check_plain_reading(path, shard)
    shard.close()
    return found


def _check_block(block: Block, manifest: Manifest, where: str) -> Findings:
    start = block.token_offset.astype(np.int64)
    lengths = np.diff(block.window_ptr.astype(np.int64))
    last = (block.flags & LAST_OF_DOCUMENT) > 0
    first = block.window_number == 0
    new = start + block.repeated
    rules = {
        "a window is empty or too long": (lengths < 1)
        | (lengths > manifest.max_seq_len - NUM_SPECIAL_POSITIONS),
        "a repeated head leaves nothing new": block.repeated >= lengths,
        "a document's first window does not start at its start": first & (new != 0),
        "a document's last window ends inside a sentence": last
        & ((block.flags & ENDS_ON_SENTENCE) == 0),
    }
    broken = [
        f"{where}, window {int(np.flatnonzero(bad)[0])}: {rule}"
        for rule, bad in rules.items()
        if bad.any()
    ]
    broken += _check_tokens(block, manifest, where) + _check_sentences(block, lengths, where)
    next_number = block.window_number[~last].astype(np.uint64) + np.uint64(1)
    stop = (start + lengths)[~last]
    return Findings(
        broken,
        windows=block.num_rows,
        tokens=len(block.tokens),
        repeated=int(block.repeated.sum()),
        firsts=int(first.sum()),
        lasts=int(last.sum()),
        promised=_multiset_hash(block.document_id[~last], next_number, stop),
        claimed=_multiset_hash(
            block.document_id[~first], block.window_number[~first].astype(np.uint64), new[~first]
        ),
        unigram=count_tokens(block, manifest.vocab_size) if not broken else 0,
    )


def _check_tokens(block: Block, manifest: Manifest, where: str) -> list[str]:
    wrong = np.isin(block.tokens, NEVER_IN_TEXT) | (block.tokens >= manifest.vocab_size)
    if not wrong.any():
        return []
    place = int(np.flatnonzero(wrong)[0])
    return [f"{where}, token {place}: id {block.tokens[place]} cannot come from text"]


def _check_sentences(block: Block, lengths: Int64[np.ndarray, "rows"], where: str) -> list[str]:
    """Sentence starts ascend inside each window, from 0 to under its length."""
    ptr = block.sentence_ptr.astype(np.int64)
    if (np.diff(ptr) < 1).any() or ptr[-1] != len(block.sentence_start):
        return [f"{where}: a window has no sentence start"]
    starts = block.sentence_start.astype(np.int64)
    ascends = np.diff(starts) > 0
    ascends[ptr[1:-1] - 1] = True  # from one window to the next
    inside = starts < np.repeat(lengths, np.diff(ptr))
    if (starts[ptr[:-1]] != 0).any() or not ascends.all() or not inside.all():
        return [f"{where}: sentence starts do not ascend from 0 inside a window"]
    return []


def _check_place(
    manifest: Manifest, shard: int, index: int, key: str, block: Block, where: str
) -> list[str]:
    number = shard * manifest.blocks_per_shard + index
    short = manifest.num_windows - number * ROWS_PER_BLOCK
    if int(key) != number or block.num_rows != min(ROWS_PER_BLOCK, short):
        return [f"{where}: must be block {number} with {min(ROWS_PER_BLOCK, short)} windows"]
    return []


def _check_order(
    block: Block, manifest: Manifest, before: UInt64[np.ndarray, "3"] | None, where: str
) -> tuple[list[str], UInt64[np.ndarray, "3"]]:
    """Windows ascend strictly by (seal key, document, number): so none is there twice."""
    seed = manifest.provenance["config"]["shards"]["seed"]
    keys = seal_keys(block, seed)
    rows = np.stack([keys, block.document_id, block.window_number.astype(np.uint64)], axis=1)
    chained = rows if before is None else np.concatenate([before[None], rows])
    for upper, lower in zip(chained[:-1].tolist(), chained[1:].tolist(), strict=True):
        if upper >= lower:
            reason = "is there twice" if upper == lower else "is out of order"
            return [f"{where}: window {lower[2]} of document {lower[1]} {reason}"], rows[-1]
    return [], rows[-1]


def _check_plain_reading(path: Path, shard: Shard) -> list[str]:
    """Whether plain webdataset, told nothing of our index, reads the same blocks."""
    from mlmdist.data.streaming import stream_blocks  # imports torch: only here

    number = 0
    try:
        for key, streamed in stream_blocks([path]):
            if number == len(shard.index) or key != shard.index[number].key:
                return [f"{path}: plain webdataset reads a block {key} that is not in the index"]
            block = shard.read_block(number)
            for name in FIELD_NAMES:
                if not np.array_equal(getattr(block, name), getattr(streamed, name)):
                    return [f"{path}, block {key}: plain webdataset reads another {name}"]
            number += 1
    except DataError as error:
        return [str(error)]
    if number != len(shard.index):
        return [f"{path}: plain webdataset reads {number} of {len(shard.index)} blocks"]
    return []


def _check_totals(folder: Path, manifest: Manifest, total: Findings) -> list[str]:
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
    if total.tokens - total.repeated != manifest.balance["tokens"]["in"]:
        broken.append(f"{folder}: tokens in + repeated are not tokens out (law W2)")
    broken += _check_balance(folder, manifest)
    try:
        if not np.array_equal(ShardSet.open(folder).read_unigram(), total.unigram):
            broken.append(f"{folder}/unigram.npy: does not count the tokens of the set")
    except DataError as error:
        broken.append(str(error))
    return broken


def _check_balance(folder: Path, manifest: Manifest) -> list[str]:
    """Law W2 over what the manifest itself says."""
    broken: list[str] = []
    for unit, row in manifest.balance.items():
        came = row["in"] + row.get("repeated", 0)
        if came != row["out"] + sum(row["dropped"].values()):
            broken.append(f"{folder}: {unit}: in is not out + dropped (law W2): {json.dumps(row)}")
    return broken


def _shared_documents(train: Path, held_out: Path) -> list[str]:
    """Documents on both sides (law E1). Holds the held-out ids, 8 bytes each, in memory."""
    kept_apart = np.sort(np.concatenate(list(_first_windows(held_out))))
    for ids in _first_windows(train):
        both = ids[np.isin(ids, kept_apart)]
        if both.size:
            return [f"{train}: document {both[0]} is held out too (law E1)"]
    return []


def _first_windows(folder: Path) -> Iterator[UInt64[np.ndarray, "documents"]]:
    opened = ShardSet.open(folder)
    for number in range(opened.manifest.num_blocks):
        block = opened.read_block(number)
        yield block.document_id[block.window_number == 0]
    opened.close()


def _multiset_hash(
    document: UInt64[np.ndarray, "rows"],
    number: UInt64[np.ndarray, "rows"],
    place: Int64[np.ndarray, "rows"],
) -> tuple[int, int]:
    sums = []
    for purpose in ("verify.first", "verify.second"):
        state = absorb_array(absorb_array(hash64(purpose), document), number)
        sums.append(int(absorb_array(state, place.astype(np.uint64)).sum()))
    return sums[0], sums[1]


def _add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return (one[0] + other[0]) & MASK64, (one[1] + other[1]) & MASK64
