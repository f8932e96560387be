"""Who decays, who waits, and that what an optimizer keeps survives a checkpoint."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mlmdist.config.train import Optimizer
from mlmdist.dist import Place
from mlmdist.model.bert import Bert
from mlmdist.train import partitions
from mlmdist.train.engine import Engine
from mlmdist.train.optimizer import WAITS, build_optimizer
from tests.train import rows
from tests.train.ranks import on_ranks
from tests.train.test_engine import STAGES, Case, config, masters

MODEL = Bert(config(Case(0, "fp32", 1)).model, rows.VOCAB_SIZE)
NAMES = {id(parameter): name for name, parameter in MODEL.named_parameters()}
TAG = "tag"


def groups(**values: Any) -> list[dict[str, Any]]:
    """The optimizer's groups, with names for parameters."""
    steps = values.pop("embeddings_only_steps", 0)
    made = build_optimizer(MODEL, Optimizer(**values), embeddings_only_steps=steps)
    return [
        group | {"params": [NAMES[id(one)] for one in group["params"]]}
        for group in made.param_groups
    ]


@pytest.mark.parametrize("kind", ["adamw", "lamb"])
def test_matrices_decay_and_biases_and_layer_norm_do_not(kind: str) -> None:
    matrices, vectors = groups(kind=kind, weight_decay=0.3)
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.3, 0.0)
    assert all("norm" not in name and "bias" not in name for name in matrices["params"])
    assert all(name.endswith("bias") or "norm" in name for name in vectors["params"])
    assert sorted(matrices["params"] + vectors["params"]) == sorted(NAMES.values())


def test_all_but_embeddings_and_the_decoders_bias_wait() -> None:
    made = groups(embeddings_only_steps=7, weight_decay=0.3)
    moving = {name for group in made if group[WAITS] == 0 for name in group["params"]}
    kinds = ("tokens.weight", "positions.weight", "segments.weight", "norm.weight", "norm.bias")
    assert moving == {f"embeddings.{kind}" for kind in kinds} | {"mlm_head.bias"}
    assert {group[WAITS] for group in made} == {0, 7}
    assert sorted(name for group in made for name in group["params"]) == sorted(NAMES.values())
    for group in made:
        decays = group["weight_decay"] > 0
        assert all(("norm" not in n and "bias" not in n) is decays for n in group["params"])


def engine_of(case: Case, here: Place, kind: str) -> Engine:
    """An engine whose embeddings move alone for two steps."""
    settings = config(case, kind=kind)
    values = settings.model_dump() | {"init_from": {"path": "bert", "embeddings_only_steps": 2}}
    settings = type(settings).model_validate(values)
    model = Bert(settings.model, rows.VOCAB_SIZE, seed=7)
    return Engine(settings, model, here, accumulation=case.accumulation, mark=lambda _: None)


def stepped(engine: Engine, here: Place, numbers: range) -> dict[str, Tensor]:
    for number in numbers:
        batch = rows.rank_batch(number, here.rank, here.world_size, 2)
        engine.step(batch, rows.global_counts(number), 1e-2)
    return masters(engine)


def resumed(here: Place, cases: list[Case], kind: str, folder: Path) -> list[tuple[bool, ...]]:
    """(goes on to the bit?, files hold the weights by name?, encoder stood still?), a case each."""
    answers = []
    for case in cases:
        straight, later = (engine_of(case, here, kind) for _ in range(2))
        begun = masters(straight)
        middle = stepped(straight, here, range(2))
        straight.save(folder / f"{case.stage}", TAG)
        expected = stepped(straight, here, range(2, 4))
        later.load(folder / f"{case.stage}", TAG)
        found = stepped(later, here, range(2, 4))
        same = all(torch.equal(found[name], value) for name, value in expected.items())
        saved = partitions.weights(partitions.read(folder / f"{case.stage}" / TAG))
        named = all(torch.equal(saved[name].cpu(), value) for name, value in middle.items())
        still = {name for name, value in middle.items() if torch.equal(value, begun[name])}
        moved = {name for name, value in found.items() if torch.equal(value, middle[name])}
        waits = {n for n in middle if not n.startswith(("embeddings.", "mlm_head.bias"))}
        answers.append((same, named, still == waits, not moved))
    return answers


@pytest.mark.dist
@pytest.mark.parametrize(
    ("kind", "precision", "stages"), [("lamb", "bf16", STAGES), ("adamw", "fp32", (0, 1))]
)
@pytest.mark.slow
def test_t1_moments_and_waiting_groups_go_on_to_the_bit(
    kind: str, precision: str, stages: tuple[int, ...], tmp_path: Path
) -> None:
    cases = [Case(stage, precision, 2) for stage in stages]
    answers = on_ranks(2, resumed, cases, kind, tmp_path)
    assert answers == [[(True, True, True, True)] * len(stages)] * 2
