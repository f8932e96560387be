"""What is freed is kept: batches after the first ones are made in pages that are there already."""

import platform
import resource
import subprocess
import sys

import numpy as np
import pytest

from mlmdist.memory import keep_freed


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no other C library is told")
def test_arrays_made_anew_cost_no_new_pages() -> None:
    keep_freed()
    work()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        work()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 10 * 40e6 / resource.getpagesize() / 20


KEEPS = """
import resource
from mlmdist.memory import keep_all, keep_freed

def work():
    return [b"x" * (1 << 26) for _ in range(5)]  # numpy would ask for huge pages

keep_all()
keep_freed()  # as the loader does, when the engine is there
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no other C library is told")
def test_a_loader_opened_behind_the_engine_bounds_nothing() -> None:
    command = [sys.executable, "-c", KEEPS]  # the setting is the process's
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 3 * 320e6 / resource.getpagesize() / 20


def work() -> int:
    """Forty megabytes in five arrays, all of which are let go."""
    arrays = [np.ones(1 << 20) for _ in range(5)]
    return sum(len(array) for array in arrays)
