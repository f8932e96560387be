"""Seed 0 is a seed like any other: pinned where seeds are used, and handed through as it is."""

from pathlib import Path

import numpy as np
import pytest

from mlmdist.config import data as config
from mlmdist.data.batch import lay_out
from mlmdist.data.loader import assembler, orders_of
from mlmdist.data.masks import mask_stream, rate_at
from mlmdist.data.mixture import Mixture
from mlmdist.data.order import Order
from mlmdist.data.pairs import pair
from mlmdist.shards import ShardSet
from tests.data.corpus import (
    CAPACITY,
    VOCABULARY,
    cell_ptr,
    fixed_block,
    random_block,
    windows_of,
    write_set,
)
from tests.data.test_loader import logged, make


def seen(seed: int) -> dict[str, list[int]]:
    """What order, pairs and masks make of a seed."""
    windows = windows_of(fixed_block(16))
    spans = pair("nsp", windows, cell_ptr(16), seed, CAPACITY)
    stream = lay_out(windows, spans, VOCABULARY)
    masked = mask_stream(stream, windows, config.Mask(), VOCABULARY, seed=seed, rate=150_000)
    order = Order(5000, "00", seed, config.Order())
    blocks, rows = order.windows(0, np.arange(6, dtype=np.uint64))
    return {
        "order": (blocks * 1024 + rows).tolist(),
        "labels": spans.labels.tolist(),
        "masked": masked.index[:12].tolist(),
        "tokens": masked.tokens[masked.index][:12].tolist(),
    }


def test_golden_choices_of_seed_0() -> None:
    assert seen(0) == GOLDEN


@pytest.mark.parametrize("seed", [1, 42, 1234, 2**32])
def test_other_seeds_choose_otherwise(seed: int) -> None:
    other = seen(seed)
    assert all(other[name] != GOLDEN[name] for name in GOLDEN)


def test_a_loader_uses_the_seed_it_is_given(tmp_path: Path) -> None:
    write_set(tmp_path, random_block(500, windows_per_document=2)).close()
    loader, sets = make(tmp_path, seed=0), (ShardSet.open(tmp_path),)
    data: config.Data = loader.arguments["data"]
    mixture = Mixture(orders_of(data.order, sets, 0), seed=0)
    by_hand = assembler(data, data.order, data.mask, sets, mixture, VOCABULARY, seed=0, ranks=1)
    (step,) = by_hand.steps([3], [loader.cells(3)], [6])
    assert logged(step) == logged(loader.batch(3))
    assert by_hand.mixture.orders[0].keys == loader.assembler.mixture.orders[0].keys


@pytest.mark.parametrize("start", [0, 1000])
@pytest.mark.parametrize("change", ["linear", "step"])
def test_the_mask_rate_follows_the_batch_number(tmp_path: Path, start: int, change: str) -> None:
    """Not the epoch, nor what this life of the run has done."""
    write_set(tmp_path, random_block(500, windows_per_document=2)).close()
    mask = config.Mask.model_validate(
        {"rate": 0.3, "final_rate": 0.1, "final_rate_at": start + 8, "rate_change": change}
    )
    first = make(tmp_path, mask=mask)
    position = first.position_after(start - 1) if start else None
    loader = make(tmp_path, mask=mask, position=position, num_batches=start + 12)
    for step in loader:
        share = step.num_labels / step.num_tokens
        assert share == pytest.approx(rate_at(mask, step.number) / 1e6, abs=0.02)


GOLDEN = {
    "order": [472, 2096, 2943, 4078, 3457, 4522],
    "labels": [1, 0, -100, 0, 1, -100, -100, -100, 0, 0, 1, 1, 1, 1, 1, 1],
    "masked": [12, 18, 19, 26, 30, 46, 48, 53, 64, 68, 70, 71],
    "tokens": [4, 4, 4, 4, 342, 4, 953, 4, 190, 4, 4, 4],
}
