"""Templates: which calls put words into a sentence, and which words they put."""

from data_prep.wikitext.arguments import arguments, template_name
from data_prep.wikitext.markers import HOLE
from data_prep.wikitext.names import GERMAN_LANGUAGES, LANGUAGES
from data_prep.wikitext.template_rules import RULES, Rule, bracketed, first, in_language


def template_shows_words(head: str) -> bool:
    """True where a template with this head is one that puts words into the line."""
    return _rule(template_name(head)) is not None


def template_words(head: str, parts: list[str]) -> str:
    """The words of a template cut at its bars; `parts[0]` is its name."""
    name = template_name(head)
    rule = _rule(name)
    if rule is None:
        return HOLE
    if ":" in head:  # a parser function: its first argument stands behind the colon
        parts = [name, head.partition(":")[2], *parts[1:]]
    return rule(arguments(parts[1:])) or HOLE


def _rule(name: str) -> Rule | None:
    """The rule of a template, by its name or by the pattern its name follows."""
    if rule := RULES.get(name):
        return rule
    if name.startswith(("lang-", "lang ")):
        return in_language(LANGUAGES.get(name[5:], ""))
    if name.startswith("ipa-"):
        return bracketed
    if name.startswith("script/"):
        return first
    if len(name) == 3 and name.endswith("s") and name[:2] in GERMAN_LANGUAGES:
        return in_language(GERMAN_LANGUAGES[name[:2]])
    return None
