"""Numbers as templates are given them, and as a page shows them rounded."""

import math
import re
from dataclasses import dataclass

FUDGE = 1e-14
"""Added before a logarithm is rounded down, so that 1000 has four digits."""

MAX_PRECISION = 12
_SIGN = r"(?P<sign>[-+−–]?)"
_DECIMAL = re.compile(
    _SIGN + r"(?P<whole>[0-9][0-9,]{0,20})?(?:\.(?P<decimals>[0-9]{0,12}))?"
    r"(?:[eE](?P<exponent>[-+−]?[0-9]{1,2}))?\Z"
)
_FRACTION = re.compile(
    _SIGN + r"(?:(?P<whole>[0-9]{1,9})[+ ])?(?P<over>[0-9]{1,4})[/⁄](?P<under>[0-9]{1,4})\Z"
)


@dataclass(frozen=True)
class Number:
    """A number as given: its value, the digits it is known to, and how it is shown."""

    value: float
    precision: float
    """Digits behind the point; negative where the last digits before it are zeros."""

    shown: str
    is_fraction: bool = False


def read_number(text: str) -> Number | None:
    """The number of `1,300`, `-5.2`, `1.5e6`, `1/2` or `5+1/2`; None where it is none of them."""
    match = _DECIMAL.match(text)
    if match and (match["whole"] or match["decimals"]):
        return _decimal(match)
    match = _FRACTION.match(text)
    return _fraction(match) if match and int(match["under"]) else None


def _decimal(match: re.Match[str]) -> Number:
    whole, decimals = (match["whole"] or "0").replace(",", ""), match["decimals"] or ""
    exponent = int((match["exponent"] or "0").replace("−", "-"))
    precision = len(decimals) or len(whole.rstrip("0")) - len(whole)
    shown = f"{int(whole):,}" + (f".{decimals}" if decimals else "")
    if exponent:
        shown += f"×10^{exponent}".replace("-", "−")
    sign = _sign(match)
    value = float(f"{whole}.{decimals}e{exponent}")
    return Number(-value if sign else value, precision - exponent, sign + shown)


def _fraction(match: re.Match[str]) -> Number:
    over, under = int(match["over"]), int(match["under"])
    value = int(match["whole"] or 0) + over / under
    shown = f"{match['whole'] or ''} {over}/{under}".strip()
    sign = _sign(match)
    precision = max(math.log10(under), 1)
    return Number(-value if sign else value, precision, sign + shown, is_fraction=True)


def _sign(match: re.Match[str]) -> str:
    return "" if match["sign"] in ("", "+") else "−"


def rounded(value: float, precision: int) -> str:
    """A number with so many digits behind the point; a negative count rounds before it."""
    size = abs(value)
    if precision >= 0:
        text = f"{size + 2 * FUDGE:,.{min(precision, MAX_PRECISION)}f}"
    else:
        step = 10**-precision
        text = f"{math.floor(size / step + 0.5) * step:,}"
    return f"−{text}" if value < 0 and text.strip("0.,") else text


def significant(value: float, num_digits: int) -> int:
    """The precision that leaves so many significant digits."""
    return max(num_digits, 1) - 1 - magnitude(value) if value else 0


def magnitude(value: float) -> int:
    """The power of ten of a number's first digit; 0 for zero."""
    return math.floor(math.log10(abs(value)) + FUDGE) if value else 0
