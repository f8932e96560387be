"""LAMB against the paper's algorithm written out, however ZeRO cuts the parameters."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mlmdist.dist import Place
from mlmdist.model.bert import Bert
from mlmdist.model.loss import loss_sums
from mlmdist.train.lamb import equal_shares, stretches
from mlmdist.train.micro_batch import to_stream
from tests.train import rows
from tests.train.ranks import on_ranks
from tests.train.test_engine import STAGES, Case, build, config, masters

NUM_STEPS = 4
RATE = 0.02
BETAS, EPS, DECAY = (0.9, 0.999), 1e-6, 0.01


def reference() -> dict[str, Tensor]:
    """You et al. 2020, Algorithm 2, in fp64 and a parameter at a time."""
    model = Bert(config(Case(0, "fp32", 1)).model, rows.VOCAB_SIZE, seed=7).double()
    moments: dict[str, Any] = {name: (0.0, 0.0) for name, _ in model.named_parameters()}
    for step in range(1, NUM_STEPS + 1):
        model.zero_grad()
        stream = to_stream(rows.joined(rows.global_rows(step)))
        sums = loss_sums(model(stream), stream.labels, stream.pair_labels)
        (sums.mlm_sum / sums.mlm_count + sums.pair_sum / sums.pair_count).backward()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                assert weight.grad is not None
                m, v = moments[name]
                m = BETAS[0] * m + (1 - BETAS[0]) * weight.grad
                v = BETAS[1] * v + (1 - BETAS[1]) * weight.grad**2
                moments[name] = m, v
                update = m / (1 - BETAS[0] ** step) / ((v / (1 - BETAS[1] ** step)).sqrt() + EPS)
                if weight.ndim > 1:
                    update = update + DECAY * weight
                    update = update * (weight.norm() / update.norm())
                weight -= RATE * update
    return {name: weight.detach() for name, weight in model.named_parameters()}


def trained(here: Place, cases: list[Case]) -> list[dict[str, Tensor]]:
    """The fp32 weights after some steps, a case an entry."""
    answers = []
    for case in cases:
        engine = build(case, here, kind="lamb", betas=BETAS, eps=EPS, weight_decay=DECAY)
        for number in range(1, NUM_STEPS + 1):
            batch = rows.rank_batch(number, here.rank, here.world_size, case.accumulation)
            engine.step(batch, rows.global_counts(number), RATE)
        answers.append(masters(engine))
    return answers


def check(world_size: int, cases: list[Case], tolerance: float, least_dimensions: int = 1) -> None:
    expected = reference()
    begin = Bert(config(cases[0]).model, rows.VOCAB_SIZE, seed=7).state_dict()
    for answers in on_ranks(world_size, trained, cases):
        for case, found in zip(cases, answers, strict=True):
            for name, weight in expected.items():
                if weight.ndim < least_dimensions:
                    continue
                moved = (weight - begin[name]).norm()
                assert (found[name] - weight).norm() < tolerance * moved, (case, name)


def test_one_rank_takes_the_papers_steps_at_every_zero_stage() -> None:
    check(1, [Case(stage, "fp32", 1) for stage in STAGES], 3e-5)


@pytest.mark.slow
def test_two_ranks_take_the_same_steps_as_one_at_every_zero_stage() -> None:
    check(2, [Case(stage, "fp32", 2) for stage in STAGES], 3e-5)


@pytest.mark.slow
def test_bf16_moves_matrices_by_nearly_the_same_steps() -> None:
    check(2, [Case(stage, "bf16", 2) for stage in STAGES], 7e-2, least_dimensions=2)


sizes = st.lists(st.integers(1, 30), min_size=1, max_size=6)


@given(sizes=sizes, world_size=st.integers(1, 5))
def test_the_ranks_parts_are_each_parameter_once(sizes: list[int], world_size: int) -> None:
    whole = [torch.arange(size) + 1000 * number for number, size in enumerate(sizes)]
    length = -(-sum(sizes) // world_size)
    flat = torch.nn.functional.pad(torch.cat(whole), (0, length * world_size - sum(sizes)))
    shares = [-(-size // world_size) for size in sizes]
    found: dict[str, list[list[Tensor]]] = {"stretches": [], "shares": []}
    for rank in range(world_size):
        part = flat[rank * length : (rank + 1) * length]
        cut = stretches(sizes, length, rank, world_size)
        found["stretches"].append([part.narrow(0, *place) for place in cut])
        part = torch.cat(
            [
                torch.nn.functional.pad(one, (0, share * world_size - len(one)))[
                    rank * share : (rank + 1) * share
                ]
                for one, share in zip(whole, shares, strict=True)
            ]
        )
        cut = equal_shares(sizes, sum(shares), rank, world_size)
        found["shares"].append([part.narrow(0, *place) for place in cut])
    for parts in found.values():
        for number, one in enumerate(whole):
            assert torch.equal(torch.cat([of_rank[number] for of_rank in parts]), one)
