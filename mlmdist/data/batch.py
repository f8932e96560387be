"""A batch: rows as one stream of tokens without padding, special tokens in (law P3).

`lay_out` turns pairs into a stream; a `MicroBatch` is a run of its rows with the mask in place.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, Int64, UInt64

from mlmdist.data.pairs import UNLABELLED, Spans
from mlmdist.data.reader import Windows
from mlmdist.data.runs import pointers
from mlmdist.tokenizer import Vocabulary


@dataclass(frozen=True)
class Stream:
    """Rows `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]` end to end, before masking."""

    tokens: Int64[np.ndarray, "total"]
    segments: Int64[np.ndarray, "total"]
    """0 over [CLS] A [SEP], 1 over B [SEP]."""

    positions: Int64[np.ndarray, "total"]
    """Place inside the row."""

    ptr: Int64[np.ndarray, "rows_plus_1"]
    """Row r is `ptr[r]` to `ptr[r + 1]`."""

    source: Int64[np.ndarray, "total"]
    """Which token of the windows stands here; -1 for [CLS] and [SEP]."""

    first_places: Int64[np.ndarray, "segments"]
    """Places of the first token of each A and each B, ascending."""


@dataclass(frozen=True)
class MicroBatch:
    """What a model computes at once; `total` counts tokens, specials included."""

    tokens: Int64[np.ndarray, "total"]
    """Ids with [MASK] and random words in place."""

    segments: Int64[np.ndarray, "total"]
    positions: Int64[np.ndarray, "total"]
    cu_lengths: Int32[np.ndarray, "rows_plus_1"]
    """Row r is `cu_lengths[r]` to `cu_lengths[r + 1]`."""

    masked_index: Int64[np.ndarray, "masked"]
    """Places in the stream that are predicted, ascending."""

    labels: Int64[np.ndarray, "masked"]
    """The original id at each of them."""

    pair_labels: Int64[np.ndarray, "rows"]
    """0 true continuation or in order, 1 not, -100 no label."""

    weights: Int64[np.ndarray, "rows"]
    """1; 0 for a row that only fills up, or stands in for one of a bad block."""

    sample_ids: UInt64[np.ndarray, "rows 4"]
    """(corpus, document, window number, epoch) of the window that A is from."""

    @property
    def lengths(self) -> Int64[np.ndarray, "rows"]:
        """Tokens of each row."""
        return np.diff(self.cu_lengths).astype(np.int64)


@dataclass(frozen=True)
class StepBatch:
    """A rank's part of a global batch; counts leave out rows of weight 0."""

    number: int
    micro_batches: list[MicroBatch]
    num_labels: int
    """Masked tokens."""

    num_pairs: int
    """Rows with a pair label."""

    num_tokens: int
    num_left_out: int = 0
    """Rows of bad blocks."""

    corpus_tokens: tuple[int, ...] = ()
    """`num_tokens` by corpus."""

    @property
    def num_rows(self) -> int:
        """Rows that count."""
        return sum(int(one.weights.sum()) for one in self.micro_batches)

    @property
    def sum_squares(self) -> int:
        """Of the lengths, in tokens, of rows that count: what attention inside them costs."""
        return sum(int((one.lengths**2 * one.weights).sum()) for one in self.micro_batches)


def lay_out(windows: Windows, spans: Spans, vocabulary: Vocabulary) -> Stream:
    """The stream of the rows that `spans` describes."""
    first_length = spans.first_stop - spans.first_start
    second_length = spans.second_stop - spans.second_start
    has_second = spans.second_window >= 0
    halves = np.stack([first_length + 2, np.where(has_second, second_length + 1, 0)], axis=1)
    ptr = pointers(halves.sum(axis=1))
    places = np.stack([ptr[:-1] + 1, ptr[:-1] + first_length + 2], axis=1)  # first of each half
    starts = np.stack(
        [
            windows.ptr[spans.first_window] + spans.first_start,
            windows.ptr[spans.second_window] + spans.second_start,
        ],
        axis=1,
    )
    place = np.arange(ptr[-1])
    source = place + np.repeat((starts - places).ravel(), halves.ravel())
    source[np.concatenate([ptr[:-1], places[:, 1] - 1, ptr[1:] - 1])] = -1  # [CLS], two [SEP]
    tokens = np.append(windows.tokens, vocabulary.sep_id)[source]
    tokens[ptr[:-1]] = vocabulary.cls_id
    kept = np.stack([first_length > 0, second_length > 0], axis=1)
    return Stream(
        tokens=tokens,
        segments=np.repeat(np.tile([0, 1], len(halves)), halves.ravel()),
        positions=place - np.repeat(ptr[:-1], np.diff(ptr)),
        ptr=ptr,
        source=source,
        first_places=places[kept],
    )


@dataclass(frozen=True)
class Padded:
    """A micro-batch as BERT's usual tensors: rows filled up with [PAD] to the longest."""

    input_ids: Int64[np.ndarray, "rows longest"]
    token_type_ids: Int64[np.ndarray, "rows longest"]
    attention_mask: Int64[np.ndarray, "rows longest"]
    labels: Int64[np.ndarray, "rows longest"]
    """The original id where it is to be predicted, -100 elsewhere."""

    next_sentence_label: Int64[np.ndarray, "rows"]


def pad(batch: MicroBatch, pad_id: int, length: int | None = None) -> Padded:
    """The rows side by side, filled up to `length` (default: the longest) as Hugging Face's."""
    lengths = np.diff(batch.cu_lengths).astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    shape = (len(lengths), length or int(lengths.max()))
    labels = np.full(len(batch.tokens), UNLABELLED)
    labels[batch.masked_index] = batch.labels
    ones = np.ones(len(batch.tokens), dtype=np.int64)
    filled = [
        np.full(shape, value) for value in (pad_id, 0, 0, UNLABELLED)
    ]  # ids, segments, attention, labels
    for table, values in zip(filled, (batch.tokens, batch.segments, ones, labels), strict=True):
        table[row, batch.positions] = values
    return Padded(*filled, next_sentence_label=batch.pair_labels)


def filler(vocabulary: Vocabulary) -> MicroBatch:
    """One row [CLS] [SEP] of weight 0 without labels: for a rank that has no row left."""
    nothing = np.zeros(0, dtype=np.int64)
    return MicroBatch(
        tokens=np.array([vocabulary.cls_id, vocabulary.sep_id]),
        segments=np.zeros(2, dtype=np.int64),
        positions=np.arange(2),
        cu_lengths=np.array([0, 2], dtype=np.int32),
        masked_index=nothing,
        labels=nothing,
        pair_labels=np.array([UNLABELLED]),
        weights=np.zeros(1, dtype=np.int64),
        sample_ids=np.zeros((1, 4), dtype=np.uint64),
    )
