"""How well token frequencies alone predict text: the line a language model must get under."""

import numpy as np
from jaxtyping import Int64


def cross_entropy(train: Int64[np.ndarray, "ids"], held_out: Int64[np.ndarray, "ids"]) -> float:
    """Nats a held-out token under the training counts, each raised by one (Laplace)."""
    probability = (train + 1) / (train.sum() + len(train))
    return float(-(held_out * np.log(probability)).sum() / max(held_out.sum(), 1))
