import unicodedata

import numpy as np

from data_prep.characters import (
    ALPHANUMERIC,
    CAPITAL,
    DIGIT,
    FIRST_UNCASED,
    LOWER,
    SPACE,
    character_categories,
    character_kinds,
)

EVERY = list(map(chr, range(0x110000)))


def test_the_category_of_every_character() -> None:
    names = "".join(map(unicodedata.category, EVERY))
    assert (character_categories() == np.frombuffer(names.encode(), np.uint8)[::2]).all()


def test_the_bits_of_every_character() -> None:
    """Nothing from FIRST_UNCASED on has case, is a space or a digit."""
    kinds = character_kinds()
    for bit, holds in (
        (SPACE, str.isspace),
        (LOWER, str.islower),
        (CAPITAL, str.isupper),
        (DIGIT, str.isdigit),
        (ALPHANUMERIC, str.isalnum),
    ):
        expected = np.fromiter(map(holds, EVERY), np.bool_, len(EVERY))
        assert ((kinds & bit > 0) == expected).all()
        assert bit == ALPHANUMERIC or not expected[FIRST_UNCASED:].any()
