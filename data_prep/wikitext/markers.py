"""Code points that stand for something while a page is taken apart, and never leave it.

They are noncharacters, which Unicode keeps for such use (The Unicode Standard, 23.7); should a page
hold some, they are removed first.
"""

import re

HOLE = "\ufdd0"
"""Something without words stood here, inside a line: spaces and commas around it need mending."""

_SHIELDED = "{}[]|'<>*#:;=&~_!"
_FIRST_SHIELD = 0xFDD1
_SHIELD = {ord(char): chr(_FIRST_SHIELD + i) for i, char in enumerate(_SHIELDED)}
_UNSHIELD = {_FIRST_SHIELD + i: char for i, char in enumerate(_SHIELDED)}
_NONCHARACTERS = re.compile("[\ufdd0-\ufdef]+")


def without_markers(text: str) -> str:
    """The text without code points that would be taken for a marker."""
    return _NONCHARACTERS.sub("", text)


def shield(text: str) -> str:
    """The text with markup characters made opaque, so that no later step reads them as markup."""
    return text.translate(_SHIELD)


def unshield(text: str) -> str:
    """The text with shielded characters back in place."""
    return text.translate(_UNSHIELD) if _NONCHARACTERS.search(text) else text
