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
MIN_LOWER_WORDS = 2


def is_prose_paragraph(text: str) -> bool:
    """True for a paragraph that ends as a sentence does, or is long enough to hold one."""
    if not _is_long(text, MIN_PARAGRAPH_CHARACTERS) or not _has_words(text):
        return False
    return _ends_sentence(text) or _is_long(text, MIN_UNENDED_CHARACTERS)


def is_prose_item(text: str) -> bool:
    """True for a list item that is a sentence, and no entry of a bibliography."""
    return (
        _is_long(text, MIN_ITEM_CHARACTERS)
        and _ends_sentence(text)
        and not _REFERENCE.search(text)
        and _has_words(text)
    )


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
    head = text[:300]
    if _WIDE.search(head) or _SPACELESS.search(head):
        return True
    return len(_LOWER_WORD.findall(head)) >= MIN_LOWER_WORDS
