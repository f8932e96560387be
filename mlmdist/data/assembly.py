"""From the cells of a batch to the micro-batches of a rank: read, pair, lay out, mask, cut."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Int64, UInt64

from mlmdist.config import data as config
from mlmdist.data.batch import MicroBatch, StepBatch, Stream, filler, lay_out
from mlmdist.data.masks import Masked, mask_stream, rate_at
from mlmdist.data.mixture import Cells, Mixture, joined
from mlmdist.data.pairs import UNLABELLED, Spans, pair
from mlmdist.data.reader import Reader, Windows
from mlmdist.data.runs import pointers, ranges
from mlmdist.data.stand_in import is_real
from mlmdist.memory import keep_freed
from mlmdist.tokenizer import Vocabulary


@dataclass(frozen=True)
class Assembler:
    """What makes rows of a mixture of corpora; `seed` is that of pairs and masks."""

    mixture: Mixture
    reader: Reader
    capacities: Int64[np.ndarray, "corpora"]
    """The most tokens of a row of each corpus, without special ones."""

    vocabulary: Vocabulary
    data: config.Data
    mask: config.Mask
    seed: int
    listed: UInt64[np.ndarray, "listed"]
    """Keys of the words that `mask.word_list` names."""

    def __post_init__(self) -> None:
        keep_freed()

    def steps(
        self, numbers: list[int], parts: list[Cells], num_micro_batches: list[int]
    ) -> list[StepBatch]:
        """Batches `numbers` of a rank: the rows of each of `parts`, dealt to its micro-batches.

        All are made in one go: for so few rows as a batch has, NumPy's calls cost more than their
        work.
        """
        counts = [int((cells.stop - cells.first).sum()) for cells in parts]
        made = self._micro_batches(numbers, parts, counts, num_micro_batches)
        return [
            self._step(number, micro_batches, num)
            for number, micro_batches, num in zip(numbers, made, num_micro_batches, strict=True)
        ]

    def _step(self, number: int, micro_batches: list[MicroBatch], num: int) -> StepBatch:
        corpus_tokens = self._corpus_tokens(micro_batches)
        return StepBatch(
            number=number,
            micro_batches=micro_batches + [filler(self.vocabulary)] * (num - len(micro_batches)),
            num_labels=sum(len(micro.labels) for micro in micro_batches),
            num_pairs=sum(_num_labelled(micro.pair_labels) for micro in micro_batches),
            num_tokens=sum(corpus_tokens),
            num_left_out=sum(int(np.sum(micro.weights == 0)) for micro in micro_batches),
            corpus_tokens=corpus_tokens,
        )

    def _corpus_tokens(self, micro_batches: list[MicroBatch]) -> tuple[int, ...]:
        """Tokens of the rows that count, specials included, of each corpus."""
        totals = np.zeros(len(self.capacities), dtype=np.int64)
        for micro in micro_batches:
            np.add.at(
                totals, micro.sample_ids[:, 0].astype(np.int64), micro.weights * micro.lengths
            )
        return tuple(totals.tolist())

    def pairs(self, cells: Cells) -> tuple[Windows, Spans]:
        """The windows of whole cells and what rows are made of them."""
        sizes = self.mixture.cell_rows(cells)
        blocks, rows = self.mixture.places(cells, sizes)
        windows = self.reader.windows(
            np.repeat(cells.corpus, sizes), blocks, rows, np.repeat(cells.epoch, sizes)
        )
        capacity = np.repeat(self.capacities[cells.corpus], sizes)
        return windows, pair(self.data.pair, windows, pointers(sizes), self.seed, capacity)

    def rows(self, cells: Cells) -> tuple[Windows, Spans]:
        """The windows of whole cells, and the rows that are meant of them."""
        windows, spans = self.pairs(cells)
        starts = pointers(self.mixture.cell_rows(cells))[:-1]
        return windows, spans.take(ranges(starts + cells.first, cells.stop - cells.first))

    def _micro_batches(
        self, numbers: list[int], parts: list[Cells], counts: list[int], hands: list[int]
    ) -> list[list[MicroBatch]]:
        """Micro-batches of each batch's rows; empty ones are left out."""
        if not sum(counts):
            return [[] for _ in numbers]
        windows, kept = self.rows(joined(parts))
        firsts = pointers(np.array(counts))
        dealt = [
            deal(kept.lengths[first:stop], num)
            for (first, stop), num in zip(pairwise(firsts.tolist()), hands, strict=True)
        ]
        order = [first + rows for first, (rows, _) in zip(firsts, dealt, strict=False)]
        kept = kept.take(np.concatenate(order))
        stream = lay_out(windows, kept, self.vocabulary)
        masked = mask_stream(
            stream,
            windows,
            self.mask,
            self.vocabulary,
            seed=self.seed,
            rate=np.repeat([rate_at(self.mask, number) for number in numbers], counts),
            listed=self.listed,
        )
        return [
            [
                _cut(stream, masked, kept, windows, first, stop)
                for first, stop in pairwise((begin + bounds).tolist())
                if first < stop
            ]
            for begin, (_, bounds) in zip(firsts, dealt, strict=False)
        ]


def deal(
    lengths: Int64[np.ndarray, "rows"], num_hands: int
) -> tuple[Int64[np.ndarray, "rows"], Int64[np.ndarray, "hands_plus_1"]]:
    """Rows in a new order, and where each of the hands they are dealt to begins in it.

    Longest first, to and fro, so that hands have near-equal counts and near-equal tokens; a hand
    keeps its rows in the order in which they came. Losses are sums, so that none depends on it.
    """
    place = np.arange(len(lengths))
    turn, hand = np.divmod(place, num_hands)
    hand = np.where(turn % 2, num_hands - 1 - hand, hand)
    longest_first = np.argsort(-lengths, kind="stable")
    dealt = np.lexsort((longest_first, hand))
    return longest_first[dealt], pointers(np.bincount(hand, minlength=num_hands))


def _cut(
    stream: Stream, masked: Masked, spans: Spans, windows: Windows, first: int, stop: int
) -> MicroBatch:
    """Rows [first, stop) of a stream."""
    begin, end = stream.ptr[first], stream.ptr[stop]
    low, high = np.searchsorted(masked.index, [begin, end])
    window = spans.first_window[first:stop]
    parts = (windows.corpus, windows.document_id, windows.window_number, windows.epoch)
    return MicroBatch(
        tokens=masked.tokens[begin:end],
        segments=stream.segments[begin:end],
        positions=stream.positions[begin:end],
        cu_lengths=(stream.ptr[first : stop + 1] - begin).astype(np.int32),
        masked_index=masked.index[low:high] - begin,
        labels=masked.labels[low:high],
        pair_labels=spans.labels[first:stop],
        weights=is_real(windows.document_id[window]).astype(np.int64),
        sample_ids=np.stack([part[window] for part in parts], axis=1),
    )


def _num_labelled(pair_labels: Int64[np.ndarray, "rows"]) -> int:
    return int(np.count_nonzero(pair_labels != UNLABELLED))
