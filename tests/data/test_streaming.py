"""WebDataset, which shares no code with our reader, reads the same blocks (law S2)."""

import dataclasses

import numpy as np
import pytest

from mlmdist.data.streaming import stream_blocks
from mlmdist.errors import DataError
from tests.data.corpus import random_block, write_set


def test_the_second_reader_agrees_with_the_first(tmp_path):
    shards = write_set(tmp_path, random_block(3500))
    found = list(stream_blocks(sorted(tmp_path.glob("*.tar"))))
    assert [key for key, _ in found] == [f"{number:06}" for number in range(4)]
    for number, (_, block) in enumerate(found):
        ours = shards.read_block(number)
        for field in dataclasses.fields(ours):
            mine, theirs = getattr(ours, field.name), getattr(block, field.name)
            assert np.array_equal(mine, theirs), field.name
            assert mine is None or mine.dtype == theirs.dtype


def test_a_block_that_lost_members_is_refused(tmp_path):
    write_set(tmp_path, random_block(50))
    path = tmp_path / "000000.tar"
    path.write_bytes(path.read_bytes()[: 3 * 512] + bytes(1024))
    with pytest.raises(DataError, match=r"000000\.tar"):
        list(stream_blocks([path]))
