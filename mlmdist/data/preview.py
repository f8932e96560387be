"""One window as training would see it: its mask, by the code that makes the masks of a run."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from mlmdist.blocks import Block, take
from mlmdist.config.data import Mask
from mlmdist.data.batch import lay_out
from mlmdist.data.masks import mask_stream, rate_at
from mlmdist.data.pairs import pair
from mlmdist.data.reader import Windows
from mlmdist.tokenizer import Vocabulary


@dataclass(frozen=True)
class Preview:
    """Places of a window that would be predicted, ascending, and what would stand there."""

    places: Int64[np.ndarray, "masked"]
    shown: Int64[np.ndarray, "masked"]


def preview(block: Block, row: int, mask: Mask, vocabulary: Vocabulary, seed: int) -> Preview:
    """The mask of row `row` of a block in epoch 0 of a run with this seed, all in one segment."""
    windows = _windows(take(block, np.array([row])))
    spans = pair("none", windows, np.array([0, 1]), seed, int(windows.ptr[-1]))
    stream = lay_out(windows, spans, vocabulary)
    masked = mask_stream(stream, windows, mask, vocabulary, seed=seed, rate=rate_at(mask, 0))
    return Preview(stream.source[masked.index], masked.tokens[masked.index])


def _windows(block: Block) -> Windows:
    nothing = np.zeros(block.num_rows, dtype=np.uint64)
    return Windows(
        tokens=block.tokens.astype(np.int64),
        ptr=block.window_ptr.astype(np.int64),
        word_start=block.word_start,
        sentence_start=block.sentence_start.astype(np.int64),
        sentence_ptr=block.sentence_ptr.astype(np.int64),
        repeated=block.repeated.astype(np.int64),
        document_id=block.document_id,
        window_number=block.window_number.astype(np.uint64),
        corpus=nothing,
        epoch=nothing,
    )
