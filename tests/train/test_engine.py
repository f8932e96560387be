"""Law L1: however a global batch is cut, its losses and gradient are the same."""

import math
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import deepspeed
import numpy as np
import pytest
import torch
from deepspeed.comm.torch import build_shm_op
from deepspeed.utils import safe_get_full_fp32_param
from torch import Tensor

from mlmdist.config.pretrain import Pretrain
from mlmdist.data.batch import MicroBatch
from mlmdist.dist import Place
from mlmdist.model.bert import Bert
from mlmdist.model.loss import loss_sums
from mlmdist.train.deepspeed_config import deepspeed_config
from mlmdist.train.engine import Engine
from mlmdist.train.micro_batch import as_vector, to_stream
from mlmdist.train.state import Counts
from tests.train import rows
from tests.train.ranks import on_ranks

RATE = 1e4  # so large that old minus new weights is the gradient to all its digits
TOLERANCE = {"fp32": 1e-6, "bf16": 3e-2}
STAGES = (0, 1, 2, 3)
ACCUMULATIONS = {1: (1, 2, 8), 2: (1, 2, 4), 4: (1, 2)}

pytestmark = pytest.mark.dist


class Case(NamedTuple):
    stage: int
    precision: str
    accumulation: int


def config(case: Case, **optimizer: Any) -> Pretrain:
    return Pretrain.model_validate(
        {
            "run": "run",
            "data": {"train": "train", "tokenizer": "tokenizer"},
            "model": {
                "num_layers": 2,
                "width": 16,
                "num_heads": 2,
                "max_positions": 32,
                "dropout": 0.0,
                "attention_dropout": 0.0,
            },
            "train": {
                "steps": 4,
                "global_batch": 8,
                "micro_batch": 8,
                "precision": case.precision,
                "zero_stage": case.stage,
            },
            "optimizer": {"kind": "sgd", "clip": 0.0} | optimizer,
        }
    )


def build(case: Case, here: Place, **optimizer: Any) -> Engine:
    settings = config(case, **optimizer)
    model = Bert(settings.model, rows.VOCAB_SIZE, seed=7)
    return Engine(settings, model, here, accumulation=case.accumulation, mark=lambda _: None)


def gradients(here: Place, cases: list[Case], fault: Any = None) -> list[tuple[Tensor, Tensor]]:
    """The global batch's gradient, from an SGD step, and this rank's loss sums, a case a pair."""
    if fault:
        fault()
    answers = []
    for case in cases:
        engine = build(case, here)
        before = masters(engine)
        batch = rows.rank_batch(0, here.rank, here.world_size, case.accumulation)
        result = engine.step(batch, rows.global_counts(0), RATE)
        after = masters(engine)
        answers.append(
            (torch.cat([(before[n] - after[n]).flatten() / RATE for n in before]), result.sums)
        )
    return answers


def masters(engine: Engine) -> dict[str, Tensor]:
    """The fp32 weights as DeepSpeed holds them."""
    if engine.zero_stage == 0 and engine.config.train.precision != "fp32":
        optimizer = engine.deepspeed.optimizer
        pairs = zip(optimizer.fp16_groups, optimizer.fp32_groups, strict=True)
        of = {id(p): w for low, high in pairs for p, w in zip(low, high, strict=True)}
        return {name: of[id(p)].detach().clone() for name, p in engine.parameters()}
    if engine.zero_stage == 0:
        return {name: p.detach().clone() for name, p in engine.parameters()}
    found = {name: safe_get_full_fp32_param(p) for name, p in engine.parameters()}
    return {name: w.clone() for name, w in found.items() if w is not None}


def plain_gradient(number: int = 0) -> tuple[Tensor, Tensor]:
    """The same batch through the model alone: one micro-batch, fp32, no DeepSpeed."""
    settings = config(Case(0, "fp32", 1))
    model = Bert(settings.model, rows.VOCAB_SIZE, seed=7)
    stream = to_stream(rows.joined(rows.global_rows(number)))
    sums = loss_sums(model(stream), stream.labels, stream.pair_labels)
    (sums.mlm_sum / sums.mlm_count + sums.pair_sum / sums.pair_count).backward()
    parts = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(parts), as_vector(sums)


def distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def mistake_averaging() -> None:
    """The fault: the engine takes sums of gradients for means, and means for sums."""
    backward = Engine._backward

    def faulty(self: Engine, losses: Any, counts: Counts) -> None:
        self.averages = not self.averages
        backward(self, losses, counts)
        self.averages = not self.averages

    Engine._backward = faulty  # pyright: ignore[reportAttributeAccessIssue]


def check_law(world_size: int, stages: tuple[int, ...], precisions: tuple[str, ...]) -> None:
    cases = [
        Case(stage, precision, accumulation)
        for stage in stages
        for precision in precisions
        for accumulation in ACCUMULATIONS[world_size]
    ]
    expected, expected_sums = plain_gradient()
    answers = on_ranks(world_size, gradients, cases)
    for number, case in enumerate(cases):
        found = answers[0][number][0]
        sums = torch.stack([answer[number][1] for answer in answers]).sum(0)
        assert distance(found, expected) < TOLERANCE[case.precision], case
        assert distance(sums, expected_sums) < TOLERANCE[case.precision], case


@pytest.mark.slow
def test_l1_two_ranks_give_the_gradient_of_one_process_at_every_zero_stage() -> None:
    check_law(2, STAGES, ("fp32",))


def test_l1_bf16_stays_within_its_tolerance() -> None:
    check_law(2, (0, 1), ("bf16",))


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [1, 4])
def test_l1_every_cut_of_the_batch_gives_the_same_gradient(world_size: int) -> None:
    check_law(world_size, STAGES, ("fp32",))


@pytest.mark.long
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_l1_every_cut_of_the_batch_in_bf16(world_size: int) -> None:
    check_law(world_size, STAGES, ("bf16",))


def test_l1_a_lost_or_doubled_world_factor_is_found() -> None:
    cases = [Case(0, "fp32", 1), Case(1, "fp32", 1)]
    (lost, _), (doubled, _) = on_ranks(2, gradients, cases, mistake_averaging)[0]
    expected, _ = plain_gradient()
    assert distance(lost, expected) > 0.4  # half the gradient is missing
    assert distance(doubled, expected) > 0.4
    assert distance(2 * lost, expected) < 1e-6
    assert distance(doubled / 2, expected) < 1e-6


def test_l1_clipping_is_written_even_when_it_is_off() -> None:
    settings = config(Case(1, "bf16", 1))
    assert deepspeed_config(settings, 1, num_parameters=100)["gradient_clipping"] == 0.0


def test_l1_a_micro_batch_without_labels_is_no_nan() -> None:
    empty: MicroBatch = rows.row(3, labelled=False)
    model = Bert(config(Case(0, "fp32", 1)).model, rows.VOCAB_SIZE)
    stream = to_stream(empty)
    sums = loss_sums(model(stream), stream.labels, stream.pair_labels)
    (sums.mlm_sum + sums.pair_sum).backward()
    assert float(sums.mlm_sum.detach()) == 0
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in model.parameters())


def clipped_norms(here: Place, cases: list[Case]) -> list[tuple[float, float]]:
    """(reported norm, norm of what was applied) under clipping to 0.5."""
    answers = []
    for case in cases:
        engine = build(case, here, clip=0.5)
        before = masters(engine)
        batch = rows.rank_batch(0, here.rank, here.world_size, case.accumulation)
        result = engine.step(batch, rows.global_counts(0), RATE)
        after = masters(engine)
        applied = torch.cat([(before[n] - after[n]).flatten() / RATE for n in before])
        answers.append((float(result.grad_norm), float(applied.norm())))
    return answers


def test_the_reported_norm_is_the_gradient_before_clipping() -> None:
    cases = [Case(stage, "fp32", 1) for stage in STAGES]
    expected, _ = plain_gradient()
    for reported, applied in on_ranks(2, clipped_norms, cases)[0]:
        assert reported == pytest.approx(float(expected.norm()), rel=1e-5)
        assert applied == pytest.approx(0.5, rel=1e-4)


