"""Arrays in files of their own."""

import numpy as np

from mlmdist.files import AnyPath


def read_array(path: AnyPath) -> np.ndarray:
    """The array of a .npy file; ValueError, EOFError or OSError where it is damaged or missing."""
    with path.open("rb") as file:
        return np.load(file, allow_pickle=False)
