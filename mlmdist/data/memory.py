"""Memory of the C library: what the loader's temporary arrays gave back is kept for the next ones.

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

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)


@cache
def keep_freed() -> None:
    """Have this process keep freed memory, within the bounds above; does nothing without glibc."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (other libraries have a mallopt without effect)
        library.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_MMAP_THRESHOLD, MAPPED_BYTES)
