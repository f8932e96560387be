"""Optimizer state in the CPU's memory: the same training, the same files."""

from pathlib import Path
from typing import Any

import pytest
import torch

from mlmdist.config.loading import load
from mlmdist.config.pretrain import Pretrain
from mlmdist.dist import Place
from mlmdist.errors import ConfigError
from mlmdist.train import costs, partitions
from tests.train.engines import engine_with, farthest, gradient, same, step, trained
from tests.train.ranks import on_ranks
from tests.train.test_engine import (
    ACCUMULATIONS,
    TOLERANCE,
    Case,
    distance,
    masters,
    plain_gradient,
)

STAGES = (1, 2, 3)
TAG = "tag"
RECIPE = Path("configs/pretrain/tiny.yaml")


def gradients(here: Place, cases: list[Case]) -> list[tuple[torch.Tensor, float]]:
    """The gradient that was applied and the norm that was told, a case each."""
    answers = []
    for case in cases:
        engine = engine_with(case, here, kind="sgd", offload="optimizer")
        found, result = gradient(engine, here, case)
        answers.append((found, float(result.grad_norm)))
    return answers


@pytest.mark.dist
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_l1_the_gradient_is_that_of_one_process(precision: str) -> None:
    cases = [Case(stage, precision, n) for stage in STAGES for n in ACCUMULATIONS[2]]
    expected, _ = plain_gradient()
    for case, (found, norm) in zip(cases, on_ranks(2, gradients, cases)[0], strict=True):
        assert distance(found, expected) < TOLERANCE[precision], case
        assert norm == pytest.approx(float(expected.norm()), rel=10 * TOLERANCE[precision]), case


def compared(here: Place, cases: list[Case], folder: Path) -> list[tuple[Any, ...]]:
    """(difference to no offload, same behind a resume?, same elsewhere?, files hold it?)."""
    answers = []
    for case in cases:
        plain, moved, later = (
            engine_with(case, here, dropout=0.2, offload=offload)
            for offload in ("none", "optimizer", "optimizer")
        )
        assert moved.deepspeed.zero_use_cpu_optimizer()
        assert not plain.deepspeed.zero_use_cpu_optimizer()
        groups = moved.deepspeed.optimizer.param_groups
        devices = {p.device.type for group in groups for p in group["params"]}
        middle = trained(moved, here, case, range(2))
        difference = farthest(middle, trained(plain, here, case, range(2)))
        place = folder / f"{case.stage}{case.precision}"
        moved.save(place, TAG)
        expected = trained(moved, here, case, range(2, 4))
        later.load(place, TAG)
        resumed = trained(later, here, case, range(2, 4))
        plain.load(place, TAG)
        elsewhere = trained(plain, here, case, range(2, 4))
        saved = partitions.weights(partitions.read(place / TAG))
        named = all(torch.equal(saved[n], middle[n]) for n in saved)
        answers.append(
            (difference, same(resumed, expected), farthest(elsewhere, expected), named, devices)
        )
    return answers


@pytest.mark.dist
@pytest.mark.parametrize(
    ("precision", "stages"),
    [
        ("bf16", (1,)),
        pytest.param("bf16", (2, 3), marks=pytest.mark.slow),
        pytest.param("fp32", STAGES, marks=pytest.mark.slow),
    ],
)
def test_t1_it_trains_as_without_and_resumes_to_the_bit_either_way(
    precision: str, stages: tuple[int, ...], tmp_path: Path
) -> None:
    cases = [Case(stage, precision, 2) for stage in stages]
    for answers in on_ranks(2, compared, cases, tmp_path):
        for case, (difference, resumed, elsewhere, named, _) in zip(cases, answers, strict=True):
            assert difference < 1e-6, case
            assert (resumed, named) == (True, True), case
            assert elsewhere < 1e-6, case


def poisoned(here: Place, cases: list[Case]) -> list[tuple[bool, bool, bool]]:
    """(skipped?, nothing changed?, next step taken?) with a NaN in one step, a case each."""
    answers = []
    for case in cases:
        engine = engine_with(case, here, offload="optimizer")
        before = masters(engine)
        weight = next(iter(engine.parameters()))[1]
        hook = weight.register_hook(lambda grad: grad * torch.nan)
        bad = step(engine, here, case, 0)
        hook.remove()
        unchanged = same(before, masters(engine))
        good = step(engine, here, case, 1)
        answers.append((bad.skipped, unchanged, not good.skipped))
    return answers


@pytest.mark.dist
@pytest.mark.slow
def test_a_step_that_is_not_finite_updates_nothing() -> None:
    cases = [Case(stage, precision, 2) for stage in STAGES for precision in ("fp32", "bf16")]
    for case, answer in zip(cases, on_ranks(2, poisoned, cases)[0], strict=True):
        assert answer == (True, True, True), case


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["train.zero_stage=0"],
            "offload=optimizer with zero_stage=0: .* choose zero_stage 1, 2 or 3",
        ),
        (["optimizer.kind=lamb"], "optimizer.kind=lamb with train.offload=optimizer: only adamw"),
        (["optimizer.kind=sgd"], "optimizer.kind=sgd with train.offload=optimizer: only adamw"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(Pretrain, RECIPE, ["train.offload=optimizer", *words])


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_optimizers_state_does_not_count_on_the_gpu(stage: int) -> None:
    here, there = (costs.memory_bytes(1000, "bf16", stage, 4, offloads=o) for o in (False, True))
    assert here - there == 1000 * costs.STATE_BYTES // 4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_the_state_is_on_the_cpu(tmp_path: Path) -> None:
    cases = [Case(stage, "bf16", 2) for stage in STAGES]
    for case, answer in zip(cases, on_ranks(1, compared, cases, tmp_path)[0], strict=True):
        difference, resumed, elsewhere, named, devices = answer
        assert devices <= {"cpu"}, case  # at stage 3 the groups are empty between steps
        assert max(difference, elsewhere) < 1e-3, case
        assert (resumed, named) == (True, True), case
