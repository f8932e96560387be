"""Laws O1, O2, O3 and S3 on the whole way from shards to micro-batches."""

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlmdist.block_cache import BlockCache
from mlmdist.config import data as config
from mlmdist.data.batch import MicroBatch, StepBatch
from mlmdist.data.batch_size import BatchSize
from mlmdist.data.loader import Loader
from mlmdist.data.pairs import UNLABELLED
from mlmdist.data.sequence import Position
from mlmdist.errors import ConfigError, DataError
from mlmdist.files import AnyPath
from mlmdist.shards import ShardSet
from tests.data.corpus import VOCABULARY, random_block, write_set

NUM_WINDOWS = 2100
Entry = tuple[int, tuple[int, ...], str, int]  # batch, sample id, hash of the masked row, label


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_set(folder, random_block(NUM_WINDOWS, windows_per_document=2)).close()
    return folder


Folders = AnyPath | list[tuple[Path, int]]  # one shard set, or several with their weights


def make(
    folder: Folders, *, batch: int | BatchSize = 48, micro: int = 8, rank: int = 0, world: int = 1,
    lanes: int = 1, position: Position | None = None, num_batches: int = 10, seed: int = 3, **data,
) -> Loader:  # fmt: skip
    train = folder if not isinstance(folder, list) else tuple(
        config.Corpus(path=path, weight=weight, name=str(number))
        for number, (path, weight) in enumerate(folder)
    )  # fmt: skip
    section = config.Data(
        train=train, tokenizer=Path(), order=config.Order(lanes=lanes, group_blocks=2), **data
    )
    cache = BlockCache.open(section.cache.folder, section.cache.gigabytes)
    return Loader(
        section, shards=tuple(ShardSet.open(corpus.path, cache) for corpus in section.corpora),
        vocabulary=VOCABULARY, seed=seed, global_batch=batch, micro_batch=micro, rank=rank,
        world_size=world, position=position or Position(), num_batches=num_batches,
    )  # fmt: skip


def entries(number: int, micro: MicroBatch) -> list[Entry]:
    """One entry for each row that counts: what it is of, and all that the model sees of it."""
    found: list[Entry] = []
    for row in np.flatnonzero(micro.weights):
        start, stop = micro.cu_lengths[row : row + 2]
        here = (micro.masked_index >= start) & (micro.masked_index < stop)
        seen = (
            micro.tokens[start:stop], micro.segments[start:stop], micro.positions[start:stop],
            micro.masked_index[here] - start, micro.labels[here],
        )  # fmt: skip
        digest = hashlib.sha256(b"|".join(part.astype(np.int64).tobytes() for part in seen))
        sample = tuple(micro.sample_ids[row].tolist())
        found.append((number, sample, digest.hexdigest(), int(micro.pair_labels[row])))
    return found


def logged(step: StepBatch) -> list[Entry]:
    return [entry for micro in step.micro_batches for entry in entries(step.number, micro)]


def log_of(loader: Loader, num_batches: int = 10**9) -> list[Entry]:
    """What `num_batches` batches of a rank hold; the loader is left as a kill leaves it.

    Sorted in each batch, where rows may stand in any order: losses are sums.
    """
    steps = iter(loader)
    found: list[Entry] = []
    for _, step in zip(range(num_batches), steps, strict=False):
        found += sorted(logged(step))
    loader.close()
    return found


def world_log(folder: Folders, world: int, lived: int, **settings) -> list[Entry]:
    """The logs of all ranks, merged batch by batch."""
    ranks = [log_of(make(folder, rank=r, world=world, **settings), lived) for r in range(world)]
    return sorted(entry for rank in ranks for entry in rank)


