"""From a page's wikitext to its paragraphs of prose: the steps, in order.

    text -> without comments and tags -> one variant -> without templates, links and tables
    -> lines -> paragraphs

Each step takes time in proportion to the text, whatever the text is. Nothing is expanded, so a page
needs no other page of its wiki.
"""

import html
import re

from data_prep.wikitext.elements import without_elements
from data_prep.wikitext.lines import paragraphs
from data_prep.wikitext.markers import without_markers
from data_prep.wikitext.names import ANY_WIKI, Names
from data_prep.wikitext.nesting import without_brackets
from data_prep.wikitext.variants import with_one_variant

_REDIRECT = re.compile(r"\s{0,20}#[^\W\d_]{4,20}\s{0,5}:?\s{0,5}\[\[")


def extract(wikitext: str, names: Names = ANY_WIKI) -> list[str]:
    """The paragraphs of prose of a page; none where it is a redirect.

    `names` are the wiki's own prefixes for files and categories, known from a dump's head; those of
    the larger wikis are known without. Time and memory grow linearly with the page.
    """
    if _REDIRECT.match(wikitext):
        return []
    text = without_elements(without_markers(_unescaped(wikitext)))
    text = with_one_variant(text)
    return list(paragraphs(without_brackets(text, names)))


def _unescaped(wikitext: str) -> str:
    """The text with its tags, where a copy of the page was escaped once too often."""
    if "&lt;ref" in wikitext and "<ref" not in wikitext:
        return html.unescape(wikitext)
    return wikitext
