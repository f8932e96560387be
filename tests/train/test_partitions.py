"""DeepSpeed's flat partitions: merged, cut for another world size, and merged again."""

import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.errors import DataError
from mlmdist.train import partitions
from mlmdist.train.partitions import ALIGNED_ELEMENTS, merge, split

shapes = st.lists(
    st.lists(st.integers(1, 7), min_size=1, max_size=2).map(torch.Size), min_size=1, max_size=6
)


@given(shapes, st.sampled_from([1, 2, 3]), st.integers(1, 9))
def test_t1_cutting_and_merging_gives_the_same_tensors(
    sizes: list[torch.Size], stage: int, world_size: int
) -> None:
    named = {f"p{number}": size for number, size in enumerate(sizes)}
    whole = {name: torch.rand(size) for name, size in named.items()}
    parts = split(stage, whole, named, world_size)
    assert len(parts) == world_size
    assert len({len(part) for part in parts}) == 1
    if stage < 3:
        assert sum(map(len, parts)) % (ALIGNED_ELEMENTS * world_size) == 0
    again = merge(stage, parts, named)
    assert all(torch.equal(again[name], whole[name]) for name in whole)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("mp_rank_00_model_states.pt", 0),
        ("bf16_zero_pp_rank_12_mp_rank_00_optim_states.pt", 12),
        ("zero_pp_rank_3_mp_rank_00_model_states.pt", 3),
    ],
)
def test_the_rank_that_writes_a_file(name: str, rank: int) -> None:
    assert partitions.rank_of(name) == rank


def test_a_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (print, ("ran",))

    torch.save({"x": Evil()}, tmp_path / "mp_rank_00_model_states.pt", pickle_module=pickle)
    with pytest.raises(DataError, match="not a checkpoint file"):
        partitions.read(tmp_path)


def test_a_folder_without_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=str(tmp_path)):
        partitions.read(tmp_path)
