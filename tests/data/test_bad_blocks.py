"""`data.bad_blocks: skip`: a bad block's rows are left out, and all else stays where it was."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlmdist.config import data as config
from mlmdist.data.held_out import HeldOut
from mlmdist.data.mixture import joined
from mlmdist.data.pairs import UNLABELLED
from mlmdist.data.reader import Reader
from mlmdist.data.stand_in import StandIn, is_real
from mlmdist.errors import DataError
from mlmdist.shards import ShardSet
from tests.data.corpus import VOCABULARY, random_block, write_set
from tests.data.test_loader import Entry, Loader, log_of, make, world_log

NUM_WINDOWS = 4500  # five blocks
BAD = 2
SKIP: dict[str, Any] = {
    "bad_blocks": "skip", "bad_blocks_share": 0.5, "batch": 90, "num_batches": 55, "lanes": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    write_set(folder, random_block(NUM_WINDOWS, windows_per_document=2)).close()
    return folder


@pytest.fixture(scope="module")
def bad(good: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad") / "set"
    shutil.copytree(good, folder)
    flip(folder, BAD)
    return folder


def flip(folder: Path, number: int) -> None:
    """Flip a bit of a token of a block."""
    shards = ShardSet.open(folder)
    path = folder / f"{number // 2:06}.tar"
    data = bytearray(path.read_bytes())
    data[shards._shard(number // 2).index[number % 2].offset + 2000] ^= 4
    path.write_bytes(data)
    shards.close()


@pytest.fixture(scope="module")
def straight(bad: Path) -> list[Entry]:
    return log_of(make(bad, **SKIP))


def lost(good: Path, number: int = BAD) -> set[tuple[int, int]]:
    """(document, window number) of the rows of a block, the bad one."""
    block = ShardSet.open(good).read_block(number)
    return set(zip(block.document_id.tolist(), block.window_number.tolist(), strict=True))


def test_exactly_its_rows_are_missing(good: Path, straight: list[Entry]) -> None:
    """And a row is as it would be, unless it had a partner in its cell that is missing."""
    whole = log_of(make(good, **SKIP))
    gone = lost(good)
    kept = [entry for entry in whole if entry[1][1:3] not in gone]
    assert [entry[:2] for entry in straight] == [entry[:2] for entry in kept]
    assert len(whole) - len(kept) >= 1024
    same = np.mean([one == other for one, other in zip(straight, kept, strict=True)])
    assert 0.5 < same < 0.95
    labelled = np.mean([label != UNLABELLED for *_, label in straight])
    assert labelled > 0.45


@pytest.mark.parametrize(("world", "micro"), [(3, 7)])
def test_o2_at_every_world_size(bad: Path, straight: list[Entry], world: int, micro: int) -> None:
    assert world_log(bad, world, 55, micro=micro, **SKIP) == sorted(straight)


def test_o2_by_workers_and_o3_after_a_resume(bad: Path, straight: list[Entry]) -> None:
    position = make(bad, **SKIP).position_after(39)
    rest = log_of(make(bad, position=position, workers=2, **SKIP))
    assert rest == [entry for entry in straight if entry[0] >= 40]


def test_its_rows_have_no_mask_no_label_and_give_their_text_to_none(bad: Path) -> None:
    loader = make(bad, **SKIP)
    left_out = 0
    for step in loader.batches(range(50)):
        missing = [micro.weights == 0 for micro in step.micro_batches]
        assert step.num_left_out == sum(int(each.sum()) for each in missing)
        assert sum(step.corpus_tokens) == step.num_tokens
        tokens = 0
        for micro, gone in zip(step.micro_batches, missing, strict=True):
            assert (micro.pair_labels[gone] == UNLABELLED).all()
            row = np.searchsorted(micro.cu_lengths, micro.masked_index, "right") - 1
            assert not gone[row].any()
            assert (micro.lengths[gone] == 3).all()
            tokens += int(micro.lengths[~gone].sum())
        assert step.num_tokens == tokens
        left_out += step.num_left_out
    assert left_out > 500
    windows, spans = loader.assembler.rows(joined([loader.cells(n) for n in range(20)]))
    real = is_real(windows.document_id)
    first, second = real[spans.first_window], real[spans.second_window]
    assert not first.all()
    assert (first == second)[spans.second_window >= 0].all()


def test_it_is_named_once_and_refused_by_default(
    bad: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loader: Loader = make(bad, **SKIP)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            loader.assembler.reader.held.clear()
            list(loader.batches(range(55)))
    said = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(f"{bad}/000001.tar: block 000002 at byte 0 does not match its CRC")
    assert said[0].endswith("its 1024 rows are left out")
    with pytest.raises(
        DataError, match=r"block 000002.*; mend that shard, or data\.bad_blocks=skip leaves"
    ):
        log_of(make(bad, **{**SKIP, "bad_blocks": "refuse"}))


def test_more_than_the_share_that_may_be_left_out_ends_the_run(bad: Path) -> None:
    """1,024 of 4,500 windows."""
    common = {**SKIP, "num_batches": 50, "pair": "none"}
    assert log_of(make(bad, **{**common, "bad_blocks_share": 0.23}))
    for share, said in ((0.22, r"=0\.22 lets 22\.00%"), (0.0, r"=0\.0 lets 0\.00%")):
        reason = (
            r"^/.*/set: 1 bad blocks hold 1024 of its 4500 windows, 22\.76%; "
            rf"data\.bad_blocks_share{said} be left out: copy .* or raise it$"
        )
        with pytest.raises(DataError, match=reason):
            log_of(make(bad, **{**common, "bad_blocks_share": share}))


DAMAGES: dict[str, tuple[Callable[[bytes], bytes | None], str]] = {
    "missing": (lambda _: None, "cannot be opened (No such file or directory); make"),
    "cut": (lambda data: data[:-70_000], "bytes; the set's table says"),
    "trailer": (lambda data: data[:-3] + b"abc", "no tar trailer at byte"),
    "index": (lambda data: data.replace(b'"tokens":', b'"tokenz":'), "does not match its CRC"),
}


def damaged(good: Path, folder: Path, damage: str) -> Path:
    """A copy of the set whose second shard, blocks 2 and 3, is damaged."""
    shutil.copytree(good, folder)
    data = DAMAGES[damage][0]((path := folder / "000001.tar").read_bytes())
    path.unlink() if data is None else path.write_bytes(data)
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bad_shard_is_bad_in_all_its_blocks_and_named_once(
    good: Path, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = damaged(good, tmp_path / "set", damage)
    reader = Reader((ShardSet.open(folder),), 1, StandIn(VOCABULARY.unk_id, False))
    whole = ShardSet.open(good)
    for _ in range(2):
        for number in range(5):
            block, expected = reader.block(0, number), whole.read_block(number)
            assert block.num_rows == expected.num_rows == whole.rows_of(number)
            assert is_real(block.document_id).all() == (number not in (2, 3))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert said[0].startswith(f"{folder}/000001.tar: ")
    assert DAMAGES[damage][1] in said[0]
    assert said[0].endswith("; its 2048 rows are left out")
    with pytest.raises(DataError, match=r"001\.tar: .*bad_blocks=skip leaves its 2048 rows out"):
        Reader((ShardSet.open(folder),), 1).block(0, 3)
    strict = Reader((ShardSet.open(folder),), 1, StandIn(VOCABULARY.unk_id, False, most=0.3))
    strict.block(0, 3)
    with pytest.raises(DataError, match=r"set: 2 bad blocks hold 2048 of its 4500 windows"):
        strict.block(0, 2)


def test_without_a_shard_exactly_its_rows_are_missing(good: Path, tmp_path: Path) -> None:
    common = {**SKIP, "num_batches": 20, "pair": "none"}
    whole = log_of(make(good, **common))
    kept = log_of(make(damaged(good, tmp_path / "set", "missing"), **common))
    gone = lost(good, 2) | lost(good, 3)
    assert kept == [entry for entry in whole if entry[1][1:3] not in gone]
    assert 300 < len(whole) - len(kept) < 1500


def test_a_global_order_goes_on_too(bad: Path, good: Path) -> None:
    loaders = [make(folder, **SKIP) for folder in (bad, good)]
    data = loaders[0].arguments["data"].model_copy(update={"order": config.Order(kind="global")})
    logs = []
    for folder in (bad, good):
        kept = ("vocabulary", "seed", "global_batch", "position", "num_batches")
        loader = Loader(
            data, shards=(ShardSet.open(folder),), micro_batch=90, rank=0, world_size=1,
            **{name: loaders[0].arguments[name] for name in kept},
        )  # fmt: skip
        logs.append([entry[:2] for entry in log_of(loader, 10)])
    gone = lost(good)
    assert logs[0] == [entry for entry in logs[1] if entry[1][1:3] not in gone]


@pytest.mark.parametrize("pair", ["nsp", "sop", "none"])
@pytest.mark.parametrize(
    "mask", [{}, {"exact": False}, {"unit": "span"}, {"tag_weights": ({"tag": 1, "weight": 2},)}]
)
def test_a_batch_of_nothing_else_is_a_batch(
    tmp_path: Path, pair: str, mask: dict[str, Any]
) -> None:
    write_set(tmp_path, random_block(300)).close()
    flip(tmp_path, 0)
    section = config.Data(
        train=tmp_path, tokenizer=Path(), pair=pair,  # pyright: ignore[reportArgumentType]
        mask=config.Mask(**mask), bad_blocks="skip", bad_blocks_share=1,
    )  # fmt: skip
    loader = Loader(
        section, shards=(ShardSet.open(tmp_path),), vocabulary=VOCABULARY, seed=0, global_batch=8,
        micro_batch=4, rank=0, world_size=1, position=make(tmp_path, pair="none").position,
        num_batches=2, checked=True,
    )  # fmt: skip
    for step in loader.batches(range(2)):
        assert (step.num_labels, step.num_pairs, step.num_tokens, step.num_left_out) == (0, 0, 0, 8)
        assert len(step.micro_batches) == 2


def test_e1_held_out_rows_are_left_out_alike_at_any_world_size(bad: Path) -> None:
    data = config.Data(
        train=bad, held_out=bad, tokenizer=Path(), bad_blocks="skip", bad_blocks_share=0.5
    )

    def totals(world: int) -> list[int]:
        ranks = [
            HeldOut(
                data, shards=ShardSet.open(bad), vocabulary=VOCABULARY, global_batch=900,
                micro_batch=300, rank=rank, world_size=world,
            )
            for rank in range(world)
        ]  # fmt: skip
        steps = [step for rank in ranks for step in rank]
        return np.sum(
            [(s.num_labels, s.num_pairs, s.num_tokens, s.num_left_out) for s in steps], axis=0
        ).tolist()

    assert totals(1) == totals(3)
    assert totals(1)[3] == 1024
