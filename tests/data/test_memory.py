"""What is freed is kept: batches after the first ones are made in pages that are there already."""

import platform
import resource

import numpy as np
import pytest

from mlmdist.data.memory import keep_freed


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no other C library is told")
def test_arrays_made_anew_cost_no_new_pages() -> None:
    keep_freed()
    work()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        work()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 10 * 40e6 / resource.getpagesize() / 20


def work() -> int:
    """Forty megabytes in five arrays, all of which are let go."""
    arrays = [np.ones(1 << 20) for _ in range(5)]
    return sum(len(array) for array in arrays)
