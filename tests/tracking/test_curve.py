import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.tracking import curve

LOSSES = st.lists(st.floats(0, 20), min_size=1, max_size=200).map(np.array)


def write_run(run: Path, lines: list[dict[str, object]], levels: dict[str, float]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "metrics.jsonl").write_text(text)
    (run / "outbox.jsonl").write_text(json.dumps({"event": "open", "levels": levels}) + "\n")


@given(LOSSES, st.integers(0, 30))
def test_smoothing_is_the_mean_of_the_window_around_each_value(losses: np.ndarray, half: int):
    smoothed = curve.smooth(losses, half)
    for place in range(losses.size):
        before = min(half, place)
        after = min(before, losses.size - 1 - place)
        window = losses[place - before : place + after + 1]
        assert smoothed[place] == pytest.approx(window.mean(), abs=1e-9)
    assert smoothed[0] == losses[0]


@given(st.lists(st.floats(0, 10), max_size=8).map(sorted), st.floats(0.01, 2))
def test_labels_never_stand_closer_than_the_gap(heights: list[float], gap: float):
    moved = curve.spread(heights, gap)
    assert len(moved) == len(heights)
    assert all(high - low >= gap - 1e-9 for low, high in pairwise(moved))
    assert sum(moved) == pytest.approx(sum(heights), abs=1e-6)
    if all(high - low >= gap for low, high in pairwise(heights)):
        assert moved == pytest.approx(heights)


@given(st.integers(1, 300), st.integers(2, 100))
def test_thinning_keeps_both_ends(size: int, count: int):
    series = curve.Series(np.arange(size), np.arange(size, dtype=np.float64))
    thinned = curve.thin(series, count)
    assert thinned.steps.size == min(size, count)
    assert (thinned.steps[0], thinned.steps[-1]) == (0, size - 1)
    assert np.all(np.diff(thinned.steps) > 0)


def test_a_run_without_losses_has_no_picture(tmp_path: Path):
    assert curve.draw(tmp_path) is None
    write_run(tmp_path, [{"step": 1, "time": 1.0, curve.TRAIN_LOSS: "nan"}], {})
    assert curve.draw(tmp_path) is None
    assert not (tmp_path / curve.PICTURE).exists()


@pytest.mark.parametrize("names", [[curve.TRAIN_LOSS], [curve.HELD_OUT_LOSS], []])
def test_the_picture_is_drawn_from_whatever_there_is(tmp_path: Path, names: list[str]):
    names = names or [curve.TRAIN_LOSS, curve.HELD_OUT_LOSS]
    lines = [{"step": s, "time": 1.0, **dict.fromkeys(names, 9 - s / 100)} for s in range(200)]
    write_run(tmp_path, [*lines, {"step": 200, "time": 1.0, names[0]: "inf"}], {"ln V": 9.0})
    picture = curve.draw(tmp_path)
    assert picture == tmp_path / "loss.png"
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_values_that_are_no_numbers_are_left_out_and_the_last_word_on_a_step_counts(tmp_path: Path):
    values = [(1, 9.0), (2, "nan"), (3, "inf"), (4, 8.0), (4, 7.0)]
    lines = [{"step": step, "time": 1.0, curve.TRAIN_LOSS: value} for step, value in values]
    write_run(tmp_path, lines, {"unigram": 6.9})
    series = curve.read_series(tmp_path / "metrics.jsonl", curve.TRAIN_LOSS)
    assert (series.steps.tolist(), series.values.tolist()) == ([1, 4], [9.0, 7.0])
    assert curve.read_levels(tmp_path / "outbox.jsonl") == {"unigram": 6.9}
