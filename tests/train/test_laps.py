"""A stopwatch that always runs for exactly one name."""

import time

import pytest
import torch

from mlmdist.train.laps import BACKWARD, BESIDE, DATA, FORWARD, NAMES, OTHER, Laps, shares


def test_every_second_goes_to_one_name() -> None:
    laps = Laps(torch.device("cpu"))
    begin = time.perf_counter()
    laps.to(FORWARD)
    time.sleep(0.02)
    with laps.inside(DATA):
        time.sleep(0.03)
        assert laps.name == DATA
    assert laps.name == FORWARD
    laps.to(OTHER)
    with laps.inside(BESIDE):
        time.sleep(0.05)
    whole = time.perf_counter() - begin
    seconds = laps.read()
    assert list(seconds) == list(NAMES)
    assert seconds[FORWARD] >= 0.02
    assert seconds[DATA] >= 0.03
    assert sum(seconds.values()) <= whole - 0.05  # what was beside is nobody's
    assert seconds[BACKWARD] == 0.0
    assert sum(laps.read().values()) < 0.02


def test_shares_are_of_the_time_that_was_counted() -> None:
    found = shares({FORWARD: 3.0, DATA: 1.0})
    assert found == {"speed/share/forward": 0.75, "speed/share/data": 0.25}
    assert shares({FORWARD: 0.0}) == {}


def test_an_error_inside_leaves_the_name_as_it_was() -> None:
    laps = Laps(torch.device("cpu"))
    laps.to(FORWARD)
    with pytest.raises(ValueError, match="x"), laps.inside(DATA):
        raise ValueError("x")
    assert laps.name == FORWARD
