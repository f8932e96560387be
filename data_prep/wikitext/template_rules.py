"""What the templates inside sentences show: rules from a call's arguments to its words."""

import re

from data_prep.wikitext.arguments import Arguments, Rule
from data_prep.wikitext.formulas import formula_words
from data_prep.wikitext.markers import shield
from data_prep.wikitext.measures import measure_words, unit_words
from data_prep.wikitext.parser_functions import grouped_number

MAX_ENTRY_CHARACTERS = 80
"""Entries of a list in a line are not longer."""


def constant(words: str) -> Rule:
    """A rule that always shows the same."""
    return lambda _: words


def first(given: Arguments) -> str:
    """The first argument."""
    return given.at(0) or given.get("text", "content", "inhalt")


def second(given: Arguments) -> str:
    """The second argument."""
    return given.at(1) or given.get("text")


def second_or_first(given: Arguments) -> str:
    """The second argument, or the first where it is the only one."""
    return given.at(1) or first(given)


def last(given: Arguments) -> str:
    """The last argument."""
    return given.positional[-1] if given.positional else given.get("text")


def spaced(given: Arguments) -> str:
    """All arguments with spaces between."""
    return " ".join(filter(None, given.positional))


def joined(given: Arguments) -> str:
    """All arguments without anything between."""
    return "".join(given.positional)


def around(before: str, after: str = "") -> Rule:
    """The first argument between two constants."""
    return lambda given: f"{before}{given.at(0)}{after}" if given.at(0) else ""


def before_number(words: str) -> Rule:
    """A sign or an abbreviation, which may stand alone, before the first argument."""
    return lambda given: f"{words}{given.at(0)}"


def quotation(given: Arguments) -> str:
    """A block quotation: a paragraph of its own."""
    words = given.get("text", "quote", "content", "цитата") or given.at(0)
    return f"\n\n{words}\n\n" if words else ""


def definition_term(given: Arguments) -> str:
    """A term of a glossary: what a definition list opens with."""
    return f"\n;{given.at(0)}\n" if given.at(0) else ""


def definition(given: Arguments) -> str:
    """What a glossary says of its term: an item of a definition list."""
    return f"\n:{first(given)}\n" if first(given) else ""


def fraction(given: Arguments) -> str:
    """`{{frac|1|2|3}}` is 1 2/3, `{{frac|2|3}}` is 2/3 and `{{frac|3}}` is 1/3."""
    parts = given.positional[:3]
    if len(parts) == 1:
        parts = ["1", *parts]
    if len(parts) < 2:
        return ""
    *whole, over, under = parts
    over, under = (f"({part})" if _SUM.search(part) else part for part in (over, under))
    return " ".join([*filter(None, whole), f"{over}/{under}"])


def value(given: Arguments) -> str:
    """`{{val|6.241|0.002|e=18|u=C}}` is 6.241±0.002×10^18 C."""
    number = given.at(0)
    if number and given.at(1):
        above, below = given.at(1).lstrip("+"), given.at(2).lstrip("-−")
        number += f" +{above} −{below}" if below else f"±{above}"
    if exponent := given.get("e"):
        number = f"{number}×10^{exponent}" if number else f"10^{exponent}"
    unit = given.get("u", "ul")
    if per := given.get("up", "upl"):
        unit = f"{unit}/{per}" if unit else f"per {per}"
    return f"{given.get('p')}{number} {unit}{given.get('s')}".strip()


def power(given: Arguments) -> str:
    """`{{10^|6}}` is 10^6."""
    return f"10^{given.at(0)}" if given.at(0) else "10"


def measure(given: Arguments) -> str:
    """`{{convert|5|km|mi}}`."""
    return measure_words(given.positional, given.named, given.language)


def short_measure(given: Arguments) -> str:
    """`{{cvt|5|km|mi}}`, which writes symbols where `convert` writes names."""
    return measure_words(given.positional, {"abbr": "on", **given.named}, given.language)


def given_measure(given: Arguments) -> str:
    """A number and its unit, without another one beside it: `{{unité|5|km}}`."""
    return f"{given.at(0)} {unit_words(given.at(1))}".strip()


def height(given: Arguments) -> str:
    """`{{height|ft=6|in=2}}`, `{{height|m=1.85}}`; German `{{Höhe|1200|DE-NN}}` is 1200 m."""
    if feet := given.get("ft"):
        parts = [feet, "ft", given.get("in") or "0", "in", "m"]
        return measure_words(parts, {"abbr": "on"}, given.language)
    if metres := given.get("m"):
        return measure_words([metres, "m", "ftin"], {"abbr": "on"}, given.language)
    return f"{given.at(0)} m" if given.at(0) else ""


