"""How well token frequencies alone predict text: the line a language model must get under."""

import numpy as np
from jaxtyping import Int64

from mlmdist.errors import DataError
from mlmdist.shards import ShardSet


def read_counts(shards: ShardSet) -> Int64[np.ndarray, "ids"]:
    """How often each id occurs in the set, repeated heads not counted."""
    path = shards.folder / "unigram.npy"
    try:
        counts = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error}); make the shards again") from None
    return counts.astype(np.int64)


def cross_entropy(train: Int64[np.ndarray, "ids"], held_out: Int64[np.ndarray, "ids"]) -> float:
    """Nats a held-out token under the training frequencies, each raised by one (Laplace)."""
    probability = (train + 1) / (train.sum() + len(train))
    return float(-(held_out * np.log(probability)).sum() / max(held_out.sum(), 1))
