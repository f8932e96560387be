"""The shard set on disk: tar files of blocks, an index in each, one table and one manifest.

    DIR/manifest.json     what the set is: fingerprint, tokenizer, counts, provenance
    DIR/shards.jsonl      one line of fixed length a shard: name, size, checksum, place of the index
    DIR/unigram.npy       how often each token id occurs, repeated heads not counted (u64)
    DIR/000000.tar ...    WebDataset shards: `blocks_per_shard` blocks, then member `__index__`

Nothing that is held in memory grows with the set: a shard's line and index are read when one of its
blocks is. A block is read by one positioned read, and its CRC is checked on the bytes served: a
memory map would die by SIGBUS when the file is cut under it.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import google_crc32c
import numpy as np
from jaxtyping import Int64

from mlmdist.arrays import read_array
from mlmdist.block_cache import BlockCache, CachedBlock
from mlmdist.blocks import Block, broken_member, decode, encode, tar_member
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, atomic_writer, open_random
from mlmdist.manifest import LAYOUT_VERSION, Manifest, check_types

SHARD_LINE_BYTES = 256
INDEX_NAME = "__index__"
TRAILER = bytes(1024)  # two empty records end a tar
OPEN_SHARDS, OPEN_OBJECTS = 64, 1024  # whose index is held: files, and objects of a store
READINGS = 2  # of a block before it counts as bad: the way from a store may have damaged it


@dataclass(frozen=True)
class ShardEntry:
    """A shard's line in shards.jsonl."""

    name: str
    bytes: int
    sha256: str
    index_offset: int
    index_bytes: int
    index_crc32c: int
    blocks: int
    windows: int
    tokens: int


@dataclass(frozen=True)
class BlockEntry:
    """A block's place in its shard."""

    key: str
    offset: int
    bytes: int
    crc32c: int
    rows: int
    tokens: int


def write_shard(path: AnyPath, blocks: Iterable[tuple[str, Block]]) -> ShardEntry:
    """Write (key, block) pairs as a shard that is there whole or not at all; its table line."""
    entries: list[BlockEntry] = []
    digest = hashlib.sha256()
    place = 0
    with atomic_writer(path) as file:
        for key, block in blocks:
            data = encode(block, key)
            entries.append(
                BlockEntry(
                    key,
                    place,
                    len(data),
                    google_crc32c.value(data),
                    block.num_rows,
                    len(block.tokens),
                )
            )
            file.write(data)
            digest.update(data)
            place += len(data)
        index = json.dumps([asdict(entry) for entry in entries], separators=(",", ":")).encode()
        tail = tar_member(INDEX_NAME, index) + TRAILER
        file.write(tail)
        digest.update(tail)
    return ShardEntry(
        name=path.name,
        bytes=place + len(tail),
        sha256=digest.hexdigest(),
        index_offset=place + len(tar_member(INDEX_NAME, b"")),
        index_bytes=len(index),
        index_crc32c=google_crc32c.value(index),
        blocks=len(entries),
        windows=sum(entry.rows for entry in entries),
        tokens=sum(entry.tokens for entry in entries),
    )


def table_line(entry: ShardEntry) -> bytes:
    """The shard's line in shards.jsonl, padded with spaces so that line n is at n * length."""
    text = json.dumps(asdict(entry), separators=(",", ":")).encode()
    assert len(text) < SHARD_LINE_BYTES - 1, f"{len(text)} bytes in a line of shards.jsonl"
    return text.ljust(SHARD_LINE_BYTES - 1) + b"\n"


class BadBlock(DataError):
    """A block that is wrong in its shard, of `num_rows` rows that cannot be had."""

    num_rows = 0


