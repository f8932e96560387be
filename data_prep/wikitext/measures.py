"""`{{convert|5|km|mi}}` as the page shows it: `5 kilometres (3.1 mi)`.

The arithmetic and the rounding are those of Wikipedia's Module:Convert, for the units of `units`.
Where a unit is not known, the measure is shown as given, without the conversion.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from data_prep.wikitext.numbers import Number, magnitude, read_number, rounded, significant
from data_prep.wikitext.units import CHINESE, COMPOSITES, Unit, find_unit

# What may stand between two numbers, and how it is shown with names and with symbols of units.
_BETWEEN = {
    "-": ("–", "–"), "–": ("–", "–"), "to": (" to ", " to "), "to(-)": (" to ", "–"),
    "to-": (" to ", "–"), "to about": (" to about ", " to about "), "and": (" and ", " and "),
    "and(-)": (" and ", "–"), "or": (" or ", " or "), "by": (" by ", " by "),
    "x": (" by ", " × "), "×": (" × ", " × "), "*": (" × ", " × "), "xx": (" × ", " × "),
    "by(x)": (" by ", " × "), "+/-": (" ± ", " ± "), "±": (" ± ", " ± "), "+/−": (" ± ", " ± "),
    "&": (" and ", " and "), ",": (", ", ", "), "or(-)": (" or ", "–"),
    "bis": (" bis ", " bis "), "à": (" à ", " à "), "et": (" et ", " et "), "至": ("至", "至"),
}  # fmt: skip
_REPEATED_SYMBOL = ("x", "by(x)")
_SMALLER = {"ft": "in", "st": "lb", "lb": "oz", "yd": "ft", "mi": "yd"}
_AMERICAN = re.compile(r"(met|lit)re")
_DIGITS = re.compile(r"-?[0-9]\Z")
_FULL_LANGUAGES = ("", "en", "simple", "zh")


@dataclass(frozen=True)
class _Value:
    """A number of units, or of larger and smaller units (`6 ft 2 in`)."""

    total: Number
    """In the unit of the last part."""

    parts: list[tuple[Number, Unit]]


@dataclass(frozen=True)
class _Measure:
    """One value, or several with words between."""

    values: list[_Value]
    between: list[str]

    @property
    def unit(self) -> Unit:
        """The unit that the totals are in."""
        return self.values[0].parts[-1][1]

    @property
    def is_composite(self) -> bool:
        """True for two units one behind the other."""
        return any(len(value.parts) > 1 for value in self.values)


def measure_words(positional: list[str], named: Mapping[str, str], language: str = "") -> str:
    """The words of a call of `{{convert}}` with these arguments on a wiki of this language.

    Wikis that write numbers in another way than English and Chinese show the measure as given.
    """
    found = _given(positional)
    if found is None:
        return _as_written(positional)
    measure, rest = found
    others = _others(measure, rest, named) if language in _FULL_LANGUAGES else []
    if language == "zh":
        return _chinese([measure, *others])
    if language not in _FULL_LANGUAGES:
        return _side(measure, {}, use_names=False)
    return _written(measure, others, named)


def unit_words(code: str) -> str:
    """The symbol of a unit; a code that is not known stays as it is."""
    unit = find_unit(code)
    return unit.symbol if unit else code


def _as_written(positional: list[str]) -> str:
    """Numbers, the words between them, and the one argument behind them that says the unit."""
    if not positional:
        return ""
    words, place = positional[0], 1
    while place + 1 < len(positional) and positional[place] in _BETWEEN:
        words += _BETWEEN[positional[place]][0] + positional[place + 1]
        place += 2
    if place < len(positional) and read_number(positional[0]):
        words = f"{words} {positional[place]}"
    return words


def _given(parts: list[str]) -> tuple[_Measure, list[str]] | None:
    """The measure at the head of the arguments, and the arguments behind it."""
    numbers: list[Number] = []
    between: list[str] = []
    place = 0
    while place < len(parts) and (number := read_number(parts[place])):
        numbers.append(number)
        place += 1
        if place + 1 >= len(parts) or parts[place] not in _BETWEEN:
            break
        between.append(parts[place])
        place += 1
    unit = find_unit(parts[place]) if place < len(parts) else None
    if unit is None or not numbers or len(between) != len(numbers) - 1:
        return None
    rest = parts[place + 1 :]
    if len(numbers) == 1 and (composite := _composite(numbers[0], unit, rest)):
        return composite, rest[2:]
    return _Measure([_Value(number, [(number, unit)]) for number in numbers], between), rest


def _composite(large: Number, unit: Unit, rest: list[str]) -> _Measure | None:
    """`6|ft|2|in`, where the arguments behind the first unit go on with a smaller one."""
    small = read_number(rest[0]) if len(rest) > 1 else None
    small_unit = find_unit(rest[1]) if small else None
    if not small or not small_unit or _SMALLER.get(unit.code) != small_unit.code:
        return None
    value = large.value * unit.scale / small_unit.scale + small.value
    total = Number(value, max(small.precision, 0), small.shown)
    return _Measure([_Value(total, [(large, unit), (small, small_unit)])], [])


def _others(measure: _Measure, rest: list[str], named: Mapping[str, str]) -> list[_Measure]:
    """The measure in the units asked for, or in the usual ones."""
    digits = next((int(part) for part in rest[:2] if _DIGITS.match(part)), None)
    is_asked = rest and rest[0] and not _DIGITS.match(rest[0])
    asked = rest[0] if is_asked else measure.unit.default
    if asked in COMPOSITES:
        return _in_two_units(measure, *COMPOSITES[asked])
    codes = [asked] if find_unit(asked) else asked.replace("+", " ").split()
    units = [unit for code in codes if (unit := find_unit(code))]
    fitting = [unit for unit in units if unit.kind == measure.unit.kind != ""]
    return [_converted(measure, unit, digits, named) for unit in fitting if unit != measure.unit]


def _converted(
    measure: _Measure, unit: Unit, digits: int | None, named: Mapping[str, str]
) -> _Measure:
    """The measure in another unit; the values of a range are rounded alike."""
    totals = [value.total for value in measure.values]
    values = [_value_in(unit, total.value, measure.unit) for total in totals]
    pairs = list(zip(totals, values, strict=True))
    precision = digits
    if precision is None:
        precision = max(_precision(measure, total, value, unit) for total, value in pairs)
    sigfig = named.get("sigfig", "")
    if digits is None and len(sigfig) == 1 and sigfig in "123456789":
        shown = [rounded(value, significant(value, int(sigfig))) for value in values]
    else:
        shown = [rounded(value, precision) for value in values]
    numbers = [Number(v, 0, text) for v, text in zip(values, shown, strict=True)]
    return _Measure([_Value(number, [(number, unit)]) for number in numbers], measure.between)


def _value_in(unit: Unit, value: float, given: Unit) -> float:
    return (value * given.scale + given.offset - unit.offset) / unit.scale


def _precision(measure: _Measure, number: Number, value: float, unit: Unit) -> int:
    """How many digits behind the point a converted number is known to (Module:Convert)."""
    if unit.kind == "temperature":
        kelvin = abs(number.value * measure.unit.scale + measure.unit.offset)
        least = 2 - magnitude(kelvin) if kelvin > 1e-8 else 2
        return max(math.floor(number.precision), least)
    if not number.value or not value:
        return 0
    adjust = math.log10(abs(number.value / value))
    if measure.is_composite and measure.unit.code == "in":
        adjust = math.log10(unit.scale) + 2
    elif unit.code in ("ft", "lb") and number.value == math.floor(number.value):
        adjust = -math.log10(measure.unit.scale)
    return max(math.floor(number.precision + adjust + math.log10(2)), 1 - magnitude(value))


def _in_two_units(measure: _Measure, large: str, small: str, ratio: int) -> list[_Measure]:
    """A measure as `6 ft 1 in`."""
    large_unit, small_unit = find_unit(large), find_unit(small)
    if not large_unit or not small_unit or measure.unit.kind != small_unit.kind:
        return []
    values = []
    for given in measure.values:
        total = _value_in(small_unit, given.total.value, measure.unit)
        whole, left = divmod(math.floor(abs(total) + 0.5), ratio)
        parts = [(Number(whole, 0, f"{whole:,}"), large_unit)] * bool(whole)
        parts += [(Number(left, 0, str(left)), small_unit)] * bool(left or not whole)
        values.append(_Value(Number(total, 0, ""), parts))
    return [_Measure(values, measure.between)]


def _written(measure: _Measure, others: list[_Measure], named: Mapping[str, str]) -> str:
    """Both sides in one text, as the options `abbr`, `adj`, `sp`, `disp` and `order` have it."""
    abbreviated, display = named.get("abbr", "out"), named.get("disp", "")
    left, right = [measure], others
    if others and (named.get("order") == "flip" or display == "flip"):
        left, right = right, left
    names = abbreviated not in ("on", "in", "~"), abbreviated in ("off", "none", "in")
    first = "; ".join(_side(side, named, use_names=names[0]) for side in left)
    spelling = {"sp": named.get("sp", "")}
    second = "; ".join(_side(side, spelling, use_names=names[1]) for side in right)
    if display in ("out", "output", "output only") and second:
        return second
    if display in ("number", "output number only") and others and not others[0].is_composite:
        return _joined(others[0], use_names=False)
    if not second:
        return first
    return f"{first} or {second}" if display == "or" else f"{first} ({second})"


def _side(measure: _Measure, options: Mapping[str, str], *, use_names: bool) -> str:
    """A measure with its unit, by name or by symbol."""
    is_adjective = use_names and options.get("adj") in ("on", "mid")
    is_repeated = not use_names and not {*measure.between}.isdisjoint(_REPEATED_SYMBOL)
    if measure.is_composite or is_repeated:
        sides = [
            " ".join(_quantity(n.shown, n, u, options, use_names=use_names) for n, u in v.parts)
            for v in measure.values
        ]
        text = _between(sides, measure.between, use_names=use_names)
    else:
        last = measure.values[-1].total
        numbers = _joined(measure, use_names=use_names)
        text = _quantity(numbers, last, measure.unit, options, use_names=use_names)
    if is_adjective and measure.unit.symbol != measure.unit.singular:
        text = text.replace(" ", "-")
    return text


def _quantity(
    shown: str, number: Number, unit: Unit, options: Mapping[str, str], *, use_names: bool
) -> str:
    """A number, or a range that ends with it, and its unit."""
    if not use_names:
        return f"{shown}{'' if unit.symbol.startswith('/') else ' '}{unit.symbol}"
    is_one = abs(number.value) <= 1 if number.is_fraction else abs(number.value) == 1
    is_singular = options.get("adj") in ("on", "mid") or (is_one and shown == number.shown)
    name = unit.singular if is_singular else unit.plural
    if options.get("sp", "").lower() == "us":
        name = _AMERICAN.sub(r"\1er", name)
    return f"{shown} {name}"


def _joined(measure: _Measure, *, use_names: bool) -> str:
    """The numbers of a measure with what stands between them."""
    numbers = [value.total.shown for value in measure.values]
    return _between(numbers, measure.between, use_names=use_names)


def _between(texts: list[str], words: list[str], *, use_names: bool) -> str:
    joined = texts[0]
    for word, text in zip(words, texts[1:], strict=True):
        joined += _BETWEEN[word][not use_names] + text
    return joined


def _chinese(measures: list[_Measure]) -> str:
    """Both sides as the Chinese Wikipedia writes them: `5公里（3.1英里）`."""
    first, *others = [
        _side(measure, {}, use_names=False)
        if measure.is_composite or measure.unit.code not in CHINESE
        else _joined(measure, use_names=False) + CHINESE[measure.unit.code]
        for measure in measures
    ]
    return f"{first}（{'；'.join(others)}）" if others else first
