"""Windows out of a shard set: blocks are read whole, checked, and kept while they are in use.

A bounded number of blocks is held, so memory does not grow with the set (law S3); each time a block
is read again its checksum is checked again on the bytes served (law S2).
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64, UInt8, UInt64
from numpy.typing import NDArray

from mlmdist.blocks import Block
from mlmdist.data.runs import pointers
from mlmdist.shards import ShardSet

EPOCH_BITS = 48


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

    def __init__(self, shard_sets: tuple[ShardSet, ...], capacity: int) -> None:
        self.shard_sets, self.capacity = shard_sets, capacity
        self.held: OrderedDict[tuple[int, int], Block] = OrderedDict()

    def block(self, corpus: int, number: int) -> Block:
        """Block `number` of a corpus; raises DataError naming shard, field and byte if damaged."""
        key = (corpus, number)
        if key in self.held:
            self.held.move_to_end(key)
            return self.held[key]
        while len(self.held) >= self.capacity:
            self.held.popitem(last=False)
        block = self.held[key] = self.shard_sets[corpus].read_block(number)
        return block

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
        order = np.lexsort((blocks, corpus))
        listed = zip(*(part[order].tolist() for part in (corpus, blocks, rows)), strict=True)
        found = [_row(self.block(one, number), row) for one, number, row in listed]
        parts = [found[place] for place in np.argsort(order).tolist()]
        tokens, words, sentences, tags, documents, numbers, repeated = zip(*parts, strict=True)
        return Windows(
            tokens=np.concatenate(tokens).astype(np.int64),
            ptr=pointers(np.array([len(part) for part in tokens])),
            word_start=np.concatenate(words),
            sentence_start=np.concatenate(sentences).astype(np.int64),
            sentence_ptr=pointers(np.array([len(part) for part in sentences])),
            repeated=np.array(repeated, dtype=np.int64),
            document_id=np.array(documents, dtype=np.uint64),
            window_number=np.array(numbers, dtype=np.uint64),
            corpus=corpus.astype(np.uint64),
            epoch=epoch.astype(np.uint64),
            tag=_joined(tags, tokens),
        )


Tags = NDArray[np.uint8] | None
Row = tuple[NDArray[np.unsignedinteger], NDArray[np.bool_], NDArray[np.uint16], Tags, int, int, int]


def _row(block: Block, row: int) -> Row:
    """One window of a block: tokens, word and sentence starts, tags, document, number, repeated."""
    first, last = block.window_ptr[row], block.window_ptr[row + 1]
    return (
        block.tokens[first:last],
        block.word_start[first:last],
        block.sentence_start[block.sentence_ptr[row] : block.sentence_ptr[row + 1]],
        None if block.tag is None else block.tag[first:last],
        int(block.document_id[row]),
        int(block.window_number[row]),
        int(block.repeated[row]),
    )


def _joined(
    tags: tuple[Tags, ...], tokens: tuple[NDArray[np.unsignedinteger], ...]
) -> UInt8[np.ndarray, "total"] | None:
    """The windows' tags end to end; of those that have none, zeros."""
    if all(tag is None for tag in tags):
        return None
    pairs = zip(tags, tokens, strict=True)
    return np.concatenate([np.zeros(len(t), np.uint8) if tag is None else tag for tag, t in pairs])
