"""The normal form of text, in which everything behind the sources sees it."""

import re
import unicodedata

from mlmdist.tokenizer import SPACE

# Kept of the invisible: joiners, which spell words in Persian and in Indic scripts.
_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b"
    "\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ufdd0-\ufdef\ud800-\udfff"
    "\U000e0000-\U000e007f]+"
)
_PRINTABLE_BUT_CHANGED = ("\u115f", "\u1160", "\ufffc", "\ufffd", SPACE)


def normalise(text: str) -> str:
    """The text in NFKC, without control and other invisible characters, its spaces collapsed.

    It is its own normal form; the tokenizer's normalisation leaves it as it is.
    """
    if not _is_plain(text):
        text = unicodedata.normalize("NFKC", _visible(text))
        if not _is_plain(text):  # it made one that is removed
            text = unicodedata.normalize("NFKC", _visible(text))
            return " ".join(text.replace(SPACE, " ").split())
    if "  " in text or text[:1] == " " or text[-1:] == " ":
        return " ".join(text.split())
    return text


def _is_plain(text: str) -> bool:
    """True where only the number of spaces can differ from the normal form; quickly told."""
    if not text.isprintable():
        return False
    return text.isascii() or (
        unicodedata.is_normalized("NFKC", text)
        and not any(character in text for character in _PRINTABLE_BUT_CHANGED)
    )


def _visible(text: str) -> str:
    """The text without invisible characters."""
    if text.isprintable() and not any(character in text for character in _PRINTABLE_BUT_CHANGED):
        return text
    return _INVISIBLE.sub("", text)
