"""Prose or not: sentences are kept, names, table cells and lists of titles are not."""

import re

MIN_PARAGRAPH_CHARACTERS = 20
MIN_UNENDED_CHARACTERS = 60
MIN_ITEM_CHARACTERS = 40
WIDE_CHARACTER_WEIGHT = 3
"""A Chinese, Japanese or Korean character says as much as three letters."""

_END = re.compile(r"[.!?。！？…।॥؟۔։።។။][\"'”’»›)\]）」』】〉》]{0,3}\Z")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")
_SPACELESS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_REFERENCE = re.compile(r"\bISBN\b|\bISSN\b|\bdoi:|\bOCLC\b|\bpp?\. ?[0-9]")
_LOWER_WORD = re.compile(r"(?:^|[\s(\"“'])[^\W\d_A-Z]{2,}")
_TWO_LOWER_WORDS = re.compile(rf"{_LOWER_WORD.pattern}.*?[\s(\"“'][^\W\d_A-Z]{{2,}}", re.DOTALL)
HEAD_CHARACTERS = 300
"""So much of a text is looked at to tell words from names."""

MIN_LOWER_SHARE = 0.5
"""So many words of a list item without an end are written small where it says something."""


def is_prose_paragraph(text: str) -> bool:
    """True for a paragraph that ends as a sentence does, or is long enough to hold one."""
    if not _is_long(text, MIN_PARAGRAPH_CHARACTERS):
        return False
    if not (_ends_sentence(text) or _is_long(text, MIN_UNENDED_CHARACTERS)):
        return False
    return _has_words(text)


def is_prose_item(text: str) -> bool:
    """True for a list item that is a sentence, or long and no name, and no source of the page."""
    if not _is_long(text, MIN_ITEM_CHARACTERS):
        return False
    if not (_ends_sentence(text) or _is_description(text)):
        return False
    return _has_words(text) and not _REFERENCE.search(text)


def _is_description(text: str) -> bool:
    """True for a text without an end that is long and holds few names."""
    if len(text) < MIN_UNENDED_CHARACTERS:
        return False
    num_lower = len(_LOWER_WORD.findall(text[:HEAD_CHARACTERS]))
    return num_lower >= MIN_LOWER_SHARE * len(text[:HEAD_CHARACTERS].split())


def _ends_sentence(text: str) -> bool:
    """True where the last line ends in a sentence mark; Thai and its neighbours have none."""
    return bool(_END.search(text[-4:]) or _SPACELESS.match(text[-1]))


def _is_long(text: str, num_characters: int) -> bool:
    """True for so many characters, wide ones counted as the letters of a word."""
    if len(text) >= num_characters:
        return True
    return len(text) + (WIDE_CHARACTER_WEIGHT - 1) * len(_WIDE.findall(text)) >= num_characters


def _has_words(text: str) -> bool:
    """True where a few words are no names: written small, or in a script that has no capitals."""
    head = text[:HEAD_CHARACTERS]
    if not head.isascii() and (_WIDE.search(head) or _SPACELESS.search(head)):
        return True
    return bool(_TWO_LOWER_WORDS.search(head))
