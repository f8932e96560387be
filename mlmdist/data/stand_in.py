"""What stands in the place of a bad block where `data.bad_blocks: skip` leaves its rows out.

The order of the windows knows nothing of it, so every other row stays where it was. Each row of the
block becomes a window of one [UNK], which is never a target (law M1) and, having one sentence, gets
no pair label and lends its text to none. The rows that would have been paired with it find others
of their cell, or none. A batch gives such rows weight 0.

A shard that is missing, cut or without a good index is bad in all its blocks. What a set may lose
has a bound, `data.bad_blocks_share`, counted by each process in the blocks that it has met.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, UInt64

from mlmdist.blocks import Block

NO_DOCUMENT = np.uint64(0xFFFFFFFFFFFFFFFF)  # the id of no document: sources are not that many


@dataclass(frozen=True)
class StandIn:
    """How stand-ins are made."""

    token: int
    """[UNK]."""

    tagged: bool
    """Whether there must be tags, for `mask.tag_weights`."""

    most: float = 1.0
    """The share of a set's windows that they may stand for."""

    def block(self, num_rows: int) -> Block:
        """The block that stands for one of so many rows."""
        zeros = np.zeros(num_rows)
        places = np.arange(num_rows + 1, dtype=np.uint32)
        return Block(
            tokens=np.full(num_rows, self.token, dtype=np.uint32),
            window_ptr=places,
            sentence_start=zeros.astype(np.uint16),
            sentence_ptr=places,
            word_start=np.ones(num_rows, dtype=np.bool_),
            document_id=np.full(num_rows, NO_DOCUMENT),
            token_offset=zeros.astype(np.uint32),
            window_number=places[:-1],
            repeated=zeros.astype(np.uint16),
            flags=zeros.astype(np.uint8),
            tag=zeros.astype(np.uint8) if self.tagged else None,
        )


def is_real(document_id: UInt64[np.ndarray, "windows"]) -> Bool[np.ndarray, "windows"]:
    """Whether windows are those of a document, no stand-ins."""
    return document_id != NO_DOCUMENT