_SUM = re.compile(r"\S[+−/ ]|\S-")
_GAUGES = {
    "sg": "1,435 mm (4 ft 8 1/2 in)", "ussg": "4 ft 8 1/2 in (1,435 mm)",
    "1435": "1,435 mm (4 ft 8 1/2 in)", "1000": "1,000 mm (3 ft 3 3/8 in)",
    "metre": "1,000 mm (3 ft 3 3/8 in)", "1067": "1,067 mm (3 ft 6 in)",
    "cape": "1,067 mm (3 ft 6 in)", "1520": "1,520 mm (4 ft 11 27/32 in)",
    "1524": "1,524 mm (5 ft)", "1600": "1,600 mm (5 ft 3 in)", "irish": "1,600 mm (5 ft 3 in)",
    "1668": "1,668 mm (5 ft 5 21/32 in)", "1676": "1,676 mm (5 ft 6 in)",
    "914": "914 mm (3 ft)", "762": "762 mm (2 ft 6 in)", "760": "760 mm (2 ft 5 15/16 in)",
    "750": "750 mm (2 ft 5 1/2 in)", "610": "610 mm (2 ft)", "600": "600 mm (1 ft 11 5/8 in)",
}  # fmt: skip
_GAUGE_FEET = re.compile(r"([0-9]{1,2}) ?ft ?(?:([0-9./]{1,6}) ?in)?\Z")


def track_gauge(given: Arguments) -> str:
    """`{{track gauge|1435mm}}` is 1,435 mm (4 ft 8 1/2 in)."""
    code = given.at(0).lower()
    if match := _GAUGE_FEET.match(code):
        return f"{match[1]} ft {match[2]} in" if match[2] else f"{match[1]} ft"
    number = code.removesuffix("mm").strip()
    return _GAUGES.get(number) or (f"{number} mm" if number.isdigit() else code)


def thousands(given: Arguments) -> str:
    """`{{nts|1234}}` is 1,234, with the marks of the wiki's language."""
    return grouped_number([given.at(0)], given.language)


def formula(given: Arguments) -> str:
    """LaTeX in a template: `{{tmath|x^2}}`."""
    return shield(formula_words(given.at(0)))


def ship(given: Arguments) -> str:
    """`{{ship|HMS|Victory}}` is HMS Victory."""
    return f"{given.at(0)} {given.at(1)}".strip()


def ship_class(given: Arguments) -> str:
    """`{{sclass|Nimitz|aircraft carrier}}` is Nimitz-class aircraft carrier."""
    return f"{given.at(0)}-class {given.at(1)}".strip() if given.at(0) else ""


def verse(given: Arguments) -> str:
    """`{{bibleverse||Mark|3:25|KJV}}` is Mark 3:25."""
    return " ".join([part for part in given.positional if part][:2])


def sura(given: Arguments) -> str:
    """`{{cite quran|29|46}}` is Quran 29:46."""
    return "Quran " + ":".join(given.positional[:2]) if given.at(0) else ""


def entries_in_line(given: Arguments) -> str:
    """Entries in a line; sentences and lists of their own are list items."""
    if any(part.startswith("*") or len(part) > MAX_ENTRY_CHARACTERS for part in given.positional):
        items = (part if part[:1] in "*#" else f"* {part}" for part in given.positional if part)
        return "\n" + "\n".join(items) + "\n"
    return ", ".join(filter(None, given.positional))


def column_list(given: Arguments) -> str:
    """`{{columns-list|3|entries}}`: the number of columns is no entry."""
    is_count = given.at(0).isascii() and given.at(0).isdigit()
    return entries_in_line(Arguments(given.positional[is_count:], given.named))


def music(given: Arguments) -> str:
    """`B{{music|flat}}` is B♭; other signs stay as they were named."""
    signs = {"flat": "♭", "sharp": "♯", "natural": "♮", "b": "♭", "#": "♯"}
    return signs.get(given.at(0), given.at(0))


def density(given: Arguments) -> str:
    """`{{pop density|3645257|640081.87|km2}}` is 5.7/km²."""
    try:
        people, area = (float(given.at(index).replace(",", "")) for index in (0, 1))
        return f"{people / area:.1f}/{unit_words(given.at(2))}"
    except (ValueError, ZeroDivisionError, OverflowError):
        return ""


def author(given: Arguments) -> str:
    """`{{harvtxt|Boolos|Jeffrey|1974}}` is Boolos & Jeffrey (1974)."""
    *authors, year = given.positional or [""]
    return f"{' & '.join(authors)} ({year})" if authors else ""


def as_in_source(given: Arguments) -> str:
    """`{{sic|teh}}` is teh [sic]."""
    words = joined(given)
    return words if given.get("hide") else f"{words} [sic]".strip()


def nuclide(given: Arguments) -> str:
    """`{{nuclide|uranium|235}}` is uranium-235."""
    return f"{given.at(0)}-{given.at(1)}" if given.at(1) else given.at(0)


def rupees(given: Arguments) -> str:
    """`{{INRConvert|5|c}}` is ₹5 crore."""
    scales = {
        "l": "lakh", "c": "crore", "m": "million", "b": "billion", "k": "thousand",
        "lc": "lakh crore", "t": "trillion",
    }  # fmt: skip
    return f"₹{given.at(0)} {scales.get(given.at(1), '')}".strip() if given.at(0) else ""


def law(before: str) -> Rule:
    """German `{{§|1|BGB}}` is § 1 BGB, `{{Art.|1|GG}}` is Art. 1 GG."""
    return lambda given: f"{before} {given.at(0)} {given.at(1).upper()}".strip()
