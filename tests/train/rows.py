"""Made-up rows for the engine: any cut of them into ranks and micro-batches is the same batch."""

import numpy as np

from mlmdist.data.batch import MicroBatch, StepBatch
from mlmdist.train.state import Counts

VOCAB_SIZE = 60
CLS, SEP, MASK = 2, 3, 4


def row(seed: int, *, labelled: bool = True) -> MicroBatch:
    """A micro-batch of one row, of 8 to 20 tokens."""
    random = np.random.default_rng(seed)
    first, second = random.integers(3, 9, size=2)
    tokens = random.integers(5, VOCAB_SIZE, size=first + second + 3)
    tokens[[0, first + 1, -1]] = CLS, SEP, SEP
    ordinary = np.flatnonzero(tokens > MASK)
    masked = (
        np.sort(random.choice(ordinary, size=1 + seed % 3, replace=False))
        if labelled
        else ordinary[:0]
    )
    labels = tokens[masked]
    tokens[masked] = MASK
    return MicroBatch(
        tokens=tokens,
        segments=(np.arange(len(tokens)) > first + 1).astype(np.int64),
        positions=np.arange(len(tokens)),
        cu_lengths=np.array([0, len(tokens)], dtype=np.int32),
        masked_index=masked,
        labels=labels,
        pair_labels=np.array([seed % 2 if labelled else -100]),
        weights=np.ones(1, dtype=np.int64),
        sample_ids=np.zeros((1, 4), dtype=np.uint64),
    )


def joined(rows: list[MicroBatch]) -> MicroBatch:
    """Rows end to end as one micro-batch."""
    starts = np.cumsum([0, *(len(one.tokens) for one in rows)])
    together = {
        name: np.concatenate([getattr(one, name) for one in rows])
        for name in (
            "tokens",
            "segments",
            "positions",
            "labels",
            "pair_labels",
            "weights",
            "sample_ids",
        )
    }
    places = [one.masked_index + start for one, start in zip(rows, starts[:-1], strict=True)]
    return MicroBatch(
        **together, cu_lengths=starts.astype(np.int32), masked_index=np.concatenate(places)
    )


def global_rows(number: int, num_rows: int = 8) -> list[MicroBatch]:
    """The rows of global batch `number`; one of them has no label at all."""
    return [row(1000 * number + k, labelled=k != 3) for k in range(num_rows)]


def rank_batch(
    number: int, rank: int, world_size: int, accumulation: int, num_rows: int = 8
) -> StepBatch:
    """Rank's part of global batch `number`, in `accumulation` micro-batches."""
    rows = global_rows(number, num_rows)
    mine = rows[rank * num_rows // world_size : (rank + 1) * num_rows // world_size]
    size = len(mine) // accumulation
    parts = [joined(mine[k * size : (k + 1) * size]) for k in range(accumulation)]
    return StepBatch(
        number=number,
        micro_batches=parts,
        num_labels=sum(len(part.labels) for part in parts),
        num_pairs=sum(int((part.pair_labels >= 0).sum()) for part in parts),
        num_tokens=sum(len(part.tokens) for part in parts),
    )


def global_counts(number: int, num_rows: int = 8) -> Counts:
    """What all ranks together count in global batch `number`."""
    batch = rank_batch(number, 0, 1, 1, num_rows)
    return Counts(batch.num_labels, batch.num_pairs, batch.num_tokens)
