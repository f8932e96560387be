"""What a template is called with: its name and its positional and named arguments."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from data_prep.wikitext.markers import HOLE

MAX_NAME_CHARACTERS = 60
_MODIFIER = re.compile(
    r"\s{0,9}(?:subst|safesubst|template|vorlage|modèle|plantilla|шаблон|模板|msg|msgnw|raw)\s{0,9}:",
    re.IGNORECASE,
)
_KEY = re.compile(r"[\w .-]+\Z")


@dataclass(frozen=True)
class Arguments:
    """What a template was called with, spaces around cut off."""

    positional: list[str]
    named: dict[str, str]
    language: str = ""
    """The wiki's language code; empty where it is not known."""

    def at(self, index: int) -> str:
        """The positional argument at `index`, from 0, or the empty string."""
        return self.positional[index] if index < len(self.positional) else ""

    def get(self, *names: str) -> str:
        """The first of the named arguments that was given, or the empty string."""
        return next((self.named[name] for name in names if self.named.get(name)), "")


Rule = Callable[[Arguments], str]
"""What a template shows for its arguments; the empty string where it shows no words."""


def template_name(head: str) -> str:
    """The name as the rules know it: lower case, one space between words."""
    if len(head) > MAX_NAME_CHARACTERS and ":" not in head[:MAX_NAME_CHARACTERS]:
        return ""
    name = _MODIFIER.sub("", head)
    name = name.partition(":")[0] if ":" in name else name
    return " ".join(name.replace("_", " ").replace(HOLE, "").lower().split())


def arguments(parts: list[str], language: str = "") -> Arguments:
    """Positional and named arguments; `1=x` is the first positional one."""
    numbered: dict[int, str] = {}
    named: dict[str, str] = {}
    place = 0
    for part in parts:
        key, equals, value = part.partition("=")
        key = key.strip() if equals and len(key) <= MAX_NAME_CHARACTERS else ""
        if not key or not _KEY.match(key):
            place += 1
            numbered[place] = part.strip()
        elif key.isascii() and key.isdigit() and len(key) < 3:
            numbered[int(key)] = value.strip()
        else:
            named[key.lower()] = value.strip()
    last = max(numbered, default=0)
    return Arguments([numbered.get(i + 1, "") for i in range(last)], named, language)