def poisoned(here: Place, cases: list[Case]) -> list[tuple[bool, bool, bool, bool]]:
    """(skipped?, nothing changed?, next step taken?, weights finite?) with a NaN in one step."""
    answers = []
    for case in cases:
        engine = build(case, here, kind="adamw")
        before = masters(engine)
        averages, engine.averages = engine.averages, True
        engine.here = SimpleNamespace(rank=here.rank, world_size=math.nan)  # pyright: ignore[reportAttributeAccessIssue]
        batch = rows.rank_batch(0, here.rank, here.world_size, case.accumulation)
        bad = engine.step(batch, rows.global_counts(0), 1e-3)
        same = all(torch.equal(before[n], w) for n, w in masters(engine).items())
        engine.here, engine.averages = here, averages
        batch = rows.rank_batch(1, here.rank, here.world_size, case.accumulation)
        good = engine.step(batch, rows.global_counts(1), 1e-3)
        after = masters(engine)
        moved = any(not torch.equal(before[n], w) for n, w in after.items())
        finite = all(bool(torch.isfinite(w).all()) for w in after.values())
        answers.append((bad.skipped, same, not good.skipped and moved, finite))
    return answers


@pytest.mark.slow
def test_a_step_that_is_not_finite_updates_nothing_at_any_stage_and_precision() -> None:
    cases = [Case(stage, precision, 2) for stage in STAGES for precision in ("fp32", "bf16")]
    for case, answer in zip(cases, on_ranks(2, poisoned, cases)[0], strict=True):
        assert answer == (True, True, True, True), case


def dropout_runs(here: Place) -> list[dict[str, Tensor]]:
    """Weights after three steps with dropout: straight, with evaluation between, another seed."""
    answers = []
    for evaluate, seed in ((False, 0), (True, 0), (False, 1)):
        case = Case(1, "fp32", 2)
        settings = config(case, kind="adamw")
        model_settings = settings.model.model_copy(update={"dropout": 0.2})
        settings = settings.model_copy(update={"model": model_settings, "seed": seed})
        engine = Engine(
            settings,
            Bert(settings.model, rows.VOCAB_SIZE, 7),
            here,
            accumulation=2,
            mark=lambda _: None,
        )
        for number in range(3):
            batch = rows.rank_batch(number, here.rank, here.world_size, 2)
            engine.step(batch, rows.global_counts(number), 1e-3)
            if evaluate:
                assert torch.equal(engine.evaluate(batch), engine.evaluate(batch))
        answers.append(masters(engine))
    return answers


def test_l1_dropout_is_moved_neither_by_evaluation_nor_by_what_ran_before() -> None:
    straight, evaluated, other_seed = on_ranks(1, dropout_runs)[0]
    assert all(torch.equal(straight[n], evaluated[n]) for n in straight)
    assert not all(torch.equal(straight[n], other_seed[n]) for n in straight)


def compatible_ops(here: Place) -> tuple[bool, bool]:
    """(is the op's table ours?, was the op left out?) after an engine was built."""
    build(Case(1, "bf16", 1), here)
    table = vars(deepspeed.ops).get("__compatible_ops__")
    return table is not None, build_shm_op() is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="the op is for the CPU")
def test_deepspeed_still_reads_the_private_table_that_leaves_its_op_out() -> None:
    assert on_ranks(1, compatible_ops) == [(True, True)]


def test_rows_cut_in_any_way_are_the_same_batch() -> None:
    whole = rows.joined(rows.global_rows(0))
    for world_size, accumulations in ACCUMULATIONS.items():
        for accumulation in accumulations:
            batches = [
                rows.rank_batch(0, rank, world_size, accumulation) for rank in range(world_size)
            ]
            parts = [part for batch in batches for part in batch.micro_batches]
            assert np.array_equal(np.concatenate([p.tokens for p in parts]), whole.tokens)


def unmoved(here: Place, *, fault: bool) -> list[list[str]]:
    """What does not move in a step, a stage a list; with `fault` a layer forgets its bias."""
    found = []
    for stage in STAGES:
        engine = build(Case(stage, "bf16" if stage else "fp32", 2), here, kind="adamw")
        if fault:
            expand = engine.deepspeed.module.layers[1].expand
            expand.forward = partial(forget_bias, expand)
        batch = rows.rank_batch(0, here.rank, here.world_size, 2)
        found.append(engine.unmoved(batch, rows.global_counts(0), 1e-2))
    return found


def forget_bias(linear: torch.nn.Linear, hidden: Tensor) -> Tensor:
    return torch.nn.functional.linear(hidden, linear.weight)


@pytest.mark.slow
def test_every_parameter_is_known_to_get_a_gradient_or_not() -> None:
    assert on_ranks(2, partial(unmoved, fault=False)) == [[[]] * len(STAGES)] * 2
    dead = ["layers.1.expand.bias"]
    assert on_ranks(2, partial(unmoved, fault=True)) == [[dead] * len(STAGES)] * 2
