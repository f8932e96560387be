"""Comments and tags: what stands between angle brackets is dropped, or leaves its words.

One pass with a search that never looks at a character twice for the same question: where a closing
tag was not found once, it is not looked for again, so nothing unclosed can make a page slow.
"""

import re

from data_prep.wikitext.formulas import formula_words, reaction_words
from data_prep.wikitext.markers import HOLE, shield
from data_prep.wikitext.tables import word_list

# Elements whose content is no prose. Their text is not looked into.
DROPPED = word_list(
    "gallery timeline score hiero imagemap graph templatedata source syntaxhighlight pre mapframe "
    "maplink categorytree indicator includeonly style script references inputbox charinsert "
    "templatestyles dynamicpagelist quiz poll"
)
FORMULAS, REACTIONS = ("math",), ("ce", "chem")
_BLOCK = word_list(
    "p div blockquote center li ul ol dl dd dt hr h1 h2 h3 h4 h5 h6 poem table tr td th caption "
    "tbody thead section"
)
_INLINE = word_list(
    "span small big i b u s em strong strike del ins sub sup font tt code var samp kbd cite q abbr "
    "dfn mark bdi bdo ruby rb rt rp rtc wbr noinclude onlyinclude nobr nowiki ref references a img "
    "includeonly time data translate tvar languages noeditsection acronym blink"
)

_NAMES = "|".join(["ref", "nowiki", "table", *FORMULAS, *REACTIONS, *DROPPED])
_SPECIAL = re.compile(rf"<!--|<({_NAMES})\b(?![-:])[^<>]*>", re.IGNORECASE)
_TEXT_ELEMENTS = ("nowiki", *FORMULAS, *REACTIONS)
"""Their content is shown as it is, so that one that opens inside another was never closed."""

_CLOSE = {name: re.compile(rf"</{name}\b[^<>]*>", re.IGNORECASE) for name in DROPPED} | {
    name: re.compile(rf"<(/?){name}\b(?![-:])[^<>]*>", re.IGNORECASE) for name in _TEXT_ELEMENTS
}
_REF = re.compile(r"</ref\b[^<>]*>|<ref\b[^<>]*>", re.IGNORECASE)
_TABLE = re.compile(r"<(/?)table\b[^<>]*>", re.IGNORECASE)
_POWER = re.compile(r"<sup>(?<=[0-9]<sup>)(?=(?:'')?(?:[-+−–]?[0-9]|[nkxmij]\b))")
_LINE_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_BLOCK_TAG = re.compile(rf"</?(?:{'|'.join(_BLOCK)})\b(?![-:])[^<>]*>", re.IGNORECASE)
_INLINE_TAG = re.compile(rf"</?(?:{'|'.join(_INLINE)})\b(?![-:])[^<>]*>", re.IGNORECASE)
_BROKEN_TAG = re.compile(rf"</?(?:{_NAMES})(?![A-Za-z0-9])[^<>\n]*", re.IGNORECASE)


def without_elements(text: str) -> str:
    """Wikitext without comments and tags: words of transparent elements stay, the rest is a hole.

    The content of `<nowiki>` comes back shielded. An unclosed comment hides the rest of the page,
    as MediaWiki has it; an unclosed reference hides its line; of other unclosed elements
    only the tag goes.
    """
    if "<" not in text:
        return text
    return _plain_tags(_special_elements(text))


def _special_elements(text: str) -> str:
    """The text without comments, references, formulas and the like, whose content is no markup."""
    pieces: list[str] = []
    unclosed: set[str] = set()
    at = 0
    while match := _SPECIAL.search(text, at):
        pieces.append(text[at : match.start()])
        left, at = _element(text, match, unclosed)
        pieces.append(left)
    pieces.append(text[at:])
    return "".join(pieces)


def _element(text: str, opening: re.Match[str], unclosed: set[str]) -> tuple[str, int]:
    """What is left of the element that opens here, and where the text goes on behind it."""
    if opening[1] is None:
        return _comment(text, opening)
    name = opening[1].lower()
    if opening[0].endswith("/>"):
        return (HOLE if name == "ref" else ""), opening.end()
    if name == "ref":
        return HOLE, _end_of_reference(text, opening.end())
    if name in unclosed:
        return "", opening.end()
    start, end = _content(text, opening, name)
    if start < 0:
        if end < 0:
            unclosed.add(name)
        return "", opening.end()
    return _left_words(name, text[opening.end() : start]), end


def _comment(text: str, opening: re.Match[str]) -> tuple[str, int]:
    """A comment leaves nothing, and takes its line with it where it is alone there."""
    end = text.find("-->", opening.end())
    if end < 0:
        return "", len(text)
    end += 3
    alone = opening.start() == 0 or text[opening.start() - 1] == "\n"
    return "", end + 1 if alone and text[end : end + 1] == "\n" else end


def _end_of_reference(text: str, start: int) -> int:
    """Where a reference ends: its closing tag, or its line if another reference opens first."""
    match = _REF.search(text, start)
    if match and match[0].startswith("</"):
        return match.end()
    end = match.start() if match else len(text)
    line_end = text.find("\n", start, end)
    return line_end if line_end >= 0 else end


def _content(text: str, opening: re.Match[str], name: str) -> tuple[int, int]:
    """Start and end of the tag that closes an element; both below 0 where there is none.

    Where another one opens first, the end is where the text goes on, behind the unclosed tag.
    """
    if name != "table":
        closing = _CLOSE[name].search(text, opening.end())
        if closing and name in _TEXT_ELEMENTS and not closing[1]:
            return -1, opening.end()
        return closing.span() if closing else (-1, -1)
    depth = 1
    for tag in _TABLE.finditer(text, opening.end()):
        depth += -1 if tag[1] else 1
        if not depth:
            return tag.span()
    return -1, -1


def _left_words(name: str, content: str) -> str:
    """What a closed element puts into the line."""
    if name == "nowiki":
        return shield(content)
    if name in FORMULAS:
        return shield(formula_words(content)) or HOLE
    if name in REACTIONS:
        return shield(reaction_words(content)) or HOLE
    return "\n\n" if "\n" in content or name == "table" else HOLE


def _plain_tags(text: str) -> str:
    """The text without the tags that only arrange words; blocks become lines of their own."""
    text = _POWER.sub("^", text)
    text = _LINE_BREAK.sub(" ", text)
    text = _BLOCK_TAG.sub("\n\n", text)
    return _BROKEN_TAG.sub("", _INLINE_TAG.sub("", text))
