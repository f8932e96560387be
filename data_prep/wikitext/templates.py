"""Templates: which calls put words into a sentence, and which words they put."""

import re
from functools import lru_cache

from data_prep.wikitext.arguments import Rule, arguments, template_name
from data_prep.wikitext.languages import (
    bracketed,
    chinese_other_wiki,
    german_label,
    in_language,
    pronunciation,
)
from data_prep.wikitext.markers import HOLE
from data_prep.wikitext.parser_functions import FUNCTIONS, function_words
from data_prep.wikitext.template_names import RULES
from data_prep.wikitext.template_rules import constant, first, quotation

MAX_KNOWN_NAMES = 10_000
"""So many names keep the rule that was found for them."""

_CENTURY = re.compile(r"[ivx]{1,6}e siècle\Z")
_PLAIN_FRACTION = re.compile(r"[0-9]{1,2}/[0-9]{1,2}\Z")


def template_shows_words(head: str) -> bool:
    """True where a template with this head is one that puts words into the line."""
    name = template_name(head)
    return (name in FUNCTIONS and ":" in head) or _rule(name) is not None


def template_words(parts: list[str], language: str) -> str:
    """The words of a template cut at its bars; `parts[0]` is its name."""
    name = template_name(parts[0])
    if name in FUNCTIONS and ":" in parts[0]:
        return function_words(name, parts, language) or HOLE
    rule = _rule(name)
    return (rule(arguments(parts[1:], language)) if rule else "") or HOLE


@lru_cache(MAX_KNOWN_NAMES)
def _rule(name: str) -> Rule | None:
    """The rule of a template, by its name or by the pattern its name follows."""
    return RULES.get(name) or _rule_of_pattern(name)


def _rule_of_pattern(name: str) -> Rule | None:
    """The rule of a family of templates whose names say the language or the words."""
    if name.startswith(("lang-", "lang ")):
        return in_language(name[5:])
    if name.startswith("ipac-"):
        return pronunciation
    if name.startswith("ipa-"):
        return bracketed
    if name.startswith("script/"):
        return first
    if name.startswith("link-"):
        return chinese_other_wiki
    if name.startswith("zitat-"):
        return quotation
    if _PLAIN_FRACTION.match(name):
        return constant(name)
    if _CENTURY.match(name):
        return constant(f"{name.split('e ')[0].upper()}e siècle")
    return german_label(name)