@pytest.mark.slow
@settings(max_examples=7)
@given(
    batch=st.integers(1, 100), lanes=st.integers(1, 5),
    pair=st.sampled_from(["nsp", "sop", "none"]),
    stops=st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(1, 40)), min_size=1, max_size=3
    ),
    start=st.integers(0, 100),
)  # fmt: skip
def test_o3_killed_and_resumed_anywhere_the_rows_are_the_same(
    folder, batch, lanes, pair, stops, start
):
    """(batches, world size, micro-batch) of each life of a run, against one uninterrupted life."""
    common = {"batch": batch, "lanes": lanes, "pair": pair, "num_batches": 10**6}
    total = sum(lived for lived, _, _ in stops)
    # Batches straddle the end of an epoch when the first stands close before it.
    position = Position(batch=start, cursors=(NUM_WINDOWS - start,))
    straight = log_of(make(folder, position=position, **common), total)
    lives: list[Entry] = []
    for lived, world, micro in stops:
        lives += world_log(folder, world, lived, position=position, micro=micro, **common)
        position = make(folder, position=position, **common).position_after(
            position.batch + lived - 1
        )
    assert lives == straight
    assert position == Position(batch=start + total, cursors=(NUM_WINDOWS - start + total * batch,))


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[tuple[Path, int]]:
    """Three corpora of different row lengths whose documents have the same ids."""
    found = []
    for number, (size, capacity, weight) in enumerate([(900, 61, 5), (700, 40, 2), (530, 61, 1)]):
        path = tmp_path_factory.mktemp(f"corpus{number}")
        write_set(path, random_block(size, seed=number, capacity=capacity), capacity=capacity)
        found.append((path, weight))
    return found


@settings(max_examples=3)
@given(
    lanes=st.integers(1, 4),
    stops=st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(1, 40)), min_size=2, max_size=3
    ),
)  # fmt: skip
@pytest.mark.slow
def test_o3_corpora_in_batches_of_growing_size_survive_kills(folders, lanes, stops):
    size = BatchSize([(0, 30), (2, 50), (5, 77)])
    common = {"batch": size, "lanes": lanes, "num_batches": 10**6}
    straight = log_of(make(folders, **common), sum(lived for lived, _, _ in stops))
    lives: list[Entry] = []
    position = Position()
    for lived, world, micro in stops:
        lives += world_log(folders, world, lived, position=position, micro=micro, **common)
        position = make(folders, position=position, **common).position_after(
            position.batch + lived - 1
        )
    assert lives == straight
    assert sum(position.cursors) == size.rows_before(position.batch)


def test_o1_corpora_are_read_through_their_own_epochs(folders):
    loader = make(folders, batch=480, num_batches=5)
    seen = [sample for _, sample, _, _ in log_of(loader)]
    assert len(set(seen)) == len(seen) == 5 * 480
    for number, (epochs, (path, _)) in enumerate(zip(loader.epochs_after(4), folders, strict=True)):
        size = ShardSet.open(path).manifest.num_windows
        counts = np.bincount([epoch for corpus, _, _, epoch in seen if corpus == number])
        assert counts.tolist() == [size] * int(epochs) + [round(epochs % 1 * size)] * (
            epochs % 1 > 0
        )


def test_p1_pairs_and_masks_of_corpora_with_the_same_content_differ(tmp_path):
    """A corpus that is there twice has other windows beside one another, cuts, coins and masks."""
    write_set(tmp_path, random_block(400, windows_per_document=2)).close()
    log = log_of(make([(tmp_path, 1), (tmp_path, 1)], batch=400, num_batches=2))
    first, second = ({row[1][1:]: row[2:] for row in log if row[1][0] == c} for c in (0, 1))
    both = first.keys() & second.keys()
    assert len(both) > 300
    assert np.mean([first[sample] == second[sample] for sample in both]) < 0.02


def test_o3_other_weights_begin_another_mixture_without_loss(folders):
    """Accepted by the user: every corpus goes on from its own cursor, and so does a later life."""
    position = make(folders).position_after(9)
    changed = [(path, weight) for (path, _), weight in zip(folders, (1, 2, 1), strict=True)]
    loader = make(changed, position=position, num_batches=20)
    assert loader.position.begun == position.cursors
    straight = log_of(loader)
    later = make(changed, position=loader.position_after(14), num_batches=20)
    assert log_of(later) == [e for e in straight if e[0] > 14]
    before = log_of(make(folders), 10)
    seen = [sample for _, sample, _, _ in before + straight]
    assert len(seen) == len(set(seen))


def test_o3_a_corpus_more_begins_at_its_first_row(folders):
    position = make(folders[:2]).position_after(9)
    loader = make(folders, position=position, num_batches=20)
    seen = [sample for _, sample, _, _ in log_of(make(folders[:2]), 10) + log_of(loader)]
    assert len(seen) == len(set(seen))
    with pytest.raises(ConfigError, match="2 corpora, the checkpoint has read 3"):
        make(folders[:2], position=make(folders).position_after(1))


