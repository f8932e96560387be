"""Windows out of a shard set: blocks are read whole, checked, and kept while they are in use.

A bounded number of blocks is held, so memory does not grow with the set (law S3); each time a block
is read again its checksum is checked again on the bytes served (law S2). Where many rows of few
blocks are wanted, as in the usual order, those stand end to end in one more copy: then all rows are
gathered at once.
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int64, UInt8, UInt64

from mlmdist.blocks import ROWS_PER_BLOCK, Block, concatenate, take
from mlmdist.data.runs import pointers
from mlmdist.data.stand_in import StandIn
from mlmdist.errors import DataError
from mlmdist.shard import BadBlock
from mlmdist.shards import ShardSet

log = logging.getLogger(__name__)

EPOCH_BITS = BLOCK_BITS = 48
JOINED_SHARE = 16  # rows of the blocks for each that is wanted, at most, for it to pay to join them


@dataclass(frozen=True)
class Windows:
    """Windows end to end, in the order asked for; `total` counts tokens, `starts` sentences."""

    tokens: Int64[np.ndarray, "total"]
    ptr: Int64[np.ndarray, "windows_plus_1"]
    """Window w's tokens are `tokens[ptr[w]:ptr[w + 1]]`."""

    word_start: Bool[np.ndarray, "total"]
    sentence_start: Int64[np.ndarray, "starts"]
    """Offsets inside the window; a window's first is 0."""

    sentence_ptr: Int64[np.ndarray, "windows_plus_1"]
    repeated: Int64[np.ndarray, "windows"]
    """Tokens at the head that the window before holds too: context, never a target."""

    document_id: UInt64[np.ndarray, "windows"]
    window_number: UInt64[np.ndarray, "windows"]
    corpus: UInt64[np.ndarray, "windows"]
    epoch: UInt64[np.ndarray, "windows"]
    """Epoch of the window's corpus in which it is read."""

    tag: UInt8[np.ndarray, "total"] | None = None
    """A tag a token; None where no block has tags, 0 where this one has none."""

    def keys(self, *, static: bool = False) -> UInt64[np.ndarray, "windows"]:
        """(corpus, epoch) as one number, the epoch itself in corpus 0; `static` reads epoch 0."""
        return self.corpus << np.uint64(EPOCH_BITS) | self.epoch * np.uint64(not static)

    @property
    def lengths(self) -> Int64[np.ndarray, "windows"]:
        """Tokens of each window."""
        return np.diff(self.ptr)

    @property
    def num_sentences(self) -> Int64[np.ndarray, "windows"]:
        """Sentences, whole or cut, of each window."""
        return np.diff(self.sentence_ptr)


