"""Runs in flat arrays: the index arithmetic of ragged rows."""

import numpy as np
from jaxtyping import Int64


def pointers(lengths: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n_plus_1"]:
    """Where each of the runs, stood end to end, begins, and where the last one ends."""
    result = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=result[1:])
    return result


def ranges(
    starts: Int64[np.ndarray, "n"], lengths: Int64[np.ndarray, "n"]
) -> Int64[np.ndarray, "total"]:
    """`start, start + 1, ...` of every run, end to end: the index that gathers those runs."""
    placed = pointers(lengths)
    return np.arange(placed[-1]) + np.repeat(starts - placed[:-1], lengths)
