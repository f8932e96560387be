"""Law E1: held-out data is the same at any world size and for any run, each window once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlmdist.config import data as config
from mlmdist.data.held_out import HeldOut
from mlmdist.shards import ShardSet
from tests.data.corpus import VOCABULARY, random_block, write_set
from tests.data.test_loader import logged

NUM_WINDOWS = 333


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held-out")
    write_set(folder, random_block(NUM_WINDOWS, windows_per_document=2)).close()
    return folder


def make(folder, rank=0, world=1, *, batch=40, micro=8, **data) -> HeldOut:
    return HeldOut(
        config.Data(train=folder, tokenizer=folder, **data), shards=ShardSet.open(folder),
        vocabulary=VOCABULARY, global_batch=batch, micro_batch=micro, rank=rank, world_size=world,
    )  # fmt: skip


def log_of(folder, world: int, **settings):
    ranks = [make(folder, rank, world, **settings) for rank in range(world)]
    entries = [entry for rank in ranks for step in rank for entry in logged(step)]
    return sorted(entries)


@settings(max_examples=6)
@given(st.integers(1, 7), st.integers(1, 50))
@pytest.mark.slow
def test_e1_the_same_rows_at_any_world_size(folder, world, micro):
    assert log_of(folder, world, micro=micro) == log_of(folder, 1)


@settings(max_examples=5)
@given(st.integers(20, 400))
def test_e1_each_window_comes_once_whatever_the_batch(folder, batch):
    found = log_of(folder, 1, batch=batch)
    assert len({sample for _, sample, _, _ in found}) == len(found) == NUM_WINDOWS
    assert {row[1:] for row in found} == {row[1:] for row in log_of(folder, 1)}
    assert len(make(folder, batch=batch)) == -(-NUM_WINDOWS // batch)


def test_e1_every_pass_is_the_same_whatever_the_run_masks_and_orders(folder):
    held_out = make(
        folder, mask=config.Mask(rate=0.4, unit="word"), order=config.Order(kind="global", lanes=3)
    )
    passes = [sorted(entry for step in held_out for entry in logged(step)) for _ in range(2)]
    assert passes[0] == passes[1] == log_of(folder, 1)


def test_e1_token_masks_at_15_percent_in_epoch_0(folder):
    micros = [m for step in make(folder) for m in step.micro_batches]
    labels, tokens = (sum(len(getattr(m, name)) for m in micros) for name in ("labels", "tokens"))
    assert labels / tokens == pytest.approx(0.15, abs=0.02)
    assert all((m.sample_ids[:, 3] == 0).all() for m in micros)


def test_e1_ranks_without_rows_keep_step(tmp_path):
    write_set(tmp_path, random_block(23)).close()
    ranks = [list(make(tmp_path, rank, 12, batch=10, micro=1)) for rank in range(12)]
    assert len({tuple(len(step.micro_batches) for step in steps) for steps in ranks}) == 1
    assert sum(step.num_tokens for steps in ranks for step in steps) == sum(
        step.num_tokens for step in make(tmp_path)
    )
