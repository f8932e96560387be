"""How long a run, or a phase of it, trains: steps, tokens, epochs or time on the clock."""

import re
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PlainSerializer, PositiveInt

from mlmdist.config.loading import Section

SECONDS_OF = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
TIME = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")
COUNTS_OF = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
COUNT = re.compile(r"(\d+(?:\.\d+)?)([kMBT]?)")


def _seconds(value: Any) -> Any:
    """`1d12h`, `90m` or a number of seconds, as seconds."""
    if not isinstance(value, str):
        return value
    text = value.replace(" ", "")
    if not TIME.fullmatch(text):
        raise ValueError("must be a time such as 24h, 90m or 1d12h")
    return sum(float(number) * SECONDS_OF[unit] for number, unit in _parts(text))


def _parts(text: str) -> list[tuple[str, str]]:
    return re.findall(r"(\d+(?:\.\d+)?)([dhms])", text)


def time_text(seconds: float) -> str:
    """Seconds as the config has them: `1d12h30m`."""
    left, text = seconds, ""
    for unit, size in SECONDS_OF.items():
        whole = left // size
        if unit == "s":
            text += f"{left:g}s" if left or not text else ""
        elif whole:
            text += f"{whole:.0f}{unit}"
            left -= whole * size
    return text


def _count(value: Any) -> Any:
    """`10B`, `1.5M` or a number, as a whole number."""
    if isinstance(value, float) and value == int(value):
        return int(value)
    found = COUNT.fullmatch(value) if isinstance(value, str) else None
    if isinstance(value, str) and not found:
        raise ValueError("must be a number such as 1000000, 10B or 1.5M")
    return round(float(found[1]) * COUNTS_OF[found[2]]) if found else value


Seconds = Annotated[
    float, Field(gt=0), BeforeValidator(_seconds), PlainSerializer(time_text, when_used="json")
]
"""A time: `24h`, `90m`, `1d12h`, or seconds."""

Count = Annotated[int, Field(gt=0), BeforeValidator(_count)]
"""A whole number, also as `10B` or `1.5M`."""


class Budget(Section):
    """How much is trained; one of the four is given."""

    kinds: ClassVar[tuple[str, ...]] = ("steps", "tokens", "epochs", "time")

    steps: PositiveInt | None = None
    """Optimizer steps."""

    tokens: Count | None = None
    """Tokens read, specials counted, such as `10B`: as many steps as that takes with rows of mean
    length."""

    epochs: Annotated[float, Field(gt=0)] | None = None
    """Rows read for each window there is."""

    time: Seconds | None = None
    """Wall-clock time, such as `24h`: rate and end follow the clock of the first rank, start-up,
    evaluations and the last checkpoint included. What is trained then depends on the machine."""

    @property
    def given(self) -> list[str]:
        """The names of those that are given."""
        return [kind for kind in self.kinds if getattr(self, kind) is not None]
