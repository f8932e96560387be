"""No page can stall the extraction: its time grows as the page does."""

import time

import pytest

from data_prep.wikitext.extraction import extract
from tests.data_prep.wikitext.markup import MANY_CHILDREN, NESTINGS, PROSE, UNITS

PAGES = {
    **{f"{unit!r}": (unit, "", "") for unit in UNITS},
    **{f"{a!r} x {b!r}": (a, "x", b) for a, b in NESTINGS},
    **{f"{a!r} {unit!r} {b!r}": (unit, a, b) for a, unit, b in MANY_CHILDREN},
}


def page(name: str, count: int) -> str:
    """A page with many of a piece: alone, with as many ends behind, or between two brackets."""
    if name in NESTED:
        opening, middle, closing = PAGES[name]
        return f"{PROSE} {opening * count}{middle}{closing * count}"
    unit, opening, closing = PAGES[name]
    return f"{PROSE} {opening}{unit * count}{closing}"


NESTED = frozenset(f"{a!r} x {b!r}" for a, b in NESTINGS)


def seconds(wikitext: str) -> float:
    """The time that a page takes, the shorter of two runs."""
    times = []
    for _ in range(2):
        started = time.process_time()
        extract(wikitext)
        times.append(time.process_time() - started)
    return min(times)


@pytest.mark.parametrize("name", PAGES)
def test_four_times_the_page_takes_no_sixteen_times_the_time(name: str) -> None:
    assert seconds(page(name, 2_000)) <= 8 * seconds(page(name, 500)) + 0.05


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_twice_the_page_takes_twice_the_time(name: str) -> None:
    """Linear pages pass one of three tries on a busy machine too, quadratic ones none."""
    assert any(
        seconds(page(name, 40_000)) <= 2.6 * seconds(page(name, 20_000)) + 0.05 for _ in range(3)
    )
