"""The text that a tokenizer sees, and which characters stand inside words."""

import unicodedata
from collections.abc import Sequence
from functools import cache

SPACE = "\u2581"  # SentencePiece's mark of a space before a piece

BETWEEN = " "  # texts looked at together: NFKC makes nothing of it and a neighbour
TOGETHER = 32  # texts


def normalize(text: str) -> str:
    """The text as a SentencePiece tokenizer of ours sees it.

    NFKC, runs of whitespace as one space, none at the ends. SentencePiece's space mark counts as a
    space, which is what SentencePiece would read it as.
    """
    if _is_normal(text):
        return text
    return " ".join(unicodedata.normalize("NFKC", text).replace(SPACE, " ").split())


def normalize_all(texts: Sequence[str]) -> list[str]:
    """Each text as `normalize` gives it; texts that are so already are told many at once."""
    made: list[str] = []
    for first in range(0, len(texts), TOGETHER):
        some = texts[first : first + TOGETHER]
        # A space at an end of one of them, or an empty one, makes two spaces side by side.
        made += some if _is_normal(BETWEEN.join(some)) else map(normalize, some)
    return made


def _is_normal(text: str) -> bool:
    """True where `normalize` would give the text itself, as it does of cleaned text; quickly told.

    Of all spaces only " " is printable.
    """
    if not text.isprintable() or "  " in text or text[:1] == " " or text[-1:] == " ":
        return False
    return text.isascii() or (SPACE not in text and unicodedata.is_normalized("NFKC", text))


@cache  # pieces begin and end with few characters
def in_word(character: str) -> bool:
    """Whether it stands inside words: a letter, digit or mark, but of no spaceless script."""
    category = unicodedata.category(character)
    return category[0] in "LNM" and not is_spaceless(ord(character))


def is_spaceless(code: int) -> bool:
    """Han, kana, Thai, Lao, Khmer, Myanmar: scripts that put no spaces between words."""
    return (
        0x3040 <= code <= 0x30FF
        or 0x3400 <= code <= 0x4DBF
        or 0x4E00 <= code <= 0x9FFF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x3FFFF
        or 0x0E00 <= code <= 0x0EFF
        or 0x1000 <= code <= 0x109F
        or 0x1780 <= code <= 0x17FF
    )
