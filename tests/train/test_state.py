"""Counters and meter: what a resume takes over, and when a run is hopeless."""

import json
import logging
import math

import pytest
import torch

from mlmdist.config.model import Model
from mlmdist.dist import Place
from mlmdist.errors import NoProgress
from mlmdist.train.engine import StepResult
from mlmdist.train.meter import Meter, leak, losses
from mlmdist.train.state import MAX_SKIPPED_IN_A_ROW, Counts, TrainState

COUNTS = Counts(num_labels=10, num_pairs=4, num_tokens=100)
MODEL = Model(num_layers=2, width=32, num_heads=2)


def meter_of(rank: int = 0, guess: float = math.inf) -> Meter:
    return Meter(MODEL, 100, Place(rank=rank, world_size=2), pair="nsp", guess=guess)


def test_a_skipped_batch_is_counted_and_the_batch_number_advances() -> None:
    state = TrainState()
    assert [state.advance(COUNTS, skipped=number == 1) for number in range(3)] == [1, 2, 3]
    assert state.skipped == (1,)
    assert state.num_tokens == 300
    assert TrainState.from_json(state.to_json()) == state


def test_rows_left_out_and_tokens_of_corpora_add_up_and_an_older_state_has_none() -> None:
    state = TrainState()
    state.advance(Counts(9, 4, 90, num_left_out=2, corpus_tokens=(60, 30)), skipped=False)
    state.advance(Counts(9, 4, 50, num_left_out=1, corpus_tokens=(40, 5, 5)), skipped=True)
    assert (state.num_left_out, state.corpus_tokens, state.num_tokens) == (3, (100, 35, 5), 140)
    saved = json.loads(json.dumps(state.to_json()))
    assert TrainState.from_json(saved) == state
    older = {name: saved[name] for name in ("batch", "num_tokens", "skipped")}
    assert TrainState.from_json(older) == TrainState(2, 140, (1,))


def test_many_skipped_batches_in_a_row_end_the_run() -> None:
    state = TrainState()
    for _ in range(MAX_SKIPPED_IN_A_ROW - 1):
        state.advance(COUNTS, skipped=True)
    state.advance(COUNTS, skipped=False)
    for _ in range(MAX_SKIPPED_IN_A_ROW - 1):
        state.advance(COUNTS, skipped=True)
    with pytest.raises(NoProgress, match=f"last {MAX_SKIPPED_IN_A_ROW} steps"):
        state.advance(COUNTS, skipped=True)


def test_losses_are_sums_over_counts_and_the_unasked_is_left_out() -> None:
    assert losses([20.0, 10, 3, 2.0, 4, 1], "nsp") == {
        "loss": 2.5,
        "mlm_loss": 2.0,
        "mlm_accuracy": 0.3,
        "nsp_loss": 0.5,
        "nsp_accuracy": 0.25,
    }
    assert losses([20.0, 10, 3, 0.0, 0, 0], "none") == {
        "loss": 2.0,
        "mlm_loss": 2.0,
        "mlm_accuracy": 0.3,
    }
    assert losses([0.0] * 6, "nsp") == {}


def step(value: float, *, skipped: bool = False) -> StepResult:
    sums = torch.tensor([value, 10, 3, 2, 4, 1], dtype=torch.float64)
    return StepResult(sums, 1.5, skipped)


def test_t1_a_meter_goes_on_from_its_saved_sums() -> None:
    whole, first, second = (meter_of() for _ in range(3))
    for meter, values in ((whole, (1.1, 2.3, 3.7)), (first, (1.1, 2.3))):
        for value in values:
            meter.add(step(value), COUNTS)
    second.restore([first.own()], rank=0, world_size=1)
    second.add(step(3.7), COUNTS)
    assert second.own() == whole.own()


def test_t1_saved_sums_are_shared_out_among_another_number_of_ranks() -> None:
    saved = [[float(rank)] * 6 for rank in range(4)]
    restored = []
    for rank in range(3):
        meter = meter_of()
        meter.restore(saved, rank, 3)
        restored.append(meter.own()[0])
    assert sum(restored) == 6.0


def test_a_skipped_step_does_not_spoil_the_figures() -> None:
    meter = meter_of()
    meter.add(step(20.0), COUNTS)
    meter.add(step(math.nan, skipped=True), COUNTS)
    figures = meter.read(1e-3, 200)
    assert figures["train/mlm_loss"] == 2.0
    assert figures["train/tokens"] == 200.0
    assert figures["train/tokens_per_second"] > 0
    assert meter.own() == [0.0] * 6


def sums(mlm_loss: float, accuracy: float, rows: int = 400) -> list[float]:
    """Six sums of a reading with 1,000 masked tokens."""
    return [1000 * mlm_loss, 1000, 10, 0.3 * rows, rows, accuracy * rows]


@pytest.mark.parametrize(
    ("totals", "is_leak"),
    [
        (sums(6.9, 0.95), True),
        (sums(6.7, 0.95), False),  # it has begun to learn words
        (sums(6.9, 0.8), False),
        (sums(6.9, 0.95, rows=50), False),  # may be luck
        ([0.0] * 6, False),
    ],
)
def test_p4_labels_known_without_words_are_a_leak(totals: list[float], is_leak: bool) -> None:
    text = leak(totals, "nsp", 6.8)
    assert bool(text) == is_leak
    if is_leak:
        assert text.startswith("95% of the pair labels are right, but words are guessed no better")
    assert leak(totals, "nsp", math.inf) == ""


def test_p4_a_leak_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    for rank, told in ((0, 1), (1, 0)):
        meter = meter_of(rank, 6.8)
        for _ in range(3):
            result = StepResult(torch.tensor(sums(6.9, 0.95), dtype=torch.float64), 1.0, False)
            meter.add(result, COUNTS)
            meter.read(1e-3, 100)
        warned = [r for r in caplog.records if r.levelno == logging.WARNING]
        assert len(warned) == told
        caplog.clear()
