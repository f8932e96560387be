"""Lines: which of them are prose, and how they join to paragraphs.

Input is wikitext whose elements, templates, links and tables are already words or holes.
"""

import html
import re
from collections.abc import Callable, Iterator

from data_prep.wikitext.holes import mended
from data_prep.wikitext.links import without_external_links
from data_prep.wikitext.markers import HOLE, unshield
from data_prep.wikitext.names import FILE_PREFIXES, LINK_SECTIONS
from data_prep.wikitext.prose import is_prose_item, is_prose_paragraph

_HEADING = re.compile(r"(={1,6})([^\n]*?)=+[ \t\ufdd0]*\Z")
_LIST_MARKS = "*#:; \t" + HOLE
_HAT_NOTE = re.compile(r":+[ \t\ufdd0]*''[^\n]*''[.:]?[ \t\ufdd0]*\Z")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,30}__")
_VARIANT = re.compile(r"-\{([^{}\n]{0,200})\}-")
_BROKEN_FILE = re.compile(rf"\[\[[ ]?(?:{'|'.join(FILE_PREFIXES)})[ ]?:[^\n]*", re.IGNORECASE)
_BROKEN_TEMPLATE = re.compile(r"\{\{[^\n]*|\{\|[^\n]*")
_STRAY_BRACKETS = re.compile(r"\[\[|\]\]|\}\}")
_QUOTES = re.compile(r"'{2,}")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

_LOOSE_OPENING = re.compile(r"([(\[]) (?=\S)")
_LOOSE_CLOSING = re.compile(r" (?<=[\w\])\"'”’%] )([)\]]|[,.](?= |\Z)(?! \.))")
_ARGUMENTS = re.compile(r"\|[ ]?[\w-]{2,30} ?=")


def paragraphs(text: str) -> Iterator[str]:
    """The prose of a page, a paragraph at a time, in order, without markup.

    Headings, link sections, captions, tables and lists of names are left out. A list item with a
    sentence in it is a paragraph of its own.
    """
    lines: list[str] = []
    hidden_level = 0  # of the heading whose section is left out; 0: none
    for line in _without_broken_brackets(text).split("\n"):
        kind = _kind(line)
        if kind != "prose" and lines:
            yield from _paragraph(" ".join(lines), is_prose_paragraph)
            lines = []
        if kind == "heading":
            hidden_level = _hidden_level(line.strip(), hidden_level)
        elif hidden_level:
            continue
        elif kind == "item":
            yield from _paragraph(line.strip(_LIST_MARKS), is_prose_item)
        elif kind == "prose":
            lines.append(line)
    yield from _paragraph(" ".join(lines), is_prose_paragraph)


def _without_broken_brackets(text: str) -> str:
    """The text without brackets that found no partner, and what hangs on them in their line."""
    text = _MAGIC_WORD.sub("", text)
    if "-{" in text:
        text = _VARIANT.sub(_variant, text)
    text = _BROKEN_FILE.sub(HOLE, text)
    text = _BROKEN_TEMPLATE.sub(HOLE, text)
    return _STRAY_BRACKETS.sub("", text)


def _variant(match: re.Match[str]) -> str:
    """Chinese `-{zh-hans:...; zh-hant:...}-`: the words of its first variant."""
    rule = match[1].rpartition("|")[2] if not match[1].startswith("T|") else ""
    return rule.partition(";")[0].rpartition(":")[2].strip()


def _kind(line: str) -> str:
    """What a line is, by its first character: prose, item, heading, or nothing to read."""
    bare = line.strip(" \t" + HOLE)
    if not bare or bare[0] in "|!" or bare.startswith(("{|", "----")):
        return "nothing"
    if bare[0] == "=" and _HEADING.match(line.strip()):
        return "heading"
    if bare[0] in "*#:;":
        return "nothing" if _HAT_NOTE.match(line) else "item"
    return "prose"


def _hidden_level(line: str, hidden_level: int) -> int:
    """The level of the link section that a heading opens or stays in; 0 where prose follows."""
    match = _HEADING.match(line)
    assert match, "the caller saw a heading"
    level = len(match[1])
    if hidden_level and level > hidden_level:
        return hidden_level
    title = _QUOTES.sub("", match[2]).replace(HOLE, "").strip(" \t:=").casefold()
    return level if title in LINK_SECTIONS else 0


def _paragraph(raw: str, wanted: Callable[[str], bool]) -> Iterator[str]:
    """The paragraph of a raw text where it is prose and no rest of a broken template, else none."""
    words = line_words(raw)
    if words and wanted(words) and not _ARGUMENTS.search(words):
        yield words


def line_words(raw: str) -> str:
    """A text without quotes, addresses, entities and holes, its spaces collapsed."""
    text = without_external_links(raw, HOLE)
    if "''" in text:
        text = _QUOTES.sub(_apostrophes(text), text)
    if "&" in text:
        text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    text = " ".join(text.split())
    if HOLE in text:
        text = mended(text)
    text = _LOOSE_CLOSING.sub(r"\1", _LOOSE_OPENING.sub(r"\1", text))
    return unshield(_STRAY_BRACKETS.sub("", text)).strip()


def _apostrophes(text: str) -> str | Callable[[re.Match[str]], str]:
    """What stands for a run of apostrophes: nothing, or those that belong to the words.

    MediaWiki's rule: if bold and italic are both left open in a line, one bold mark is an
    apostrophe and an italic mark (`l'''amour''`, `''Time'''s`).
    """
    runs = [len(match[0]) for match in _QUOTES.finditer(text)]
    italic = sum(run == 2 or run >= 5 for run in runs) % 2
    bold = sum(run >= 3 for run in runs) % 2
    rescued = runs.index(3) if italic and bold and 3 in runs else -1
    places = iter(range(len(runs)))

    def words(match: re.Match[str]) -> str:
        place, run = next(places), len(match[0])
        extra = run - 5 if run > 5 else int(run == 4)
        return "'" if place == rescued else "'" * extra

    return words
