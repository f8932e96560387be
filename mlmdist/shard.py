"""One shard: a tar of blocks with an index at its end, written whole and read block by block.

A block is read by one positioned read, and its CRC is checked on the bytes served: a memory map
would die by SIGBUS when the file is cut under it.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import google_crc32c

from mlmdist.block_cache import INDEX_KEY, BlockCache, CachedBlock
from mlmdist.blocks import Block, broken_member, decode, encode, tar_member
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, RandomFile, atomic_writer, open_random

INDEX_NAME = INDEX_KEY
TRAILER = bytes(1024)  # two empty records end a tar
READINGS = 2  # of a block or index before it counts as bad: its way from a store may have harmed it


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


class BadShard(DataError):
    """A shard that is missing, cut or without a good index: none of its blocks can be had."""

    num_rows = 0
    """Of all its blocks."""


class BadBlock(DataError):
    """A block that is wrong in its shard, or whose shard is wrong."""

    num_rows = 0
    """Of the block."""

    num_named = 0
    """Rows that are lost with what the error names: the block's, or the whole shard's."""

    @classmethod
    def of(cls, text: str, num_rows: int, num_named: int) -> "BadBlock":
        """The error that says `text`."""
        error = cls(text)
        error.num_rows, error.num_named = num_rows, num_named
        return error


class Shard:
    """An open shard: size, trailer and index are checked; blocks are read by number.

    With a cache, blocks and index come through it, and the shard itself is opened when it lacks
    one.
    """

    def __init__(self, path: AnyPath, entry: ShardEntry, cache: BlockCache | None = None) -> None:
        """Open `path`; raises BadShard if it is missing or not what `entry` describes."""
        self.path, self.entry, self.cache = path, entry, cache
        self.file: RandomFile | None = None
        try:
            self.index = [BlockEntry(**row) for row in json.loads(self._index_bytes())]
        except BaseException:
            self.close()
            raise

    def _index_bytes(self) -> bytes:
        entry = self.entry
        if self.cache is None:
            return self._read_index()
        kept = CachedBlock(entry.sha256, INDEX_KEY, entry.index_bytes, entry.index_crc32c)
        return self.cache.read(kept, self._read_index)

    def _read_index(self) -> bytes:
        """The index's bytes out of the shard, checked, as are its size and its trailer."""
        entry, size = self.entry, self._opened().size
        if size != entry.bytes:
            raise self._bad(f"{size} bytes; the set's table says {entry.bytes}")
        tail = b""
        for _ in range(READINGS):
            # Index, the zeros that fill its record, trailer: one request where the file is remote.
            tail = self._opened().read(entry.index_offset, size - entry.index_offset)
            data = tail[: entry.index_bytes]
            if tail.endswith(TRAILER) and google_crc32c.value(data) == entry.index_crc32c:
                return data
        if not tail.endswith(TRAILER):
            raise self._bad(f"no tar trailer at byte {size - len(TRAILER)}")
        raise self._bad(f"the index at byte {entry.index_offset} does not match its CRC")

    def _bad(self, reason: str) -> BadShard:
        error = BadShard(f"{self.path}: {reason}")
        error.num_rows = self.entry.windows
        return error

    def _opened(self) -> RandomFile:
        if self.file is None:
            try:
                self.file = open_random(self.path)
            except OSError as error:
                reason = f"cannot be opened ({error.strerror or error})"
                whole = f"{reason}; make the shard set again or copy it whole"
                if isinstance(error, FileNotFoundError):
                    raise self._bad(whole) from None
                raise DataError(f"{self.path}: {whole}") from None
        return self.file

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
        file, problem = self._opened(), ""
        for _ in range(READINGS):
            try:
                data = file.read(entry.offset, entry.bytes)
            except FileNotFoundError as error:  # an object that is gone
                problem = f": cannot be read ({error.strerror or error})"
                continue
            except OSError as error:
                reason = f"cannot be read ({error.strerror or error})"
                raise DataError(f"{self._where(entry)}: {reason}") from None
            problem = self._problem(entry, data)
            if not problem:
                return data
        raise BadBlock.of(f"{self._where(entry)}{problem}", entry.rows, entry.rows)

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
        return CachedBlock(self.entry.sha256, entry.key, entry.bytes, entry.crc32c)

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()
            self.file = None
