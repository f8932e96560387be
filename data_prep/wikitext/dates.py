"""Dates and spans of time: `{{birth date|1879|3|14}}` is March 14, 1879."""

from data_prep.wikitext.arguments import Arguments
from data_prep.wikitext.tables import word_list

_MONTHS = word_list(
    "January February March April May June July August September October November December"
)
_FRENCH_MONTHS = word_list(
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
)
_GERMAN_MONTHS = word_list(
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
)
_CHINESE_ORDER = ("zh", "ja")


def date(given: Arguments) -> str:
    """`{{birth date|1879|3|14}}`: month first, unless `df=yes` says day first."""
    return _date(_numbers(given, 0), given, day_first=bool(given.get("df")))


def ages(given: Arguments) -> str:
    """`{{death date and age|1955|4|18|1879|3|14}}` is April 18, 1955 (aged 76)."""
    died, born = _numbers(given, 0), _numbers(given, 3)
    words = _date(died, given, day_first=bool(given.get("df")))
    years = _years_between(born, died)
    return f"{words} (aged {years})" if words and years is not None else words


def years_between(given: Arguments) -> str:
    """`{{age|1879|3|14|1955|4|18}}` is 76; up to today there is no answer that stays true."""
    years = _years_between(_numbers(given, 0), _numbers(given, 3))
    return "" if years is None else str(years)


def as_of(given: Arguments) -> str:
    """`{{as of|2014|5|lc=y}}` is as of May 2014."""
    numbers = _numbers(given, 0)
    when = _date(numbers, given, day_first=given.get("df").lower() != "us")
    words = given.get("alt") or f"As of {when or given.at(0)}".strip()
    return words[:1].lower() + words[1:] if given.get("lc") else words


def plain_date(given: Arguments) -> str:
    """`{{date|1879-03-14}}` is 14 March 1879; other arguments stay as they were written."""
    parts = given.at(0).split("-")
    if len(given.positional) == 1 and len(parts) == 3:
        numbers = _numbers(Arguments(parts, {}), 0)
        if all(numbers):
            return _date(numbers, given, day_first=True)
    day, month, year = given.at(0), given.at(1), given.at(2)
    return " ".join(filter(None, [day, _local_month(month, given.language), year]))


def circa(given: Arguments) -> str:
    """`{{circa|900|950}}` is c. 900 – c. 950."""
    years = [f"c. {year}" for year in given.positional if year]
    return " – ".join(years) or "c."


def reign(given: Arguments) -> str:
    """`{{reign|1066|1087}}` is r. 1066–1087."""
    return "r. " + "–".join(filter(None, given.positional))


def flourished(given: Arguments) -> str:
    """`{{fl.|1200|1210}}` is fl. 1200–1210."""
    return "fl. " + "–".join(filter(None, given.positional))


def old_style(given: Arguments) -> str:
    """`{{OldStyleDate|February 2|1905|January 20}}`."""
    old = f" (O.S. {given.at(2)})" if given.at(2) else ""
    return f"{given.at(0)} {given.at(1)}".strip() + old


def french_century(given: Arguments) -> str:
    """`{{s|XIX|e}}` is XIXe siècle, `{{s2|XVIII|e|XIX|e}}` is XVIIIe et XIXe siècles."""
    first = f"{given.at(0)}{given.at(1) or 'e'}"
    if given.at(2):
        return f"{first} et {given.at(2)}{given.at(3) or 'e'} siècles"
    return f"{first} siècle" if given.at(0) else ""


def spanish_century(given: Arguments) -> str:
    """`{{siglo|XIX}}` is siglo XIX."""
    return f"siglo {given.at(0)}" if given.at(0) else ""


def _numbers(given: Arguments, start: int) -> list[int]:
    """Year, month and day from an argument on; 0 for what is missing or no number."""
    found = []
    for index in range(start, start + 3):
        text = given.at(index)
        if text.title() in _MONTHS:
            text = str(_MONTHS.index(text.title()) + 1)
        found.append(int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0)
    return found if found[1] <= len(_MONTHS) and found[2] <= 31 else [found[0], 0, 0]


def _date(numbers: list[int], given: Arguments, *, day_first: bool) -> str:
    """A date in the order and the words of the wiki's language."""
    year, month, day = numbers
    if given.language in _CHINESE_ORDER:
        texts = [f"{n}{mark}" for n, mark in zip(numbers, "年月日", strict=True) if n]
        return "".join(texts)
    if not year or not month:
        return str(year) if year else given.at(0)
    if given.language in ("de", "fr"):
        name = _local_month(str(month), given.language)
        point = "." if given.language == "de" else ""
        return f"{day}{point} {name} {year}" if day else f"{name} {year}"
    name = _MONTHS[month - 1]
    if not day:
        return f"{name} {year}"
    return f"{day} {name} {year}" if day_first else f"{name} {day}, {year}"


def _local_month(month: str, language: str) -> str:
    """A month's number as its name; anything else as it is."""
    names = {"fr": _FRENCH_MONTHS, "de": _GERMAN_MONTHS}.get(language, _MONTHS)
    is_number = month.isascii() and month.isdigit() and 1 <= int(month[:4]) <= len(names)
    return names[int(month) - 1] if is_number and len(month) < 3 else month


def _years_between(born: list[int], died: list[int]) -> int | None:
    if not born[0] or not died[0]:
        return None
    return died[0] - born[0] - (died[1:] < born[1:])
