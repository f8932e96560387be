"""What the characters of many texts are, as arrays, so that rules look at all of them at once."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Int64, UInt8, UInt16

SEPARATOR = "\n\n"  # between texts, as sentencex reads it; no text holds a line end

SPACE, LOWER, CAPITAL, DIGIT, ALPHANUMERIC, CYRILLIC = (1 << bit for bit in range(6))
CLOSER, OPENER, DOT, QUOTE, BEFORE_QUOTE, SPACED, RARE_END = (1 << bit for bit in range(6, 13))
LETTER, ALONE, PAIRED = (1 << bit for bit in range(13, 16))
"""A letter or a mark on one; a letter or number that is a word by itself (SPACELESS); a mark that
sentencex looks for the other one of."""

CLOSING_MARKS = "\"'”’»」』》)]）】\u1361"  # the last is the Ethiopic word space
QUOTE_MARKS = '"“”„«»「」『』《》'

# Scripts without spaces, in which each character counts as a word: Thai and Lao, Tibetan, Myanmar,
# Khmer, kana, Han.
SPACELESS = (
    (0x0E00, 0x0EFF), (0x0F00, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip

_PADDING = 20  # characters that may be looked at behind the last one
_FEW = 4  # spaces that are passed one by one
_NUM_CODES = 0x110000
FIRST_UNCASED = 0x20000
"""Nothing from this code point on has case, is a space or a digit."""

_ASSIGNED = (0, 0x40000), (0xE0000, 0xE1000)  # everything else is private or no character

_MARKS = {
    CLOSER: CLOSING_MARKS,
    OPENER: "([",
    DOT: ".)",
    QUOTE: QUOTE_MARKS,
    BEFORE_QUOTE: "([—–",
    PAIRED: CLOSING_MARKS + QUOTE_MARKS + "‘‚‛‟‹›`([（【<>{}@",
    SPACED: "\u0f0d",
    RARE_END: "\u17d4\u17d5\u0f0e\u1361",
}


@dataclass(frozen=True)
class Joined:
    """Texts with a separator between them, and what their characters are."""

    text: str
    codes: np.ndarray
    """The code points of `text`: u8 where it is ASCII, else u32."""

    kinds: UInt16[np.ndarray, "padded"]
    """For each character of `text`, and for some behind its end, the bits that it has."""

    starts: Int64[np.ndarray, "texts"]
    stops: Int64[np.ndarray, "texts"]
    holds: UInt16[np.ndarray, "texts"]
    """The bits of all characters of a text."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Joined":
        """The texts, of which none is empty, joined."""
        text = SEPARATOR.join(texts)
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        stops = np.cumsum(lengths + len(SEPARATOR)) - len(SEPARATOR)
        starts = stops - lengths
        codes = code_points(text)
        kinds = np.zeros(len(text) + _PADDING, np.uint16)
        kinds[: len(text)] = character_kinds()[codes]
        return cls(text, codes, kinds, starts, stops, np.bitwise_or.reduceat(kinds, starts))

    def number(self, places: Int64[np.ndarray, "places"]) -> Int64[np.ndarray, "places"]:
        """The text in which, or at whose end, each place is."""
        return np.searchsorted(self.starts, places, "right") - 1

    def before_spaces(self, places: Int64[np.ndarray, "places"]) -> Int64[np.ndarray, "places"]:
        """Each place moved back over the spaces that stand before it."""
        places = places.copy()
        for _ in range(_FEW):
            spaced = (self.kinds[places - 1] & SPACE > 0) & (places > 0)
            if not spaced.any():
                return places
            places[spaced] -= 1
        solid = np.flatnonzero(self.kinds[: len(self.text)] & SPACE == 0) + 1
        return np.append(0, solid)[solid.searchsorted(places, "right")]

    def behind_spaces(self, places: Int64[np.ndarray, "places"]) -> Int64[np.ndarray, "places"]:
        """Each place moved forward over the spaces that stand at it."""
        places = places.copy()
        for _ in range(_FEW):
            spaced = self.kinds[places] & SPACE > 0
            if not spaced.any():
                return places
            places[spaced] += 1
        solid = np.flatnonzero(self.kinds & SPACE == 0)  # the padding is solid
        return solid[solid.searchsorted(places)]


def code_points(text: str) -> np.ndarray:
    """The code points of a text, u8 where it is ASCII, else u32."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


@cache
def character_kinds() -> UInt16[np.ndarray, "codes"]:
    """For each code point its bits: SPACE, LOWER, ... of this module."""
    kinds = np.zeros(_NUM_CODES, np.uint16)
    characters = np.arange(FIRST_UNCASED, dtype=np.uint32).view("U1")
    for bit, holds in (
        (SPACE, np.strings.isspace),
        (LOWER, np.strings.islower),
        (CAPITAL, np.strings.isupper),
        (DIGIT, np.strings.isdigit),
        (ALPHANUMERIC, np.strings.isalnum),
    ):
        kinds[:FIRST_UNCASED][holds(characters)] |= bit
    for bit, marks in _MARKS.items():
        kinds[[ord(mark) for mark in marks]] |= bit
    categories = character_categories()
    kinds[FIRST_UNCASED:][categories[FIRST_UNCASED:] == ord("L")] |= ALPHANUMERIC
    kinds[np.isin(categories, [ord("L"), ord("M")])] |= LETTER
    for first, last in SPACELESS:
        inside = np.isin(categories[first : last + 1], [ord(kind) for kind in "LMN"])
        kinds[first : last + 1][inside] |= ALONE
    kinds[0x0400:0x0500] |= CYRILLIC
    kinds[0x0E00:0x0F00] |= SPACED  # Thai and Lao
    kinds[kinds & SPACE > 0] |= BEFORE_QUOTE
    return kinds


@cache
def character_categories() -> UInt8[np.ndarray, "codes"]:
    """For each code point the first letter of its general category: L, M, N, P, S, Z or C."""
    made = np.full(_NUM_CODES, ord("C"), np.uint8)
    for first, last in _ASSIGNED:
        names = map(unicodedata.category, map(chr, range(first, last)))
        made[first:last] = np.frombuffer("".join(names).encode("ascii"), np.uint8)[::2]
    return made
