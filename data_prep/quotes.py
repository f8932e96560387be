"""Which quotes open or close nothing, so that a splitter of sentences can pass them by."""

from functools import cache

import numpy as np
from jaxtyping import Bool, Int64

from data_prep.characters import BEFORE_QUOTE, QUOTE, QUOTE_MARKS, SPACE, Joined

HARMLESS = "_"
"""What stands for a quote that is to be passed by."""

_CLOSED_BY = {'"': '"', "“": "”", "„": "“", "«": "»", "「": "」", "『": "』", "《": "》"}
_MARKS = sorted(QUOTE_MARKS)
_MARK_CODES = np.array([ord(mark) for mark in _MARKS])


def without_open_quotes(joined: Joined, texts: list[str]) -> list[str]:
    """The texts, which `joined` joins, with the quotes that open or close nothing made HARMLESS.

    A quote that opens while one of its kind is open shows that the earlier one was never closed.
    """
    places = np.flatnonzero(joined.kinds & QUOTE)
    if not len(places):
        return texts
    numbers = _MARK_CODES.searchsorted(joined.codes[places])
    opens = _only_opens(joined, places)
    bounds = places.searchsorted(np.append(joined.starts, len(joined.text)))
    mended = texts.copy()
    for index in _odd(numbers, opens, bounds):
        low, high = bounds[index], bounds[index + 1]
        marks = [_MARKS[number] for number in numbers[low:high].tolist()]
        characters = list(texts[index])
        for quote in _alone(marks, opens[low:high].tolist()):
            characters[places[low + quote] - joined.starts[index]] = HARMLESS
        mended[index] = "".join(characters)
    return mended


def _only_opens(joined: Joined, places: Int64[np.ndarray, "quotes"]) -> Bool[np.ndarray, "quotes"]:
    """Straight quotes that stand before a word and behind none, so that they close nothing."""
    before = (joined.kinds[places - 1] & BEFORE_QUOTE > 0) | (places == 0)
    after = (joined.kinds[places + 1] & SPACE == 0) & (places + 1 < len(joined.text))
    return (joined.codes[places] == ord('"')) & before & after


def _odd(
    numbers: Int64[np.ndarray, "quotes"],
    opens: Bool[np.ndarray, "quotes"],
    bounds: Int64[np.ndarray, "texts_plus_1"],
) -> list[int]:
    """The texts whose quotes are not simply one pair after another."""
    inside = np.arange(len(numbers)) - np.repeat(bounds[:-1], np.diff(bounds))
    closing = np.flatnonzero(inside % 2)
    pairs = _closed_by()[numbers[closing - 1], numbers[closing]] & ~opens[closing]
    pairs_before = np.concatenate([[0], np.cumsum(pairs)])
    num_pairs = np.diff(pairs_before[closing.searchsorted(bounds)])
    return np.flatnonzero(2 * num_pairs != np.diff(bounds)).tolist()


@cache
def _closed_by() -> Bool[np.ndarray, "marks marks"]:
    """Whether a mark, by its number, is closed by another."""
    return np.array(
        [[mark in _CLOSED_BY.get(opening, "") for mark in _MARKS] for opening in _MARKS]
    )


def _alone(marks: list[str], opens: list[bool]) -> list[int]:
    """The quotes, by index, that open or close nothing; `opens` says which can only open."""
    opened: dict[str, int] = {}
    alone: list[int] = []
    for index, mark in enumerate(marks):
        closed = [opening for opening in opened if mark in _CLOSED_BY[opening]]
        if closed and not opens[index]:
            del opened[closed[-1]]
        elif mark in _CLOSED_BY:
            alone += [opened[mark]] if mark in opened else []
            opened[mark] = index
        else:
            alone.append(index)
    return [*alone, *opened.values()]
