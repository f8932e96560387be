"""Lines: which of them are prose, and how they join to paragraphs.

Input is wikitext whose elements, templates, links and tables are already words or holes.
"""

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from data_prep.wikitext.holes import mended, without_plain_holes
from data_prep.wikitext.links import without_external_links, without_web_prefix
from data_prep.wikitext.markers import HOLE, unshield
from data_prep.wikitext.names import FILE_PREFIXES, LINK_SECTIONS, WORK_SECTIONS
from data_prep.wikitext.prose import is_prose_item, is_prose_paragraph
from data_prep.wikitext.variants import with_one_variant

_HEADING = re.compile(r"(={1,6})([^\n]*?)=+[ \t\ufdd0]*\Z")
_SPACES = " \t" + HOLE
_LIST_MARKS = "*#:;" + _SPACES
_DEFINITION = re.compile(r"\s:\s?|:\s")
_HAT_NOTE = re.compile(r":+[ \t\ufdd0]*''[^\n]*''[.:]?[ \t\ufdd0]*\Z")
_MAGIC_WORD = re.compile(r"__(?:[A-ZÄÖÜ][A-ZÄÖÜ_]{2,40}|[\u4e00-\u9fff]{2,12})__")
_BROKEN_FILE = re.compile(rf"\[\[[ ]?(?:{'|'.join(FILE_PREFIXES)})[ ]?:[^\n]*", re.IGNORECASE)
_BROKEN_TEMPLATE = re.compile(r"\{\{[^\n]*|\{\|[^\n]*")
_STRAY_BRACKETS = re.compile(r"\[\[|\]\]|\|\}+|\{\|+|\}{2,}|\{{2,}|-\{(?:[A-Z]{1,2}\|)?|\}-")
_QUOTES = re.compile(r"'{2,}")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

_LOOSE_OPENING = re.compile(r" (?<=[(\[] )(?=\S)")
_LOOSE_CLOSING = re.compile(r" (?=[)\],.])(?<=[\w\])\"'”’%–$°] )(?=[)\]]|[,.](?: |\Z)(?! \.))")
_LONE_BAR = re.compile(r"(?<=[\s(])\|(?=\w)")
_ARGUMENTS = re.compile(r"\|[ ]?[\w-]{2,30} ?=")


MAX_PREFORMATTED_CHARACTERS = 100
"""A line behind a space is shown as it was typed, code mostly; longer ones are mistyped prose."""


@dataclass(frozen=True)
class _Section:
    """The heading whose section is left out, wholly or only its lists."""

    level: int = 0
    """How many `=` it has; 0 where nothing is left out."""

    keeps_prose: bool = True


def paragraphs(text: str) -> Iterator[str]:
    """The prose of a page, a paragraph at a time, in order, without markup.

    Headings, link sections, captions, tables and lists of names are left out. A list item with a
    sentence in it is a paragraph of its own; a term goes with its definition.
    """
    lines: list[str] = []
    section, term = _Section(), ""
    for line in _without_broken_brackets(text).split("\n"):
        kind = _kind(line)
        if kind != "prose" and lines:
            yield from _paragraph(" ".join(lines), is_prose_paragraph)
            lines = []
        if kind != "item":
            term = ""
        if kind == "heading":
            section = _section(line.strip(), section)
        elif not section.keeps_prose:
            continue
        elif kind == "item" and not section.level:
            item = _item(line, term)
            term = item if line.lstrip(_SPACES)[0] == ";" else ""
            yield from _paragraph(item, is_prose_item)
        elif kind == "prose":
            lines.append(line)
    yield from _paragraph(" ".join(lines), is_prose_paragraph)


def _item(line: str, term: str) -> str:
    """A list item without its marks, behind the term that it defines."""
    bare = line.lstrip(_SPACES)
    words = bare.lstrip(_LIST_MARKS)
    if bare[0] == ";":  # a term, with its definition behind a colon or in the next line
        return _DEFINITION.sub(": ", words, count=1)
    return f"{term.rstrip(' :')}: {words}" if term and bare[0] == ":" else words


def _without_broken_brackets(text: str) -> str:
    """The text without brackets that found no partner, and what hangs on them in their line."""
    text = _MAGIC_WORD.sub("", text)
    text = with_one_variant(text)
    if "[[" in text:
        text = _BROKEN_FILE.sub(HOLE, text)
    if "{{" in text or "{|" in text:
        text = _BROKEN_TEMPLATE.sub(HOLE, text)
    return without_plain_holes(text)


def _without_stray_brackets(text: str) -> str:
    if "[" in text or "]" in text or "{" in text or "}" in text:
        return _STRAY_BRACKETS.sub("", text)
    return text


def _kind(line: str) -> str:
    """What a line is, by its first character: prose, item, heading, or nothing to read."""
    bare = line.strip(_SPACES)
    if not bare or bare[0] in "|!" or bare.startswith(("{|", "----")):
        return "nothing"
    if line[0] == " " and len(line) < MAX_PREFORMATTED_CHARACTERS and bare[0] not in "=*#:;":
        return "nothing"
    if bare[0] == "=" and _HEADING.match(line.strip()):
        return "heading"
    if bare[0] in "*#:;":
        return "nothing" if _HAT_NOTE.match(line) else "item"
    return "prose"


def _section(line: str, section: _Section) -> _Section:
    """What a heading leaves out: a section of links all, a list of works its items."""
    match = _HEADING.match(line)
    assert match, "the caller saw a heading"
    level = len(match[1])
    if section.level and level > section.level:
        return section
    title = _QUOTES.sub("", match[2]).replace(HOLE, "").strip(" \t:=").casefold()
    if title in LINK_SECTIONS:
        return _Section(level, keeps_prose=False)
    return _Section(level) if title in WORK_SECTIONS else _Section()


def _paragraph(raw: str, wanted: Callable[[str], bool]) -> Iterator[str]:
    """The paragraph of a raw text where it is prose and no rest of a broken template, else none."""
    words = line_words(raw)
    if words and wanted(words) and not _ARGUMENTS.search(words):
        yield words


def line_words(raw: str) -> str:
    """A text without quotes, addresses, entities and holes, its spaces collapsed."""
    text = without_web_prefix(without_external_links(raw, HOLE))
    if "''" in text:
        text = _QUOTES.sub(_apostrophes(text), text)
    if "&" in text:
        text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    text = _without_stray_brackets(text)
    if "|" in text and text.count("|") == 1:
        text = _LONE_BAR.sub("", text)
    text = " ".join(text.split())
    if HOLE in text:
        text = " ".join(_without_stray_brackets(mended(text)).split())
    if "( " in text or "[ " in text:
        text = _LOOSE_OPENING.sub("", text)
    if " )" in text or " ]" in text or " ," in text or " ." in text:
        text = _LOOSE_CLOSING.sub("", text)
    return unshield(text).strip()


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
