"""Parser functions: `{{#if:...}}` and its like, and what they leave where no wiki runs them.

What would need a wiki, a clock or a page's own title is a hole. Conditions whose answer cannot be
known here count as true, since the longer answer is written for the page as it is read.
"""

from collections.abc import Callable

from data_prep.wikitext.formulas import formula_words
from data_prep.wikitext.markers import shield

Function = Callable[[list[str], str], str]
"""Arguments, the first from behind the colon, and the wiki's language -> words."""

_POINT_BETWEEN_THOUSANDS = frozenset(
    ["de", "es", "it", "nl", "pt", "id", "da", "tr", "el", "ro", "sl", "hr", "sr", "ca", "gl", "vi"]
)
_SPACE_BETWEEN_THOUSANDS = frozenset(
    ["fr", "ru", "uk", "pl", "cs", "sv", "fi", "no", "nb", "nn", "hu", "bg", "sk", "et", "lv", "lt"]
)


def _at(parts: list[str], index: int) -> str:
    return parts[index].strip() if index < len(parts) else ""


def _if(parts: list[str], _: str) -> str:
    return _at(parts, 1 if _at(parts, 0) else 2)


def _if_equal(parts: list[str], _: str) -> str:
    return _at(parts, 2 if _at(parts, 0) == _at(parts, 1) else 3)


def _then(parts: list[str], _: str) -> str:
    return _at(parts, 1)


def _no_error(parts: list[str], _: str) -> str:
    return _at(parts, 2) if len(parts) > 2 else _at(parts, 0)


def _switch(parts: list[str], _: str) -> str:
    """The value of the case that is equal, of the cases behind it where it has none itself."""
    wanted, found, default = _at(parts, 0), False, ""
    for part in parts[1:]:
        case, equals, value = part.partition("=")
        found = found or case.strip() == wanted
        if equals and found:
            return value.strip()
        if equals and case.strip() == "#default":
            default = value.strip()
    return _at(parts, -1) if len(parts) > 1 and "=" not in parts[-1] else default


def _tag(parts: list[str], _: str) -> str:
    name, content = _at(parts, 0).lower(), _at(parts, 1)
    if name == "nowiki":
        return shield(content)
    if name in ("math", "chem", "ce"):
        return shield(formula_words(content))
    if name in ("blockquote", "poem", "div", "p"):
        return f"\n\n{content}\n\n"
    return content if name in ("span", "small", "big", "sub", "sup", "i", "b", "u") else ""


def grouped_number(parts: list[str], language: str) -> str:
    """A number with the marks between thousands that the wiki's language has."""
    number = _at(parts, 0)
    if _at(parts, 1) == "R":
        return number.replace(",", "")
    whole, point, decimals = number.replace(",", "").partition(".")
    if not (whole.lstrip("-−").isascii() and whole.lstrip("-−").isdigit() and len(whole) < 30):
        return number
    grouped = f"{int(whole.replace('−', '-')):,}"
    if language in _POINT_BETWEEN_THOUSANDS:
        return grouped.replace(",", ".") + (f",{decimals}" if point else "")
    if language in _SPACE_BETWEEN_THOUSANDS:
        return grouped.replace(",", "\u00a0") + (f",{decimals}" if point else "")
    return grouped + point + decimals


def _plural(parts: list[str], _: str) -> str:
    return _at(parts, 1 if _at(parts, 0) == "1" or len(parts) < 3 else 2)


def _first(parts: list[str], _: str) -> str:
    return _at(parts, 0)


FUNCTIONS: dict[str, Function] = {
    "#if": _if,
    "#ifeq": _if_equal,
    "#ifexpr": _then,
    "#ifexist": _then,
    "#iferror": _no_error,
    "#switch": _switch,
    "#tag": _tag,
    "formatnum": grouped_number,
    "plural": _plural,
    "lc": lambda parts, _: _at(parts, 0).lower(),
    "uc": lambda parts, _: _at(parts, 0).upper(),
    "lcfirst": lambda parts, _: _at(parts, 0)[:1].lower() + _at(parts, 0)[1:],
    "ucfirst": lambda parts, _: _at(parts, 0)[:1].upper() + _at(parts, 0)[1:],
    "padleft": _first,
    "padright": _first,
    "#dateformat": _first,
    "#formatdate": _first,
}


def function_words(name: str, parts: list[str], language: str) -> str:
    """The words of a parser function cut at its bars; `parts[0]` holds its name and argument."""
    values = [parts[0].partition(":")[2], *parts[1:]]
    return FUNCTIONS[name](values, language)
