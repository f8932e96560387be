"""The shard set on disk: tar files of blocks, an index in each, one table and one manifest.

    DIR/manifest.json     what the set is: fingerprint, tokenizer, counts, provenance
    DIR/shards.jsonl      one line of fixed length a shard: name, size, checksum, place of the index
    DIR/unigram.npy       how often each token id occurs, repeated heads not counted (u64)
    DIR/000000.tar ...    WebDataset shards: `blocks_per_shard` blocks, then member `__index__`

Nothing that is held in memory grows with the set: a shard's line and index are read when one of its
blocks is.
"""

import json
import threading
from collections import OrderedDict
from dataclasses import asdict
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from mlmdist.arrays import read_array
from mlmdist.block_cache import BlockCache
from mlmdist.blocks import ROWS_PER_BLOCK, Block
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, open_random
from mlmdist.manifest import LAYOUT_VERSION, Manifest, check_types
from mlmdist.shard import BadBlock, BadShard, Shard, ShardEntry

SHARD_LINE_BYTES = 256
STRETCH_LINES = 256  # of the table, read at once
HELD_STRETCHES = 64
OPEN_SHARDS, OPEN_OBJECTS = 64, 1024  # whose index is held: files, and objects of a store


def table_line(entry: ShardEntry) -> bytes:
    """The shard's line in shards.jsonl, padded with spaces so that line n is at n * length."""
    text = json.dumps(asdict(entry), separators=(",", ":")).encode()
    assert len(text) < SHARD_LINE_BYTES - 1, f"{len(text)} bytes in a line of shards.jsonl"
    return text.ljust(SHARD_LINE_BYTES - 1) + b"\n"


class Table:
    """The lines of a set's `shards.jsonl`, read in stretches, of which the last used are held."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        self.held: OrderedDict[int, bytes] = OrderedDict()
        self.holding = threading.Lock()

    def entry(self, shard: int) -> ShardEntry:
        """The line of shard number `shard`; raises DataError if it cannot be read."""
        stretch, line = divmod(shard, STRETCH_LINES)
        try:
            lines = self._stretch(stretch)
            text = lines[line * SHARD_LINE_BYTES : (line + 1) * SHARD_LINE_BYTES]
            return ShardEntry(**json.loads(text))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{self.path}: line {shard + 1} cannot be read ({error})") from None

    def _stretch(self, number: int) -> bytes:
        with self.holding:
            if number in self.held:
                self.held.move_to_end(number)
                return self.held[number]
        size = STRETCH_LINES * SHARD_LINE_BYTES
        file = open_random(self.path)
        try:
            data = file.read(number * size, size)
        finally:
            file.close()
        with self.holding:
            self.held[number] = data
            if len(self.held) > HELD_STRETCHES:
                self.held.popitem(last=False)
        return data


class ShardSet:
    """A shard set opened for reading; threads may read a remote one side by side."""

    def __init__(
        self, folder: AnyPath, manifest: Manifest, cache: BlockCache | None = None
    ) -> None:
        self.folder, self.manifest = folder, manifest
        self.is_remote = not isinstance(folder, Path)
        self.cache = cache if self.is_remote else None
        self.table = Table(folder / "shards.jsonl")
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
        return self.table.entry(shard)

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
        try:
            return self._shard(shard).read_block(block)
        except BadShard as error:
            raise BadBlock.of(str(error), self.rows_of(number), error.num_rows) from None

    def rows_of(self, number: int) -> int:
        """Windows in block `number`: only the set's last may be short."""
        return min(ROWS_PER_BLOCK, self.manifest.num_windows - number * ROWS_PER_BLOCK)

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