class Reader:
    """Reads windows of several shard sets, the corpora, holding at most `capacity` blocks."""

    def __init__(
        self, shard_sets: tuple[ShardSet, ...], capacity: int, stand_in: StandIn | None = None
    ) -> None:
        """With `stand_in`, what is bad in its shard is replaced and named once."""
        self.shard_sets, self.capacity, self.stand_in = shard_sets, capacity, stand_in
        self.held: OrderedDict[tuple[int, int], Block] = OrderedDict()
        self.left_out: dict[tuple[int, int], int] = {}  # rows of the bad blocks met so far
        self.named: set[str] = set()
        self.joined_keys: tuple[tuple[int, int], ...] = ()
        self.joined: Block

    def block(self, corpus: int, number: int) -> Block:
        """Block `number` of a corpus; raises DataError naming shard, field and byte if damaged."""
        key = (corpus, number)
        if key in self.held:
            self.held.move_to_end(key)
            return self.held[key]
        while len(self.held) >= self.capacity:
            self.held.popitem(last=False)
        block = self.held[key] = self._read(key)
        return block

    def _read(self, key: tuple[int, int]) -> Block:
        corpus, number = key
        try:
            return self.shard_sets[corpus].read_block(number)
        except BadBlock as error:
            if self.stand_in is None:
                raise DataError(
                    f"{error}; mend that shard, or data.bad_blocks=skip leaves its "
                    f"{error.num_named} rows out"
                ) from None
            if key not in self.left_out:
                self._leave_out(key, error)
                self._refuse_too_many(corpus, self.stand_in.most)
            return self.stand_in.block(error.num_rows)

    def _leave_out(self, key: tuple[int, int], error: BadBlock) -> None:
        """Note a bad block, and name it; a bad shard, bad in all its blocks, is named once."""
        self.left_out[key] = error.num_rows
        if str(error) not in self.named:
            self.named.add(str(error))
            log.warning("%s; its %d rows are left out", error, error.num_named)

    def _refuse_too_many(self, corpus: int, most: float) -> None:
        """Raise DataError if more than the share `most` of a set's windows is left out."""
        found = [rows for (one, _), rows in self.left_out.items() if one == corpus]
        shards = self.shard_sets[corpus]
        share = sum(found) / shards.manifest.num_windows
        if share > most:
            raise DataError(
                f"{shards.folder}: {len(found)} bad blocks hold {sum(found)} of its "
                f"{shards.manifest.num_windows} windows, {share:.2%}; data.bad_blocks_share={most} "
                f"lets {most:.2%} be left out: copy the shards that are named above again, or "
                "raise it"
            )

    def windows(
        self,
        corpus: Int64[np.ndarray, "n"],
        blocks: Int64[np.ndarray, "n"],
        rows: Int64[np.ndarray, "n"],
        epoch: Int64[np.ndarray, "n"],
    ) -> Windows:
        """Row `rows[i]` of block `blocks[i]` of corpus `corpus[i]`, for every i, in that order.

        Each block in question is read at most once, however few are held.
        """
        packed, which = np.unique(corpus << BLOCK_BITS | blocks, return_inverse=True)
        keys = tuple(divmod(key, 1 << BLOCK_BITS) for key in packed.tolist())
        few = len(keys) * ROWS_PER_BLOCK <= JOINED_SHARE * len(rows)
        if few and len(keys) <= self.capacity:
            joined, starts = self._joined(keys)
            return _in_order(joined, starts[which] + rows, corpus, epoch)
        order = np.argsort(which, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(which[order])) + 1)
        parts = [take(self.block(*key), rows[here]) for key, here in zip(keys, groups, strict=True)]
        return _in_order(concatenate(_alike(parts)), np.argsort(order), corpus, epoch)

    def _joined(self, keys: tuple[tuple[int, int], ...]) -> tuple[Block, Int64[np.ndarray, "keys"]]:
        """These blocks, end to end, and where each begins; kept until others are asked for."""
        blocks = [self.block(*key) for key in keys]  # also where kept: they are the last used now
        if keys != self.joined_keys:
            self.joined_keys, self.joined = keys, concatenate(_alike(blocks))
        return self.joined, pointers(np.array([block.num_rows for block in blocks]))[:-1]


def _in_order(
    block: Block,
    places: Int64[np.ndarray, "n"],
    corpus: Int64[np.ndarray, "n"],
    epoch: Int64[np.ndarray, "n"],
) -> Windows:
    """The rows `places` of a block, with the corpus and epoch of each."""
    found = take(block, places)
    return Windows(
        tokens=found.tokens.astype(np.int64),
        ptr=found.window_ptr.astype(np.int64),
        word_start=found.word_start,
        sentence_start=found.sentence_start.astype(np.int64),
        sentence_ptr=found.sentence_ptr.astype(np.int64),
        repeated=found.repeated.astype(np.int64),
        document_id=found.document_id,
        window_number=found.window_number.astype(np.uint64),
        corpus=corpus.astype(np.uint64),
        epoch=epoch.astype(np.uint64),
        tag=found.tag,
    )


def _alike(blocks: list[Block]) -> list[Block]:
    """The blocks with the same optional fields: no gaps, and tag 0 where only others have tags."""
    tagged = any(block.tag is not None for block in blocks)
    alike = [replace(block, gap=None) if block.gap is not None else block for block in blocks]
    return [
        replace(block, tag=np.zeros(len(block.tokens), dtype=np.uint8))
        if tagged and block.tag is None
        else block
        for block in alike
    ]