def test_o3_a_killed_process_loses_and_repeats_nothing(folder, tmp_path):
    """SIGKILL at any time: from the position on disk another world size goes on to the same log."""
    path = tmp_path / "log.jsonl"
    killed = subprocess.run([sys.executable, "-m", "tests.data.test_loader", folder, path])
    assert killed.returncode == -signal.SIGKILL
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lived = [(n, tuple(sample), digest, label) for n, sample, digest, label in lines[-1]["entries"]]
    position = Position.from_json(lines[-1]["position"])
    assert position.batch == 5
    rest = world_log(folder, 3, 5, position=position, micro=5)
    assert lived + rest == log_of(make(folder))


def train_until_killed(folder: Path, path: Path) -> None:
    """A run that writes its log and position after each batch, and dies while it reads ahead."""
    loader = make(folder, world=1)
    entries: list[Entry] = []
    with path.open("w") as file:
        for step in loader:
            entries += sorted(logged(step))
            position = loader.position_after(step.number).to_json()
            file.write(json.dumps({"entries": entries, "position": position}) + "\n")
            file.flush()
            if step.number == 4:
                os.kill(os.getpid(), signal.SIGKILL)


@settings(max_examples=4)
@given(st.integers(1, 5), st.integers(150, 700))
def test_o1_an_epoch_of_batches_holds_every_window_once(folder, lanes, batch):
    num_batches = -(-2 * NUM_WINDOWS // batch)
    seen = [sample for _, sample, _, _ in log_of(
        make(folder, batch=batch, lanes=lanes, num_batches=num_batches)
    )]  # fmt: skip
    assert len(seen) == len(set(seen)) == num_batches * batch
    for epoch in (0, 1):
        assert sum(sample[3] == epoch for sample in seen) == NUM_WINDOWS


def test_m3_another_epoch_has_other_masks_and_cuts(folder):
    digests = [digest for _, _, digest, _ in log_of(
        make(folder, batch=NUM_WINDOWS, num_batches=2), 2
    )]  # fmt: skip
    assert len(set(digests)) > 0.99 * len(digests)


@settings(max_examples=8)
@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 20))
def test_every_rank_has_as_many_micro_batches(folder, batch, world, micro):
    steps = [first_step(make(folder, batch=batch, rank=r, world=world, micro=micro))
             for r in range(world)]  # fmt: skip
    counts = {len(step.micro_batches) for step in steps}
    assert counts == {math.ceil(math.ceil(batch / world) / micro)}
    for step in steps:
        rows = [int(m.weights.sum()) for m in step.micro_batches]
        assert max(rows) <= micro
        assert max(rows) - min(rows) <= 1
        for part in step.micro_batches:
            assert len(part.weights) == max(1, part.weights.sum())
        assert step.num_labels == sum(len(m.labels) for m in step.micro_batches)
        labelled = [m.pair_labels[m.weights > 0] != UNLABELLED for m in step.micro_batches]
        assert step.num_pairs == sum(int(part.sum()) for part in labelled)
        tokens = [m.cu_lengths[-1] for m in step.micro_batches if m.weights.any()]
        assert step.num_tokens == sum(tokens)


def first_step(loader: Loader) -> StepBatch:
    step = next(iter(loader))
    loader.close()
    return step


def test_o2_the_counts_of_the_ranks_sum_to_those_of_one(folder):
    def counts(world: int) -> list[tuple[int, int, int]]:
        ranks = [list(make(folder, rank=r, world=world)) for r in range(world)]
        per_rank = [[(s.num_labels, s.num_pairs, s.num_tokens) for s in steps] for steps in ranks]
        return np.sum(per_rank, axis=0).tolist()

    assert counts(1) == counts(3) == counts(7)


def test_p1_p2_pairs_survive_the_cut_between_ranks(folder):
    """Whole cells are paired before the slice is taken: about as many labels as in one piece."""
    log = world_log(folder, 5, 10, batch=50)
    assert np.mean([label != UNLABELLED for *_, label in log]) > 0.5


