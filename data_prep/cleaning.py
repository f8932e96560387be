"""What makes a text fit to train on: its form, and filters that name why a document leaves.

A filter takes a document and answers (drop, reason); the first that drops names the cause under
which law W2 counts the document's characters. The filters of symbols and repetition follow Rae et
al. 2021 (Gopher), A.1.1; their rules for English words are left out, so that any script passes.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import version

import numpy as np

from data_prep.characters import ALONE, LETTER, character_kinds, code_points
from data_prep.chinese import simplified
from data_prep.config import Cleaning
from data_prep.documents import Document
from data_prep.language import most_likely
from data_prep.long_paragraphs import MAX_PARAGRAPH_CHARACTERS, within_limit
from data_prep.normal_form import normalise

Verdict = tuple[bool, str]
Filter = Callable[[Document], Verdict]

KEPT = (False, "")

RECURRING_CHARACTERS, NEARBY_CHARACTERS = 16, 256
MIN_PLACES, MIN_STRIDE, MAX_STRIDE = 32, 8, 64
MIN_PARAGRAPHS = 3
"""Fewer paragraphs with a bullet before them or an ellipsis behind them drop no document."""

_ELLIPSIS = re.compile(r"\.{3,}")
_BULLET = re.compile("[*•·‣⁃▪▫■□●○◦◆◇▶►➢-] ?(?![*-])")
_IS_LETTER = bytes(chr(code).isalpha() and code < 128 for code in range(256))


def normalised(document: Document) -> Document:
    """The document with title and paragraphs in normal form, paragraphs without content gone.

    A paragraph of over MAX_PARAGRAPH_CHARACTERS becomes several (data_prep/long_paragraphs.py).
    """
    paragraphs = filter(None, map(normalise, within_limit(document.paragraphs)))
    # Normal forms may be longer than what they are made of.
    return replace(
        document, title=normalise(document.title), paragraphs=tuple(within_limit(paragraphs))
    )


def prepared(document: Document, config: Cleaning) -> Document:
    """The document in the form that is counted (law W2) and filtered: normal, and as asked for."""
    document = normalised(document)
    if not config.to_simplified:
        return document
    (title,) = simplified((document.title,))
    return replace(document, title=title, paragraphs=simplified(document.paragraphs))


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
    letters, seen, _ = _counts(document.paragraphs)
    return letters < min_letter_share * seen, "not_text"


def repetitive(document: Document, max_repeated_share: float) -> Verdict:
    """Drops a document of which paragraphs that stood before make up more than the share."""
    again = document.num_characters - sum(map(len, set(document.paragraphs)))
    return again > max_repeated_share * document.num_characters, "repetitive"


def recurring(document: Document, max_recurring_share: float) -> Verdict:
    """Drops a document that says the same over and over: "aaaa", "ha ha ha", a phrase, a table row.

    It is looked at every MAX_STRIDE characters, or in short documents at MIN_PLACES places: the
    share of them whose next RECURRING_CHARACTERS come again, beginning within the
    NEARBY_CHARACTERS that follow.
    """
    text = "\n".join(document.paragraphs)
    find = text.find
    reach = NEARBY_CHARACTERS + RECURRING_CHARACTERS
    last = len(text) - 2 * RECURRING_CHARACTERS
    stride = min(max(last // MIN_PLACES, MIN_STRIDE), MAX_STRIDE)
    places = range(0, last, stride)
    again = sum(find(text[at : at + RECURRING_CHARACTERS], at + 1, at + reach) > 0 for at in places)
    return again > max_recurring_share * len(places), "recurring"


def symbolic(document: Document, max_symbol_share: float) -> Verdict:
    """Drops a document with more # signs, or ellipses, a word than the share.

    In scripts without spaces each character is a word.
    """
    hashes = sum(paragraph.count("#") for paragraph in document.paragraphs)
    ellipses = sum(_num_ellipses(paragraph) for paragraph in document.paragraphs)
    if not hashes and not ellipses:
        return False, "symbols"
    _, _, words = _counts(document.paragraphs)
    return max(hashes, ellipses) > max_symbol_share * words, "symbols"


def _num_ellipses(paragraph: str) -> int:
    return len(_ELLIPSIS.findall(paragraph)) if "..." in paragraph else 0


def bulleted(document: Document, max_bullet_share: float) -> Verdict:
    """Drops a document of more paragraphs that begin with a bullet than the share."""
    bullets = sum(1 for paragraph in document.paragraphs if _BULLET.match(paragraph))
    most = max(max_bullet_share * len(document.paragraphs), MIN_PARAGRAPHS - 1)
    return bullets > most, "bullets"


def cut_off(document: Document, max_cut_share: float) -> Verdict:
    """Drops a document of more paragraphs that end with an ellipsis than the share."""
    cut = sum(paragraph.endswith("...") for paragraph in document.paragraphs)
    return cut > max(max_cut_share * len(document.paragraphs), MIN_PARAGRAPHS - 1), "cut_off"


def other_language(document: Document, languages: frozenset[str], min_confidence: float) -> Verdict:
    """Drops a document that is not, or not surely enough, in one of the languages."""
    language, confidence = most_likely(document)
    return language not in languages or confidence < min_confidence, "language"


def clean(document: Document, config: Cleaning) -> tuple[Document | None, str]:
    """The document as it is kept and an empty reason, or None and why it leaves."""
    document = prepared(document, config)
    drop, reason = verdict(document, filters(config))
    return (None, reason) if drop else (document, "")


def libraries(config: Cleaning) -> dict[str, str]:
    """The versions of the optional libraries that decide what a recipe keeps, and in what form."""
    names = ["pycld2"] * bool(config.languages) + ["opencc"] * config.to_simplified
    return {name: version(name) for name in names}


def filters(config: Cleaning) -> list[Filter]:
    """The filters of a recipe, cheapest first."""
    tests: list[Filter] = [
        empty,
        partial(too_short, min_characters=config.min_chars),
        partial(bulleted, max_bullet_share=config.max_bullet_share),
        partial(cut_off, max_cut_share=config.max_cut_share),
        partial(repetitive, max_repeated_share=config.max_repeated_share),
        partial(symbolic, max_symbol_share=config.max_symbol_share),
        partial(not_text, min_letter_share=config.min_letter_share),
        partial(recurring, max_recurring_share=config.max_recurring_share),
    ]
    if config.languages:
        wanted = frozenset(config.languages)
        tests.append(
            partial(other_language, languages=wanted, min_confidence=config.min_language_confidence)
        )
    return tests


@lru_cache(maxsize=1)
def _counts(paragraphs: tuple[str, ...]) -> tuple[int, int, int]:
    """Letters, characters that are no spaces, and words of a document in normal form."""
    spaces = sum(paragraph.count(" ") for paragraph in paragraphs)
    words = spaces + len(paragraphs)
    plain = "".join(filter(str.isascii, paragraphs)).encode("ascii").translate(_IS_LETTER)
    letters = np.count_nonzero(np.frombuffer(plain, np.uint8))
    for batch in _batches([text for text in paragraphs if not text.isascii()]):
        kinds = character_kinds()[code_points(batch)]
        letters += np.count_nonzero(kinds & LETTER)
        words += np.count_nonzero(kinds & ALONE)
    return int(letters), sum(map(len, paragraphs)) - spaces, int(words)


def _batches(paragraphs: list[str]) -> Iterator[str]:
    """The paragraphs joined, some hundred thousand characters at a time."""
    batch: list[str] = []
    size = 0
    for paragraph in paragraphs:
        batch.append(paragraph)
        size += len(paragraph)
        if size > MAX_PARAGRAPH_CHARACTERS:
            yield "".join(batch)
            batch, size = [], 0
    yield "".join(batch)
