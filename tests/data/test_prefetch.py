"""A thread ahead: same items, errors at the consumer, nothing left running."""

import threading
import time
from collections.abc import Iterator

import pytest

from mlmdist.data.prefetch import Prefetcher
from mlmdist.errors import DataError


def numbers(made: list[int], count: int, error_at: int = -1) -> Iterator[int]:
    for number in range(count):
        if number == error_at:
            raise DataError(f"broken at {number}")
        made.append(number)
        yield number


def test_items_come_in_order_and_end():
    ahead = Prefetcher(numbers([], 50), 3)
    assert list(ahead) == list(range(50))
    assert list(ahead) == []
    assert not ahead.thread.is_alive()


def test_an_error_is_raised_in_its_place():
    ahead = Prefetcher(numbers([], 50, error_at=5), 3)
    assert [next(ahead) for _ in range(5)] == list(range(5))
    with pytest.raises(DataError, match="broken at 5"):
        next(ahead)
    assert not ahead.thread.is_alive()


def test_no_more_than_depth_is_made_ahead():
    made: list[int] = []
    with Prefetcher(numbers(made, 1000), 4) as ahead:
        next(ahead)
        time.sleep(0.2)
        assert len(made) <= 1 + 4 + 1  # taken, waiting, in hand


def test_closing_stops_the_thread_and_ends_the_items():
    before = threading.active_count()
    ahead = Prefetcher(numbers([], 10**9), 2)
    next(ahead)
    ahead.close()
    assert threading.active_count() == before
    with pytest.raises(StopIteration):
        next(ahead)