@pytest.mark.parametrize("lanes", [1, 3])
def test_p1_no_pair_crosses_a_cell_also_behind_the_short_one_of_an_epoch(folder, lanes):
    """An epoch ends with a cell of four rows; the next begins in the same batch."""
    position = Position(cursors=(NUM_WINDOWS - 50,))
    loader = make(folder, batch=150, lanes=lanes, position=position)
    cells = loader.cells(0)
    sizes = loader.assembler.mixture.cell_rows(cells)
    assert 4 in sizes[:-1]
    assert set(cells.epoch.tolist()) == {0, 1}
    _, spans = loader.assembler.pairs(cells)
    cell = np.repeat(np.arange(len(sizes)), sizes)
    negative = spans.labels == 1
    assert negative.sum() > 30
    assert (cell[spans.first_window] == cell[spans.second_window])[negative].all()
    alone = [loader.assembler.pairs(cells.take(np.array([c])))[1] for c in range(len(sizes))]
    assert spans.labels.tolist() == [label for one in alone for label in one.labels.tolist()]


def test_s3_a_rank_holds_the_blocks_in_use_only(folder):
    loader = make(folder, lanes=2, num_batches=80)
    reader = loader.assembler.reader
    for _ in loader:
        assert len(reader.held) <= reader.capacity == 2 * 3
    assert len(reader.held) > 0


def test_s2_damage_met_on_the_way_is_raised_at_the_consumer(tmp_path):
    write_set(tmp_path, random_block(6000, seed=2)).close()
    loader = make(tmp_path, batch=300, micro=300, num_batches=40)
    path = tmp_path / "000001.tar"
    content = bytearray(path.read_bytes())
    content[2000] ^= 4
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"000001\.tar"):
        log_of(loader)


def test_s2_a_global_order_reads_all_before_the_first_step(tmp_path):
    write_set(tmp_path, random_block(3000, seed=2)).close()
    order = config.Order(kind="global")
    path = tmp_path / "000001.tar"
    content = bytearray(path.read_bytes())
    content[2000] ^= 4
    path.write_bytes(content)
    section = config.Data(train=tmp_path, tokenizer=tmp_path, order=order, pair="none")
    with pytest.raises(DataError, match=r"000001\.tar"):
        Loader(
            section, shards=(ShardSet.open(tmp_path),), vocabulary=VOCABULARY, seed=0,
            global_batch=8, micro_batch=8, rank=0, world_size=1, position=Position(), num_batches=1,
        )  # fmt: skip


def test_leaving_the_loop_and_closing_stops_the_thread(folder):
    before = threading.active_count()
    loader = make(folder, num_batches=10**6)
    for step in loader:
        if step.number == 2:
            break
    loader.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(("pair", "ways_out"), [("nsp", "sop | none"), ("sop", "none")])
def test_too_few_labels_are_refused_with_the_way_out(tmp_path, pair, ways_out):
    one_sentence = random_block(300, most_sentences=1, windows_per_document=300)
    write_set(tmp_path, one_sentence).close()
    with pytest.raises(ConfigError, match=rf"data\.pair={ways_out.replace('|', '[|]')}$"):
        make(tmp_path, pair=pair)
    make(tmp_path, pair="none").close()


def test_another_vocabulary_is_refused(folder):
    with pytest.raises(DataError, match="vocabulary of 1000"):
        Loader(
            config.Data(train=folder, tokenizer=folder), shards=(ShardSet.open(folder),),
            vocabulary=replace(VOCABULARY, size=999), seed=0, global_batch=8, micro_batch=8,
            rank=0, world_size=1, position=Position(), num_batches=1,
        )  # fmt: skip


if __name__ == "__main__":
    train_until_killed(Path(sys.argv[1]), Path(sys.argv[2]))


def test_t3_global_order_tells_that_it_goes_on_at_each_block_it_verifies(folder: Path) -> None:
    told: list[int] = []
    data = config.Data(train=folder, tokenizer=folder, order=config.Order(kind="global"))
    Loader(
        data, shards=(ShardSet.open(folder),), vocabulary=VOCABULARY, seed=0, global_batch=8,
        micro_batch=8, rank=0, world_size=1, position=Position(), num_batches=1,
        alive=lambda: told.append(1),
    )  # fmt: skip
    assert len(told) == ShardSet.open(folder).manifest.num_blocks
