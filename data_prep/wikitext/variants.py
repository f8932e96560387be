"""Language variants: `-{zh-hans:计算机; zh-hant:電腦}-` shows one of its words."""

import re

from data_prep.wikitext.tables import word_list

PREFERRED = word_list("zh-hans zh-cn zh sr-ec kk-cyrl")
"""The variants that are taken where a text has them; else the first one."""

_VARIANT = re.compile(r"-\{([^{}\n]{0,500})\}-")
_RULE = re.compile(r"(?:[^:;|=]{1,80}=>)?\s*([a-z]{2,3}(?:-[a-z]{2,10}){0,2})\s*:(.*)", re.DOTALL)
_HIDDEN_FLAGS = frozenset("HT-N")
MAX_NESTING = 3


def with_one_variant(text: str) -> str:
    """The text with one variant of each of its `-{...}-`; `-{H|...}-` and `-{T|...}-` show none."""
    for _ in range(MAX_NESTING):  # from the inside out
        if "-{" not in text:
            break
        text = _VARIANT.sub(_words, text)
    return text


def _words(match: re.Match[str]) -> str:
    flags, bar, content = match[1].rpartition("|")
    names = {flag.strip() for flag in flags.split(";")}
    if bar and not names.isdisjoint(_HIDDEN_FLAGS):
        return ""
    rules = [found for part in content.split(";") if (found := _RULE.match(part.strip()))]
    if not rules:
        return content.strip()
    words = {rule[1]: rule[2].strip() for rule in reversed(rules)}
    return next((words[code] for code in PREFERRED if words.get(code)), rules[0][2].strip())
