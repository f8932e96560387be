"""Layers computed again in the backward pass: the same numbers to the bit, in less memory."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlmdist.config.model import Model
from mlmdist.dist import Place
from mlmdist.model import bert
from mlmdist.model.bert import Bert
from mlmdist.model.loss import loss_sums
from mlmdist.train import costs
from mlmdist.train.micro_batch import to_stream
from tests.train import rows
from tests.train.engines import engine_with, same, trained
from tests.train.ranks import on_ranks
from tests.train.test_engine import STAGES, Case

pytestmark = pytest.mark.dist

DEEP = Model(num_layers=8, width=96, num_heads=4, max_positions=32)
ROWS = rows.joined([rows.row(seed) for seed in range(120)])


def equal_to_plain(here: Place, cases: list[Case], fault: Any = None) -> list[bool]:
    """Whether three steps with dropout give the same weights and losses both ways, a case each."""
    if fault:
        fault()
    answers = []
    for case in cases:
        plain, again = (
            trained(
                engine_with(case, here, dropout=0.2, activation_checkpointing=recomputes),
                here,
                case,
                range(3),
            )
            for recomputes in (False, True)
        )
        answers.append(same(plain, again))
    return answers


def forget_dropout() -> None:
    """The fault: dropout is not drawn again as it was."""
    checkpoint = bert.checkpoint

    def forgetful(*arguments: Any, **options: Any) -> Any:
        return checkpoint(*arguments, **options, preserve_rng_state=False)

    bert.checkpoint = forgetful


@pytest.mark.parametrize(
    ("precision", "stages"),
    [
        ("fp32", (1,)),
        pytest.param("fp32", (0, 2, 3), marks=pytest.mark.slow),
        pytest.param("bf16", STAGES, marks=pytest.mark.slow),
    ],
)
def test_the_weights_are_the_same_to_the_bit_at_every_zero_stage(
    precision: str, stages: tuple[int, ...]
) -> None:
    cases = [Case(stage, precision, 2) for stage in stages]
    assert on_ranks(2, equal_to_plain, cases) == [[True] * len(stages)] * 2


def test_dropout_that_is_drawn_anew_would_be_found() -> None:
    assert on_ranks(1, equal_to_plain, [Case(1, "fp32", 2)], forget_dropout) == [[False]]


def peak_bytes(here: Place, *, recomputes: bool) -> int:
    """How far memory rises in a forward and backward pass, after one that does not count."""
    model = Bert(DEEP, rows.VOCAB_SIZE)
    model.recomputes = recomputes
    stream, peak = to_stream(ROWS), 0
    for _ in range(2):
        ctypes.CDLL(None).malloc_trim(0)  # else what was freed would be taken again unseen
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = memory("VmRSS")
        sums = loss_sums(model(stream), stream.labels, stream.pair_labels)
        (sums.mlm_sum + sums.pair_sum).backward()
        peak = memory("VmHWM") - before
    return peak


def memory(name: str) -> int:
    """A figure of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def peaks(here: Place) -> list[int]:
    return [peak_bytes(here, recomputes=recomputes) for recomputes in (True, False)]


def test_it_takes_less_than_half_of_the_memory_in_a_deep_model_as_estimated() -> None:
    less, more = on_ranks(1, peaks)[0]
    assert less < more / 2, f"{less >> 20} MiB against {more >> 20} MiB"
    for peak, recomputes in ((less, True), (more, False)):
        estimate = costs.activation_bytes(
            DEEP,
            rows.VOCAB_SIZE,
            np.diff(ROWS.cu_lengths).tolist(),
            len(ROWS.labels),
            "fp32",
            recomputes=recomputes,
        )
        assert 0.5 < estimate / peak < 1.2, f"{estimate >> 20} MiB, {peak >> 20} MiB measured"
