import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.blocks import Block, concatenate, decode, encode, take
from mlmdist.errors import DataError
from mlmdist.files import TEMPORARY_MARK
from mlmdist.shard import Shard, ShardEntry, write_shard
from mlmdist.shards import SHARD_LINE_BYTES, table_line

FIELDS = [field.name for field in dataclasses.fields(Block)]


def make_block(rows: int, seed: int = 0, *, optional: bool = False) -> Block:
    """A block of `rows` windows of 1 to 20 tokens, filled from a seed."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 21, rows)
    sentences = np.minimum(lengths, random.integers(1, 4, rows))
    total = int(lengths.sum())
    return Block(
        tokens=random.integers(5, 8000, total).astype(np.uint16),
        window_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
        sentence_start=np.concatenate([np.arange(n) for n in sentences]).astype(np.uint16),
        sentence_ptr=np.concatenate([[0], np.cumsum(sentences)]).astype(np.uint32),
        word_start=random.random(total) < 0.7,
        document_id=random.integers(0, 1 << 41, rows).astype(np.uint64),
        token_offset=random.integers(0, 1 << 32, rows).astype(np.uint32),
        window_number=random.integers(0, 1 << 32, rows).astype(np.uint32),
        repeated=random.integers(0, 5, rows).astype(np.uint16),
        flags=random.integers(0, 16, rows).astype(np.uint8),
        tag=random.integers(0, 256, total).astype(np.uint8) if optional else None,
        gap=random.integers(0, 1 << 32, rows).astype(np.uint32) if optional else None,
    )


def assert_equal(one: Block, other: Block) -> None:
    for name in FIELDS:
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None)
        if left is not None:
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right, name)


@given(st.integers(1, 40), st.integers(0, 100), st.booleans())
def test_a_block_comes_back_from_its_bytes(rows: int, seed: int, optional: bool) -> None:
    block = make_block(rows, seed, optional=optional)
    data = encode(block, "000007")
    assert data == encode(block, "000007")
    assert_equal(decode(data, "here"), block)


@given(st.lists(st.integers(1, 10), min_size=1, max_size=4), st.booleans(), st.data())
def test_take_undoes_concatenate_in_any_order(
    sizes: list[int], optional: bool, data: st.DataObject
) -> None:
    parts = [make_block(size, seed, optional=optional) for seed, size in enumerate(sizes)]
    joined = concatenate(parts)
    order = np.array(data.draw(st.permutations(range(joined.num_rows))))
    shuffled = take(joined, order)
    assert_equal(take(shuffled, np.argsort(order)), joined)
    first = 0
    for block in parts:
        assert_equal(take(joined, np.arange(first, first + block.num_rows)), block)
        first += block.num_rows


def test_take_of_more_tokens_than_are_gathered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    block = make_block(40, optional=True)
    order = np.argsort(block.window_number)
    expected = take(block, order)
    monkeypatch.setattr("mlmdist.blocks.GATHER_TOKENS", 7)
    assert_equal(take(block, order), expected)


@pytest.fixture
def shard(tmp_path: Path) -> tuple[Path, ShardEntry, list[Block]]:
    blocks = [make_block(30, seed, optional=True) for seed in range(3)]
    path = tmp_path / "000000.tar"
    keyed = [(f"{number:06d}", block) for number, block in enumerate(blocks)]
    return path, write_shard(path, keyed), blocks


def test_a_shard_is_read_block_by_block(shard: tuple[Path, ShardEntry, list[Block]]) -> None:
    path, entry, blocks = shard
    opened = Shard(path, entry)
    for number in (2, 0, 1):
        assert_equal(opened.read_block(number), blocks[number])
    assert (entry.blocks, entry.windows) == (3, 90)
    assert entry.tokens == sum(len(block.tokens) for block in blocks)


def test_s1_equal_blocks_give_equal_files(
    shard: tuple[Path, ShardEntry, list[Block]], tmp_path: Path
) -> None:
    path, entry, blocks = shard
    again = tmp_path / "again" / path.name
    assert write_shard(again, [(f"{n:06d}", block) for n, block in enumerate(blocks)]) == entry
    assert again.read_bytes() == path.read_bytes()


def test_s2_any_flipped_byte_of_a_block_is_named(
    shard: tuple[Path, ShardEntry, list[Block]],
) -> None:
    path, entry, _ = shard
    whole = bytearray(path.read_bytes())
    spans = {row.key: (row.offset, row.bytes) for row in Shard(path, entry).index}
    offset, size = spans["000001"]
    for place in range(offset, offset + size, 101):
        damaged = whole.copy()
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        opened = Shard(path, entry)
        with pytest.raises(DataError, match=r"000000\.tar: block 000001 at byte"):
            opened.read_block(1)
        opened.read_block(0)
        opened.close()


@pytest.mark.parametrize("name", FIELDS)
def test_s2_the_damaged_field_is_named(
    name: str, shard: tuple[Path, ShardEntry, list[Block]]
) -> None:
    path, entry, _ = shard
    data = bytearray(path.read_bytes())
    place = data.index(f"000002.{name}.npy".encode()) + 512 + 128  # behind two headers
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=f"field {name}, bytes"):
        Shard(path, entry).read_block(2)


def test_s2_a_cut_or_grown_file_is_not_opened(
    shard: tuple[Path, ShardEntry, list[Block]],
) -> None:
    path, entry, _ = shard
    data = path.read_bytes()
    for damaged, reason in (
        (data[:-1], "bytes; the set's table says"),
        (data + b"\0", "bytes; the set's table says"),
        (data[:-3] + b"abc", "no tar trailer"),
        (data[: entry.index_offset] + b"x" + data[entry.index_offset + 1 :], "index at byte"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=reason):
            Shard(path, entry)
    path.unlink()
    with pytest.raises(DataError, match="cannot be opened"):
        Shard(path, entry)


def test_s2_a_shard_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    def blocks_until_full():
        yield "000000", make_block(30)
        assert [TEMPORARY_MARK in path.name for path in tmp_path.iterdir()] == [True]
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_shard(tmp_path / "000000.tar", blocks_until_full())
    assert list(tmp_path.iterdir()) == []


def test_table_lines_are_found_by_position(shard: tuple[Path, ShardEntry, list[Block]]) -> None:
    _, entry, _ = shard
    huge = dataclasses.replace(
        entry, name="999999999.tar", bytes=1 << 50, index_offset=1 << 50, tokens=1 << 50
    )
    for row in (entry, huge):
        line = table_line(row)
        assert len(line) == SHARD_LINE_BYTES
        assert line.endswith(b"\n")
