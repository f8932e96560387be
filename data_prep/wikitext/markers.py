"""Code points that stand for something while a page is taken apart, and never leave it.

They are noncharacters, which Unicode keeps for such use (The Unicode Standard, 23.7); should a page
hold some, they are removed first.
"""

HOLE = "\ufdd0"
"""Something without words stood here, inside a line: spaces and commas around it need mending."""

_SHIELDED = "{}[]|'<>*#:;=&~_!"
_FIRST_SHIELD = 0xFDD1
_SHIELD = {ord(char): chr(_FIRST_SHIELD + i) for i, char in enumerate(_SHIELDED)}
_SHIELDS = list(_SHIELD.values())
_UNSHIELD = {_FIRST_SHIELD + i: char for i, char in enumerate(_SHIELDED)}
_NONCHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
_REMOVED = dict.fromkeys(map(ord, _NONCHARACTERS))


def without_markers(text: str) -> str:
    """The text without code points that would be taken for a marker."""
    return text.translate(_REMOVED) if _holds(text, _NONCHARACTERS) else text


def shield(text: str) -> str:
    """The text with markup characters made opaque, so that no later step reads them as markup."""
    return text.translate(_SHIELD)


def unshield(text: str) -> str:
    """The text with shielded characters back in place."""
    return text.translate(_UNSHIELD) if _holds(text, _SHIELDS) else text


def _holds(text: str, characters: list[str]) -> bool:
    """True where one of the characters is there; a search for each is faster than a pattern."""
    return not text.isascii() and any(character in text for character in characters)
