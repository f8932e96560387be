"""What makes a text fit to train on: normal form, and filters that name why a document leaves.

A filter takes a document and answers (drop, reason); the first that drops names the cause under
which law W2 counts the document's characters.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from data_prep.config import Cleaning
from data_prep.documents import Document
from mlmdist.tokenizer import SPACE

Verdict = tuple[bool, str]
Filter = Callable[[Document], Verdict]

# Kept of the invisible: joiners, which spell words in Persian and in Indic scripts.
_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b"
    "\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ufdd0-\ufdef\ud800-\udfff"
    "\U000e0000-\U000e007f]+"
)
KEPT = (False, "")

MAX_REPEATED_SHARE = 0.3
MIN_LETTER_SHARE = 0.5


def normalise(text: str) -> str:
    """The text in NFKC, without control and other invisible characters, its spaces collapsed.

    It is its own normal form; the tokenizer's normalisation leaves it as it is.
    """
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    return " ".join(text.replace(SPACE, " ").split())


def normalised(document: Document) -> Document:
    """The document with title and paragraphs in normal form, paragraphs without content gone."""
    paragraphs = tuple(filter(None, map(normalise, document.paragraphs)))
    return replace(document, title=normalise(document.title), paragraphs=paragraphs)


def verdict(document: Document, tests: Sequence[Filter]) -> Verdict:
    """The first verdict that drops the document, or KEPT."""
    return next((found for found in (test(document) for test in tests) if found[0]), KEPT)


def empty(document: Document) -> Verdict:
    """Drops a document without paragraphs."""
    return not document.paragraphs, "empty"


def too_short(document: Document, min_characters: int) -> Verdict:
    """Drops a document of fewer than `min_characters` characters."""
    return document.num_characters < min_characters, "short"


def not_text(document: Document, min_letter_share: float) -> Verdict:
    """Drops a document of numbers and signs: too small a share of its characters are letters.

    Spaces are left out of account; marks count as letters, as the vowels of many scripts are.
    """
    counts = Counter[str]()
    for paragraph in document.paragraphs:
        counts.update(paragraph)
    kinds = [(unicodedata.category(char)[0], number) for char, number in counts.items()]
    letters = sum(number for kind, number in kinds if kind in "LM")
    seen = sum(number for kind, number in kinds if kind != "Z")
    return letters < min_letter_share * seen, "not_text"


def repetitive(document: Document, max_repeated_share: float) -> Verdict:
    """Drops a document of which paragraphs that stood before make up more than the share."""
    again = document.num_characters - sum(map(len, set(document.paragraphs)))
    return again > max_repeated_share * document.num_characters, "repetitive"


def clean(document: Document, config: Cleaning) -> tuple[Document | None, str]:
    """The document in normal form and an empty reason, or None and why it leaves."""
    document = normalised(document)
    drop, reason = verdict(document, filters(config))
    return (None, reason) if drop else (document, "")


def filters(config: Cleaning) -> list[Filter]:
    """The filters of a recipe, cheapest first."""
    return [
        empty,
        partial(too_short, min_characters=config.min_chars),
        partial(repetitive, max_repeated_share=MAX_REPEATED_SHARE),
        partial(not_text, min_letter_share=MIN_LETTER_SHARE),
    ]
