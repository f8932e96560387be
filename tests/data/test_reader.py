"""Laws S2 and S3 on the reading side: damage is named, never served; memory is bounded."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlmdist.blocks import ROWS_PER_BLOCK
from mlmdist.data.reader import Reader
from mlmdist.data.stand_in import StandIn, is_real
from mlmdist.errors import DataError
from mlmdist.shards import ShardSet
from tests.data.corpus import random_block, windows_of, write_set


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_set(tmp_path_factory.mktemp("shards"), random_block(5000))


@pytest.fixture(scope="module", params=[0, 10**6], ids=["block by block", "joined"])
def way(request):
    """Both ways of gathering rows, whatever is asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlmdist.data.reader.JOINED_SHARE", request.param)
        yield


def read(reader: Reader, blocks, rows):
    blocks, rows = np.array(blocks), np.array(rows)
    return reader.windows(np.zeros_like(rows), blocks, rows, np.zeros_like(rows))


PLACES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 900)), min_size=1, max_size=60)


@settings(max_examples=15)
@given(st.lists(PLACES, min_size=1, max_size=3), st.integers(2, 5))
def test_windows_come_as_they_lie_in_their_blocks(shards, way, several, capacity):
    """Also those that a reader is asked for when it has read others."""
    reader = Reader((shards,), capacity)
    for places in [*several, several[-1]]:
        assert_as_they_lie(read(reader, *zip(*places, strict=True)), shards, places)
        assert max(len(reader.held), len(reader.joined_keys)) <= capacity


def assert_as_they_lie(found, shards, places):
    for place, (number, row) in enumerate(places):
        alone = windows_of(shards.read_block(number))
        for ptr, names in (
            ("ptr", ("tokens", "word_start")), ("sentence_ptr", ("sentence_start",)),
        ):  # fmt: skip
            here, there = getattr(found, ptr), getattr(alone, ptr)
            for name in names:
                ours = getattr(found, name)[here[place] : here[place + 1]]
                assert (ours == getattr(alone, name)[there[row] : there[row + 1]]).all()
        for name in ("document_id", "window_number", "repeated"):
            assert getattr(found, name)[place] == getattr(alone, name)[row]


def test_s3_no_more_blocks_are_held_than_allowed(shards):
    reader = Reader((shards,), 2)
    for number in (0, 1, 2, 3, 4, 0, 3):
        reader.block(0, number)
        assert len(reader.held) <= 2
    assert list(reader.held) == [(0, 0), (0, 3)]


def test_windows_of_several_corpora_are_kept_apart(shards, way, tmp_path):
    other = write_set(tmp_path, random_block(300, seed=8))
    reader = Reader((shards, other), 4)
    rows = np.array([3, 3])
    found = reader.windows(np.array([0, 1]), np.zeros(2, dtype=int), rows, np.array([5, 9]))
    assert found.corpus.tolist() == [0, 1]
    assert found.epoch.tolist() == [5, 9]
    assert found.document_id.tolist() == [
        shards.read_block(0).document_id[3], other.read_block(0).document_id[3]
    ]  # fmt: skip


@settings(max_examples=40)
@given(st.data())
def test_s2_a_flipped_bit_is_named_and_never_served(tmp_path_factory, data):
    """Each flip either breaks the read with the shard's name, or lies outside what is read."""
    folder = tmp_path_factory.mktemp("flipped")
    shards = write_set(folder, random_block(300, seed=3))
    before = shards.read_block(0)
    shards.close()
    path = folder / "000000.tar"
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    error, after = None, None
    try:
        after = Reader((ShardSet.open(folder),), 1).block(0, 0)
    except DataError as raised:
        error = raised
    assert (after is None) == ("000000.tar" in str(error))
    for field in dataclasses.fields(after) if after else ():
        assert np.array_equal(getattr(before, field.name), getattr(after, field.name))


@settings(max_examples=20)
@given(st.data())
def test_s2_a_cut_file_is_named(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("cut")
    write_set(folder, random_block(200, seed=4)).close()
    path = folder / "000000.tar"
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(DataError, match=r"000000\.tar"):
        Reader((ShardSet.open(folder),), 1).block(0, 0)


def test_s2_damage_that_comes_while_open_is_found_when_the_block_is_read_again(tmp_path):
    shards = write_set(tmp_path, random_block(3 * ROWS_PER_BLOCK, seed=5), blocks_per_shard=3)
    reader = Reader((shards,), 1)
    reader.block(0, 0)
    with (tmp_path / "000000.tar").open("r+b") as file:
        file.seek(5000)
        byte = file.read(1)
        file.seek(5000)
        file.write(bytes([byte[0] ^ 1]))
    reader.block(0, 1)
    with pytest.raises(DataError, match="CRC"):
        reader.block(0, 0)


def test_sets_with_and_without_gaps_and_tags_are_read_together(shards, way, tmp_path):
    block = random_block(1500, seed=8)
    gap = np.ones(block.num_rows, dtype=np.uint32)
    tag = np.ones(len(block.tokens), dtype=np.uint8)
    other = write_set(tmp_path, dataclasses.replace(block, gap=gap, tag=tag))
    both = Reader((shards, other), 4)
    found = both.windows(np.array([1, 0, 1]), np.array([0, 0, 1]), np.arange(3), np.zeros(3, int))
    assert found.tag is not None
    tags = [found.tag[a:b].tolist() for a, b in itertools.pairwise(found.ptr)]
    assert [set(each) for each in tags] == [{1}, {0}, {1}]


def test_a_stand_in_goes_beside_blocks_with_gaps(way, tmp_path):
    block = random_block(2000, seed=8)
    gapped = dataclasses.replace(block, gap=np.ones(block.num_rows, dtype=np.uint32))
    shards = write_set(tmp_path, gapped)
    path = tmp_path / "000000.tar"
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(data)
    found = read(Reader((shards,), 2, StandIn(1, False)), [0, 1, 0], [5, 6, 7])
    assert is_real(found.document_id).tolist() == [False, True, False]
    assert found.lengths[[0, 2]].tolist() == [1, 1]
    assert found.tag is None
