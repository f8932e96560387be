"""Holes: the spaces, commas and brackets that something without words leaves over in a line."""

import re

from data_prep.wikitext.markers import HOLE

_RUN = re.compile(rf"{HOLE}(?:[ ,;:]*{HOLE})+")
_PLAIN = re.compile(rf"{HOLE}(?<=[\w.!?\"”{HOLE}]{HOLE})(?={HOLE}|[ \n]?[\w\"“]|\n\n|\Z)")
_OPENING, _CLOSING = "([（", ")]）"
_LEFT_OVER = " ,;:，；"
_NO_SPACE_BEFORE = (" ", ",", ".", ";", ":", "!", "?", *_CLOSING)
_CURRENCIES = ("$", "£", "€", "¥")


def without_plain_holes(text: str) -> str:
    """The text without holes between two words or sentences, which leave nothing to mend."""
    return _PLAIN.sub("", text)


def mended(text: str) -> str:
    """The line without its holes, as if the words around them had been written without."""
    first, *others = _RUN.sub(HOLE, text).split(HOLE)
    pieces = [first]
    for right in others:
        pieces[-1], right = _edges(pieces[-1], right)
        pieces.append(right)
    return " ".join("".join(pieces).split())


def _edges(left: str, right: str) -> tuple[str, str]:
    """What stands on both sides of a hole, without what only made sense with words between."""
    if left.endswith(_CURRENCIES):
        left = left[:-1]
    bare_left, bare_right = left.rstrip(_LEFT_OVER), right.lstrip(_LEFT_OVER)
    if bare_right[:1] in _CLOSING and bare_right and right[:1] in (" ", bare_right[0]):
        if bare_left[-1:] in _OPENING and bare_left:
            return bare_left[:-1].rstrip(" "), bare_right[1:]
        return bare_left, bare_right
    if bare_left[-1:] in _OPENING and bare_left:
        return bare_left, bare_right
    if right.startswith(_NO_SPACE_BEFORE) or not right:
        left = left.rstrip(" ")
    if right.lstrip(" ").startswith((",", ";", ".")) and left.endswith((",", ";", ":")):
        left = left[:-1]
    return left, right
