"""A part: what one task makes of one file of documents, windows laid in buckets of the seal key.

The seal key puts the windows of a set in an order that no worker count or completion order can
change: a hash of (seed, document, window number). A part is a tar a set, of one block a bucket, so
that sealing a stretch of the order reads just its buckets from every part.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from jaxtyping import UInt64

from data_prep.config import Prep
from data_prep.documents import ORDINAL_BITS, Document, held_out_side, read_documents
from data_prep.encoding import Encoder, Tokens
from data_prep.progress import tell
from data_prep.quarantine import QUARANTINED
from mlmdist.blocks import Block, concatenate, take
from mlmdist.errors import ConfigError
from mlmdist.files import AnyPath, write_json
from mlmdist.rng import absorb_array, hash64
from mlmdist.shard import ShardEntry, write_shard
from mlmdist.tokenizer import load_tokenizer

BATCH_CHARS = 2_000_000
SIDES = ("train", "held_out")
EMPTY = "no token"
MAX_LISTED = 1000
MAX_REASON_CHARACTERS = 300

Record = tuple[int, Document]
"""A document and its place in its file, from 0."""


def seal_keys(block: Block, seed: int) -> UInt64[np.ndarray, "rows"]:
    """The 64-bit number by which the windows of a set are sorted."""
    document = absorb_array(hash64("seal", seed), block.document_id)
    return absorb_array(document, block.window_number.astype(np.uint64))


def buckets_of(block: Block, seed: int, num_buckets: int) -> UInt64[np.ndarray, "rows"]:
    """The bucket of each window: the top bits of its key; `num_buckets` is a power of two."""
    bits = num_buckets.bit_length() - 1
    keys = seal_keys(block, seed)
    return keys >> np.uint64(64 - bits) if bits else np.zeros_like(keys)


@dataclass
class Part:
    """What a file of documents has given so far."""

    encoder: Encoder
    config: Prep
    source: str
    blocks: dict[tuple[int, str], list[Block]] = field(default_factory=dict)
    counts: Counter[tuple[object, ...]] = field(default_factory=Counter)
    """By (side, what) of the documents, by (length, side, what) of the windows."""

    quarantined: list[dict[str, Any]] = field(default_factory=list)

    def add(self, records: Sequence[Record]) -> None:
        """Encode and cut documents of one side; one that raises is left out, with its reason."""
        try:
            documents = [document for _, document in records]
            encoded = self.encoder.tokens(documents)
            lengths = self.config.windows.lengths
            made = [self.encoder.windows_of(encoded, length) for length in lengths]
        except (ConfigError, OSError, MemoryError):
            raise  # no document is to blame
        except Exception as error:
            self._without_the_culprit(records, error)
            return
        self._count(side_of(documents[0], self.config), encoded, made)
        tell(
            chars=int(encoded.characters.sum()),
            tokens=len(encoded.tokens),
            documents=len(documents),
        )

    def _without_the_culprit(self, records: Sequence[Record], error: Exception) -> None:
        """Halve what raised until the one document that does is found."""
        if len(records) == 1:
            self.quarantine(records[0], f"{type(error).__name__}: {error}")
            return
        self.add(records[: len(records) // 2])
        self.add(records[len(records) // 2 :])

    def _count(self, side: str, encoded: Tokens, made: Iterable[tuple[Block, int]]) -> None:
        some = np.diff(encoded.text.bounds) > 0
        self.counts[side, "documents"] += int(some.sum())
        self.counts[side, "characters"] += int(encoded.characters[some].sum())
        self.counts[side, "tokens_in"] += len(encoded.tokens)
        self.counts["disagreements",] += encoded.disagreements
        if not some.all():
            self._drop(EMPTY, int((~some).sum()), int(encoded.characters[~some].sum()))
        for length, (block, left_out) in zip(self.config.windows.lengths, made, strict=True):
            if block.num_rows:
                self.blocks.setdefault((length, side), []).append(block)
            self.counts[length, side, "tokens"] += len(block.tokens)
            self.counts[length, side, "repeated"] += int(block.repeated.sum())
            self.counts[length, side, "left_out"] += left_out

    def quarantine(self, record: Record, reason: str | None = None) -> None:
        """Leave a document out; it is listed here if there is a reason that is known here."""
        number, document = record
        self._drop(QUARANTINED, 1, document.num_characters)
        if reason and len(self.quarantined) < MAX_LISTED:
            described = {
                "source": self.source,
                "record": number,
                "place": document.id & ((1 << ORDINAL_BITS) - 1),
                "id": document.id,
                "stage": "encode",
                "reason": " ".join(reason.split())[:MAX_REASON_CHARACTERS],
            }
            self.quarantined.append(described)

    def _drop(self, reason: str, documents: int, characters: int) -> None:
        self.counts["dropped", "documents", reason] += documents
        self.counts["dropped", "characters", reason] += characters
        tell(dropped={reason: documents})

    def report(self) -> dict[str, Any]:
        """The counts as JSON values."""
        dropped: dict[str, dict[str, int]] = {"documents": {}, "characters": {}}
        for (kind, *names), number in sorted(self.counts.items(), key=str):
            if kind == "dropped":
                unit, reason = map(str, names)
                dropped[unit][reason] = number
        names = ("documents", "characters", "tokens_in")
        return {
            "sides": {side: {n: self.counts[side, n] for n in names} for side in SIDES},
            "dropped": dropped,
            QUARANTINED: self.quarantined,
            "num_quarantined": dropped["documents"].get(QUARANTINED, 0),
            "disagreements": self.counts["disagreements",],
        }


def write_part(
    documents: AnyPath,
    tokenizer: AnyPath,
    config: Prep,
    num_buckets: int,
    target: AnyPath,
    *,
    only: range | None = None,
    skip: frozenset[int] = frozenset(),
) -> dict[str, Any] | int:
    """Encode a file of documents; write the part's tars and, last, its report, which it returns.

    The report says for each length and side the tar's entry and the windows of each bucket, and
    what became of the documents. With `only` nothing is written and the number of those records
    that are there comes back. The memory grows with the file, about 10 bytes a token.
    """
    encoder = Encoder.of(load_tokenizer(tokenizer), config)
    part = Part(encoder, config, documents.name)
    seen = 0
    for batch in _batches(_records(documents, only)):
        seen += len(batch)
        for record in batch:
            if record[0] in skip:
                part.quarantine(record)
        kept = [record for record in batch if record[0] not in skip]
        for side in SIDES:
            chosen = [record for record in kept if side_of(record[1], config) == side]
            if chosen:
                part.add(chosen)
    if only is not None:
        return seen
    report = part.report() | {"lengths": {}}
    for length in config.windows.lengths:
        report["lengths"][str(length)] = {
            side: _write_side(part, length, side, num_buckets, target) for side in SIDES
        }
    write_json(report_path(target), report)
    return report


def side_path(part: AnyPath, length: int, side: str) -> AnyPath:
    """The tar of one side and window length of a part."""
    return part.with_name(f"{part.name}.{length}.{side}.tar")


def report_path(part: AnyPath) -> AnyPath:
    """What says that a part is whole, and what is in it."""
    return part.with_name(f"{part.name}.json")


def read_report(part: AnyPath) -> dict[str, Any]:
    """The report of a part that is there."""
    return json.loads(report_path(part).read_bytes())


def side_of(document: Document, config: Prep) -> str:
    """The side of the held-out split on which a document falls."""
    held_out = held_out_side(document.group, config.held_out.share, config.held_out.seed)
    return "held_out" if held_out else "train"


def _records(documents: AnyPath, only: range | None) -> Iterator[Record]:
    for number, document in enumerate(read_documents(documents)):
        if only is None or number in only:
            yield number, document
        elif number >= only.stop:
            return


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Documents in runs of about BATCH_CHARS characters, so that lists of ids stay small."""
    batch: list[Record] = []
    chars = 0
    for record in records:
        batch.append(record)
        chars += record[1].num_characters
        if chars >= BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def _write_side(
    part: Part, length: int, side: str, num_buckets: int, target: AnyPath
) -> dict[str, Any]:
    """Write one side's windows by bucket; its tar's entry, counts, and windows of each bucket."""
    made = part.blocks.pop((length, side), [])
    names = ("tokens", "repeated", "left_out")
    counts: dict[str, Any] = {name: part.counts[length, side, name] for name in names}
    if not made:
        return counts | {"entry": None, "buckets": {}}
    block = concatenate(made)
    made.clear()
    buckets = buckets_of(block, part.config.shards.seed, num_buckets)
    order = np.argsort(buckets, kind="stable")
    present, first, sizes = np.unique(buckets[order], return_index=True, return_counts=True)
    runs = zip(present.tolist(), first.tolist(), sizes.tolist(), strict=True)
    entry = write_shard(
        side_path(target, length, side),
        ((f"{b:06d}", take(block, order[low : low + size])) for b, low, size in runs),
    )
    rows = {f"{bucket:06d}": int(size) for bucket, size in zip(present, sizes, strict=True)}
    return counts | {"entry": asdict(entry), "buckets": rows}


def part_entry(report: dict[str, Any], length: int, side: str) -> ShardEntry | None:
    """The tar entry of a length and side in a part's report; None if it has no such window."""
    entry = report["lengths"][str(length)][side]["entry"]
    return ShardEntry(**entry) if entry else None
