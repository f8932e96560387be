"""Memory of the C library: what temporary arrays gave back is kept for the next ones.

Each step of a batch makes arrays of a megabyte or so and drops them. glibc gives memory of that
size back to the system at once, and the system clears every page that it hands out anew: that took
as long as all the arithmetic on it.
"""

import ctypes
from contextlib import suppress
from functools import cache

KEPT_BYTES = 128 << 20
"""The most a process keeps of what is free at the end of its heap."""

MAPPED_BYTES = 32 << 20
"""An array of at least so many bytes is still given back at once; the most that glibc takes."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # of mallopt(3)


@cache
def keep_freed() -> None:
    """Have this process keep freed memory, within the bounds above; does nothing without glibc.

    Nor does it where everything is kept already: a bound would undo that.
    """
    if keep_all.cache_info().currsize:
        return
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (other libraries have a mallopt without effect)
        library.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_MMAP_THRESHOLD, MAPPED_BYTES)


@cache
def keep_all() -> None:
    """Have this process keep all memory that it ever had, for a model on the CPU.

    Activations and gradients of a step are arrays of tens of megabytes, which come and go; without
    this a step of BERT-base spends a third of its time on pages that the system clears.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (other libraries have a mallopt without effect)
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, -1)
