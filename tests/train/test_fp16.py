"""fp16 under a loss scale. A processor computes it slowly, and so these small models on it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import deepspeed
import pytest
import torch
from torch import Tensor

from mlmdist.dist import Place
from mlmdist.errors import BAD_CONFIG, ConfigError, NoProgress
from mlmdist.model.bert import Bert
from mlmdist.train import partitions, precision
from mlmdist.train.deepspeed_config import deepspeed_config
from mlmdist.train.engine import LOSS_SCALE, Engine
from mlmdist.train.loss_scale import FIRST, STEPS_TO_DOUBLE, LossScale
from tests.train import rows
from tests.train.engines import engine_with, gradient, same, step, trained
from tests.train.jobs import exit_codes, run
from tests.train.ranks import on_ranks
from tests.train.runs import job_of
from tests.train.test_engine import STAGES, Case, config, distance, masters, plain_gradient

TOLERANCE = 4e-3
TAG = "tag"
SMALL = 2.0**10  # a scale at which nothing here overflows

pytestmark = pytest.mark.dist


def fp16_engine(case: Case, here: Place, **options: Any) -> Engine:
    """An engine where DeepSpeed is told that this device has fp16."""
    accelerator: Any = deepspeed.accelerator.get_accelerator()
    accelerator.is_fp16_supported = lambda: True
    return engine_with(case, here, **options)


def gradients(here: Place, cases: list[Case], good_steps: int) -> list[tuple[Tensor, float, Any]]:
    """The gradient that was applied, the norm that was told, the scale behind it; a case each."""
    answers = []
    for case in cases:
        engine = fp16_engine(case, here, kind="sgd")
        engine.loss_scale = LossScale(SMALL, good_steps)
        found, result = gradient(engine, here, case)
        assert result.loss_scale == SMALL
        answers.append((found, float(result.grad_norm), engine.loss_scale))
    return answers


@pytest.mark.parametrize(
    ("stages", "good_steps"),
    [
        ((1,), STEPS_TO_DOUBLE - 1),
        pytest.param((0, 2, 3), STEPS_TO_DOUBLE - 1, marks=pytest.mark.slow),
        pytest.param(STAGES, 0, marks=pytest.mark.slow),
    ],
)
def test_l1_the_gradient_is_whole_also_in_the_step_that_doubles_the_scale(
    stages: tuple[int, ...], good_steps: int
) -> None:
    cases = [Case(stage, "fp16", 2) for stage in stages]
    expected, _ = plain_gradient()
    for case, answer in zip(cases, on_ranks(2, gradients, cases, good_steps)[0], strict=True):
        found, norm, scale = answer
        assert distance(found, expected) < TOLERANCE, case
        assert norm == pytest.approx(float(expected.norm()), rel=TOLERANCE), case
        assert scale.scale == (2 * SMALL if good_steps else SMALL), case


def fresh_masters(here: Place, cases: list[Case]) -> list[bool]:
    """Whether the fp32 weights begin as the model was given, a case each."""
    answers = []
    for case in cases:
        engine = fp16_engine(case, here)
        given = Bert(engine.config.model, rows.VOCAB_SIZE, seed=7).state_dict()
        answers.append(all(torch.equal(w, given[n]) for n, w in masters(engine).items()))
    return answers


@pytest.mark.slow
def test_weights_begin_in_fp32_as_they_were_given() -> None:
    cases = [Case(stage, "fp16", 1) for stage in STAGES]
    assert on_ranks(2, fresh_masters, cases) == [[True] * len(STAGES)] * 2


def overflowed(here: Place, cases: list[Case]) -> list[tuple[Any, ...]]:
    """What a step does whose scale is too large, and those behind it, a case each."""
    answers = []
    for case in cases:
        engine = fp16_engine(case, here)
        engine.loss_scale = LossScale(2.0**24, 5)
        before = masters(engine)
        bad = step(engine, here, case, 0)
        unchanged = same(before, masters(engine))
        halved = engine.loss_scale
        engine.loss_scale = LossScale(SMALL)
        good = step(engine, here, case, 1)
        engine.loss_scale = LossScale(2.0**24)
        batch = rows.rank_batch(2, here.rank, here.world_size, case.accumulation)
        still = engine.unmoved(batch, rows.global_counts(2), 1e-2)
        answers.append((bad.skipped, unchanged, halved, good.skipped, still))
    return answers


@pytest.mark.parametrize("stages", [(1,), pytest.param((0, 2, 3), marks=pytest.mark.slow)], ids=str)
def test_an_overflow_skips_the_step_and_halves_the_scale(stages: tuple[int, ...]) -> None:
    cases = [Case(stage, "fp16", 2) for stage in stages]
    for case, answer in zip(cases, on_ranks(2, overflowed, cases)[0], strict=True):
        assert answer == (True, True, LossScale(2.0**23, 0), False, []), case


def hopeless(here: Place) -> str:
    """What is said of gradients that are never finite."""
    case = Case(1, "fp16", 2)
    engine = fp16_engine(case, here)
    weight = next(iter(engine.parameters()))[1]
    weight.register_hook(lambda grad: grad * torch.nan)
    skipped = 0
    try:
        for number in range(30):
            skipped += step(engine, here, case, number).skipped
    except NoProgress as error:
        return f"{skipped} skipped, {error}"
    return "it went on for ever"


def test_gradients_that_are_never_finite_end_the_run() -> None:
    for said in on_ranks(1, hopeless):
        assert said.startswith("16 skipped, train.precision=fp16: a gradient is not finite")


def resumed(here: Place, cases: list[Case], folder: Path) -> list[tuple[bool, Any]]:
    """(goes on to the bit?, the scale behind it), a case each; the scale moves on the way."""
    answers = []
    for case in cases:
        straight, later = (fp16_engine(case, here, dropout=0.2) for _ in range(2))
        straight.loss_scale = LossScale(SMALL, STEPS_TO_DOUBLE - 3)
        trained(straight, here, case, range(2))
        straight.save(folder / f"{case.stage}", TAG)
        recut = partitions.for_world_size(partitions.read(folder / f"{case.stage}" / TAG), 3)
        assert all(one[LOSS_SCALE] == asdict(straight.loss_scale) for one in recut.models)
        expected = trained(straight, here, case, range(2, 4))
        later.load(folder / f"{case.stage}", TAG)
        found = trained(later, here, case, range(2, 4))
        answers.append((same(found, expected), later.loss_scale))
    return answers


@pytest.mark.parametrize("stages", [(1,), pytest.param((0, 2, 3), marks=pytest.mark.slow)], ids=str)
def test_t1_the_scale_is_in_the_checkpoint(stages: tuple[int, ...], tmp_path: Path) -> None:
    cases = [Case(stage, "fp16", 2) for stage in stages]
    expected = [(True, LossScale(2 * SMALL, 1))] * len(stages)
    assert on_ranks(2, resumed, cases, tmp_path) == [expected] * 2


def test_the_first_scale_is_what_deepspeed_is_told() -> None:
    assert LossScale().scale == FIRST
    settings = deepspeed_config(config(Case(1, "fp16", 1)), 1, num_parameters=100)
    assert settings["fp16"] == {"enabled": True, "loss_scale": FIRST}  # not 0, its own rule
    assert settings["bf16"] == {"enabled": False}


def test_without_a_gpu_it_is_refused_with_a_way_out(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"precision=fp16 on a machine without .*precision=auto"):
        precision.refuse_slow("fp16", has_gpu=False)
    precision.refuse_slow("fp16", has_gpu=True)
    if not torch.cuda.is_available():
        job = run(2, job_of(tmp_path / "job", corpus, train={"precision": "fp16"}))
        assert exit_codes(job) == [BAD_CONFIG] * 2, job.output()
        assert job.output().count("error: train.precision=fp16 on a machine without a GPU") == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_a_run_in_fp16_learns(corpus: Path, tmp_path: Path) -> None:
    job = run(1, job_of(tmp_path / "job", corpus, train={"precision": "fp16", "steps": 60}))
    assert exit_codes(job) == [0], job.output()
