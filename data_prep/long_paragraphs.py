"""Paragraphs of bounded length: what comes later holds a few of them at once, and stays linear.

A paragraph of a hundred megabytes is as a rule a file without line ends. It is cut at the ends of
sentences, where there is none at spaces, and where there is none either between two characters that
make no one sign together. Only the spaces at the cuts are lost.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from data_prep.sentences import inner_ends

MAX_PARAGRAPH_CHARACTERS = 100_000
"""A longer paragraph becomes several."""

_LOOK_BACK = 4000  # characters before the limit, in which a cut is looked for
_MAX_SIGN = 64  # characters that one sign may have before it is cut nonetheless
_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_JOINER = "\u200d"
_SURROGATE = re.compile("[\ud800-\udfff]")


def within_limit(paragraphs: Iterable[str], limit: int = MAX_PARAGRAPH_CHARACTERS) -> Iterator[str]:
    """The paragraphs, those of more than `limit` characters in several."""
    for paragraph in paragraphs:
        if len(paragraph) <= limit:
            yield paragraph
        else:
            yield from _pieces(paragraph, limit)


def _pieces(paragraph: str, limit: int) -> Iterator[str]:
    start = 0
    while len(paragraph) - start > limit:
        stop = _cut(paragraph, start, start + limit)
        yield paragraph[start:stop].rstrip()
        start = stop
        while paragraph[start : start + 1].isspace():
            start += 1
    if start < len(paragraph):
        yield paragraph[start:]


def _cut(paragraph: str, start: int, limit: int) -> int:
    """Where a piece from `start` ends, at most at `limit` and behind at least one character."""
    first = max(start, limit - _LOOK_BACK)
    window = paragraph[first:limit]
    found = inner_ends([_SURROGATE.sub("_", window)])
    if len(found):
        return first + int(found[-1])
    words = window.rsplit(None, 1)
    if len(words) > 1:
        return first + len(words[0])
    for place in range(limit, max(first, limit - _MAX_SIGN), -1):
        if not _belongs_together(paragraph[first:place], paragraph[place]):
            return place
    return limit


def _belongs_together(text: str, after: str) -> bool:
    """Whether the last character of a text and the next one may be parts of one sign.

    After Unicode's UAX 29, simplified.
    """
    before = text[-1]
    if _JOINER in (before, after) or unicodedata.category(after)[0] == "M":
        return True
    if "\u1100" <= before <= "\u11ff" and "\u1100" <= after <= "\u11ff":  # Hangul in parts
        return True
    if "\U0001f1e6" <= before <= "\U0001f1ff":  # two letters make a flag
        return len(text) - len(text.rstrip(_FLAG_LETTERS)) & 1 == 1
    return "\U0001f3fb" <= after <= "\U0001f3ff" or "\ud800" <= before <= "\udbff"  # skin tones
