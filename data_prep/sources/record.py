"""A record as it lies in its file: found, not yet understood."""

from dataclasses import dataclass
from typing import Any

NOWHERE = -1


@dataclass
class Raw:
    """A record's bytes or fields, and its place, which a split can compute alone."""

    place: int
    """The lower 40 bits of its document's id; NOWHERE for the damaged rest of a file."""

    data: Any = None
    problem: str = ""
    """Why it is no record that can be read; "" for one that can."""

    def take(self) -> Any:
        """The data, which nothing holds here any more: of a long text there is one copy."""
        data, self.data = self.data, None
        return data


def too_large(place: int, most_bytes: int) -> Raw:
    """A record of more bytes than a task may hold."""
    return Raw(
        place,
        problem=f"holds more than max_record_bytes={most_bytes:,} bytes; raise that, or divide it",
    )
