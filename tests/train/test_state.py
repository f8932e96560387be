"""Counters and meter: what a resume takes over, and when a run is hopeless."""

import math

import pytest
import torch

from mlmdist.errors import NoProgress
from mlmdist.train.engine import StepResult
from mlmdist.train.meter import Meter, losses
from mlmdist.train.plan import Plan
from mlmdist.train.state import MAX_SKIPPED_IN_A_ROW, Counts, TrainState

COUNTS = Counts(num_labels=10, num_pairs=4, num_tokens=100)
PLAN = Plan(
    world_size=1,
    num_steps=10,
    num_warmup_steps=1,
    rows_per_rank=4,
    accumulation=1,
    corpora=(),
    num_windows=100,
    epochs=0.4,
    tokens_per_step=100.0,
    padding_share=0.0,
    num_parameters=10,
    flops_per_step=1e6,
    memory_bytes=1,
    checkpoint_bytes=1,
    num_evaluations=0,
    num_checkpoints=1,
)


def test_a_skipped_batch_is_counted_and_the_batch_number_advances() -> None:
    state = TrainState()
    assert [state.advance(COUNTS, skipped=number == 1) for number in range(3)] == [1, 2, 3]
    assert state.skipped == (1,)
    assert state.num_tokens == 300
    assert TrainState.from_json(state.to_json()) == state


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
    whole, first, second = (Meter(PLAN, "nsp") for _ in range(3))
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
        meter = Meter(PLAN, "nsp")
        meter.restore(saved, rank, 3)
        restored.append(meter.own()[0])
    assert sum(restored) == 6.0


def test_a_skipped_step_does_not_spoil_the_figures() -> None:
    meter = Meter(PLAN, "nsp")
    meter.add(step(20.0), COUNTS)
    meter.add(step(math.nan, skipped=True), COUNTS)
    figures = meter.read(1e-3, 200)
    assert figures["train/mlm_loss"] == 2.0
    assert figures["train/tokens"] == 200.0
    assert figures["train/tokens_per_second"] > 0
    assert meter.own() == [0.0] * 6
