"""Engines of small models, with any choice of `train` and the dropout asked for."""

from typing import Any

import torch
from torch import Tensor

from mlmdist.dist import Place
from mlmdist.model.bert import Bert
from mlmdist.train.engine import Engine, StepResult
from tests.train import rows
from tests.train.test_engine import Case, config, masters

RATE = 1e-2


def engine_with(
    case: Case,
    here: Place,
    *,
    kind: str = "adamw",
    dropout: float = 0.0,
    width: int = 16,
    **train: Any,
) -> Engine:
    """An engine; `train` is laid over its section unchecked, so that SGD goes with everything."""
    settings = config(case, kind=kind)
    model = settings.model.model_copy(
        update={"dropout": dropout, "attention_dropout": dropout, "width": width}
    )
    settings = settings.model_copy(
        update={"model": model, "train": settings.train.model_copy(update=train)}
    )
    return Engine(
        settings,
        Bert(model, rows.VOCAB_SIZE, seed=7),
        here,
        accumulation=case.accumulation,
        mark=lambda _: None,
    )


def step(engine: Engine, here: Place, case: Case, number: int, rate: float = RATE) -> StepResult:
    """One step by global batch `number`."""
    batch = rows.rank_batch(number, here.rank, here.world_size, case.accumulation)
    return engine.step(batch, rows.global_counts(number), rate)


def trained(engine: Engine, here: Place, case: Case, numbers: range) -> dict[str, Tensor]:
    """The fp32 weights after steps by these batches, and the last one's loss sums as `sums`."""
    sums = [step(engine, here, case, number).sums for number in numbers]
    return masters(engine) | {"sums": sums[-1]}


def gradient(engine: Engine, here: Place, case: Case) -> tuple[Tensor, StepResult]:
    """The global batch's gradient from a step of SGD, and what the step said."""
    before = masters(engine)
    result = step(engine, here, case, 0, rate=1e4)
    after = masters(engine)
    return torch.cat([(before[n] - after[n]).flatten() / 1e4 for n in before]), result


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether all tensors are equal to the bit."""
    return list(one) == list(other) and all(torch.equal(one[n], other[n]) for n in one)


def farthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of any tensor, relative to its length."""
    return max(float((one[n] - other[n]).norm() / other[n].norm().clamp_min(1e-9)) for n in one)
