"""Places on the earth and in the sky: `{{coord|41|54|N|12|30|E}}` is 41°54′N 12°30′E."""

import re

from data_prep.wikitext.arguments import Arguments

_SIGNS = ("°", "′", "″")
_NUMBER = re.compile(r"[-+−]?[0-9]{1,3}(?:\.[0-9]{1,12})?\Z")


def coordinates(given: Arguments) -> str:
    """Latitude and longitude; nothing where they stand in the page's title only."""
    display = given.get("display")
    if display in ("title", "t") or given.at(0) == "":
        return ""
    texts: list[str] = []
    numbers: list[str] = []
    for part in given.positional:
        if part.upper() in ("N", "S", "E", "W", "O") and numbers:
            texts.append(_degrees(numbers) + part.upper())
            numbers = []
        elif _NUMBER.match(part):
            numbers.append(part)
        else:
            break
    if len(numbers) == 2 and not texts:
        halves = zip(numbers, ("NS", "EW"), strict=True)
        texts = [f"{n.lstrip('-+−')}°{names[n[0] in '-−']}" for n, names in halves]
    return " ".join(texts) if len(texts) == 2 else ""


def right_ascension(given: Arguments) -> str:
    """`{{RA|13|20|5}}` is 13h 20m 5s."""
    units = zip(given.positional[:3], "hms", strict=False)
    return " ".join(f"{number}{unit}" for number, unit in units if number)


def declination(given: Arguments) -> str:
    """`{{DEC|+5|2|1}}` is +5° 2′ 1″."""
    units = zip(given.positional[:3], _SIGNS, strict=False)
    return " ".join(f"{number}{unit}" for number, unit in units if number)


def _degrees(numbers: list[str]) -> str:
    return "".join(f"{number}{sign}" for number, sign in zip(numbers, _SIGNS, strict=False))