class Shard:
    """An open shard: size, trailer and index are checked; blocks are read by number."""

    def __init__(self, path: AnyPath, entry: ShardEntry, cache: BlockCache | None = None) -> None:
        """Open `path`; raises DataError if it is missing or not what `entry` describes."""
        self.path, self.sha256, self.cache = path, entry.sha256, cache
        try:
            self.file = open_random(path)
        except OSError as error:
            raise DataError(
                f"{path}: cannot be opened ({error.strerror or error}); "
                "make the shard set again or copy it whole"
            ) from None
        try:
            self.index = self._checked_index(entry)
        except BaseException:
            self.close()
            raise

    def _checked_index(self, entry: ShardEntry) -> list[BlockEntry]:
        size = self.file.size
        if size != entry.bytes:
            raise DataError(f"{self.path}: {size} bytes; the set's table says {entry.bytes}")
        # Index, the zeros that fill its record, trailer: one request where the file is remote.
        tail = self.file.read(entry.index_offset, size - entry.index_offset)
        if not tail.endswith(TRAILER):
            raise DataError(f"{self.path}: no tar trailer at byte {size - len(TRAILER)}")
        data = tail[: entry.index_bytes]
        if google_crc32c.value(data) != entry.index_crc32c:
            raise DataError(
                f"{self.path}: the index at byte {entry.index_offset} does not match its CRC"
            )
        return [BlockEntry(**row) for row in json.loads(data)]

    def read_block(self, number: int) -> Block:
        """Block `number` of this shard; raises BadBlock naming the field and byte if damaged."""
        entry = self.index[number]
        if self.cache is None:
            data = self._read(entry)
        else:
            data = self.cache.read(self._cached(entry), lambda: self._read(entry))
        return decode(data, self._where(entry))

    def fetch_ahead(self, number: int) -> None:
        """Have the cache hold block `number`, if there is one; raises what `read_block` does."""
        entry = self.index[number]
        if self.cache is not None:
            self.cache.fetch_ahead(self._cached(entry), lambda: self._read(entry))

    def _read(self, entry: BlockEntry) -> bytes:
        """A block's bytes out of the shard, checked."""
        problem = ""
        for _ in range(READINGS):
            try:
                data = self.file.read(entry.offset, entry.bytes)
            except OSError as error:
                reason = f"cannot be read ({error.strerror or error})"
                raise DataError(f"{self._where(entry)}: {reason}") from None
            problem = self._problem(entry, data)
            if not problem:
                return data
        error = BadBlock(f"{self._where(entry)}{problem}")
        error.num_rows = entry.rows
        raise error

    def _problem(self, entry: BlockEntry, data: bytes) -> str:
        """What is wrong with the bytes of a block, behind its name; empty if nothing is."""
        if len(data) != entry.bytes:
            return f": only {len(data)} of {entry.bytes} bytes are there"
        if google_crc32c.value(data) == entry.crc32c:
            return ""
        return f" does not match its CRC: {broken_member(data, self._where(entry))}"

    def _where(self, entry: BlockEntry) -> str:
        return f"{self.path}: block {entry.key} at byte {entry.offset}"

    def _cached(self, entry: BlockEntry) -> CachedBlock:
        return CachedBlock(self.sha256, entry.key, entry.bytes, entry.crc32c)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class ShardSet:
    """A shard set opened for reading; threads may read a remote one side by side."""

    def __init__(
        self, folder: AnyPath, manifest: Manifest, cache: BlockCache | None = None
    ) -> None:
        self.folder, self.manifest = folder, manifest
        self.is_remote = not isinstance(folder, Path)
        self.cache = cache if self.is_remote else None
        self.opened: OrderedDict[int, Shard] = OrderedDict()  # shard number -> shard, oldest first
        self.opening = threading.Lock()

    @classmethod
    def open(cls, folder: AnyPath, cache: BlockCache | None = None) -> "ShardSet":
        """The set in `folder`; raises DataError if there is none or its layout is unknown.

        Blocks of a remote one go through `cache`.
        """
        path = folder / "manifest.json"
        if not path.is_file():
            raise DataError(
                f"{folder}: no manifest.json, so no finished shard set; "
                "`python -m data_prep shards --config F` writes one"
            )
        try:
            values = json.loads(path.read_bytes())
            version = values["layout_version"]
            if version != LAYOUT_VERSION:
                raise DataError(
                    f"{path}: layout version {version}; this program reads {LAYOUT_VERSION}: "
                    "make the shards again, or use the release that wrote them"
                )
            manifest = Manifest(**values)
            check_types(manifest)
            return cls(folder, manifest, cache)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not a shard set's manifest ({error})") from None

    def entry(self, shard: int) -> ShardEntry:
        """The table line of shard number `shard`."""
        path = self.folder / "shards.jsonl"
        try:
            table = open_random(path)
            try:
                line = table.read(shard * SHARD_LINE_BYTES, SHARD_LINE_BYTES)
            finally:
                table.close()
            return ShardEntry(**json.loads(line))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{path}: line {shard + 1} cannot be read ({error})") from None

    def read_unigram(self) -> Int64[np.ndarray, "ids"]:
        """How often each id occurs in the set, repeated heads not counted; DataError if damaged."""
        path = self.folder / "unigram.npy"
        try:
            counts = read_array(path).astype(np.int64)
        except (OSError, ValueError, EOFError) as error:
            reason = f"cannot be read ({error})"
            raise DataError(f"{path}: {reason}; make the shards again") from None
        if counts.shape != (self.manifest.vocab_size,):
            raise DataError(
                f"{path}: counts {counts.shape} ids, the set has {self.manifest.vocab_size}; "
                "make the shards again"
            )
        return counts

    def read_block(self, number: int) -> Block:
        """Block `number` of the set, checked; raises BadBlock naming shard, block and byte."""
        shard, block = divmod(number, self.manifest.blocks_per_shard)
        return self._shard(shard).read_block(block)

    def fetch_ahead(self, number: int) -> None:
        """Have the cache of a remote set hold block `number`; raises what `read_block` does."""
        if self.cache is not None:
            shard, block = divmod(number, self.manifest.blocks_per_shard)
            self._shard(shard).fetch_ahead(block)

    def _shard(self, number: int) -> Shard:
        with self.opening:
            if number in self.opened:
                self.opened.move_to_end(number)
                return self.opened[number]
        entry = self.entry(number)
        return self._hold(number, Shard(self.folder / entry.name, entry, self.cache))

    def _hold(self, number: int, shard: Shard) -> Shard:
        """Keep a shard open among the last used, or the one that a thread has opened meanwhile."""
        with self.opening:
            held = self.opened.setdefault(number, shard)
            if len(self.opened) > (OPEN_OBJECTS if self.is_remote else OPEN_SHARDS):
                self.opened.popitem(last=False)[1].close()
        if held is not shard:
            shard.close()
        return held

    def close(self) -> None:
        """Close every open shard."""
        while self.opened:
            self.opened.popitem()[1].close()
