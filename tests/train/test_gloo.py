"""ZeRO's collectives on the CPU: the same sums and the same parts as gloo's own."""

import pytest
import torch
import torch.distributed as ranks

from mlmdist.dist import Place
from mlmdist.train import gloo
from tests.train.ranks import on_ranks

SIZE = 3 * gloo.CHUNK_ELEMENTS // 2


def gathered(here: Place, dtype: torch.dtype, in_place: bool) -> bool:
    mine = torch.arange(5, dtype=dtype) + 10 * here.rank
    whole = torch.zeros(5 * here.world_size, dtype=dtype)
    if in_place:
        own = whole.chunk(here.world_size)[here.rank]
        mine = own.copy_(mine)
    gloo.all_gather(whole, mine)
    expected = torch.cat([torch.arange(5) + 10 * rank for rank in range(here.world_size)])
    return torch.equal(whole, expected.to(dtype))


def reduced(here: Place, owner: int, size: int) -> bool:
    torch.manual_seed(here.rank)
    mine = torch.randn(size)
    expected = mine.clone()
    ranks.all_reduce(expected)
    handle = gloo.reduce(mine, owner, ranks.ReduceOp.SUM, async_op=True)
    assert handle is not None
    handle.wait()
    return here.rank != owner or torch.allclose(mine, expected, atol=1e-6)


def in_a_group(here: Place) -> bool:
    """Ranks 2 and 1 as a group of their own, beside rank 0."""
    group = ranks.new_group([1, 2])
    if here.rank == 0:
        return True
    tensor = torch.full((3,), float(here.rank))
    gloo.reduce(tensor, 2, group=group)
    whole = torch.zeros(6)
    gloo.all_gather(whole, torch.full((3,), float(here.rank)), group)
    summed = here.rank != 2 or tensor.tolist() == [3.0] * 3
    return summed and whole.tolist() == [1.0] * 3 + [2.0] * 3


def every_way(here: Place) -> list[bool]:
    found = [
        gathered(here, dtype, in_place)
        for dtype in (torch.float32, torch.bfloat16)
        for in_place in (True, False)
    ]
    for owner in range(here.world_size):
        found += [reduced(here, owner, size) for size in (1, 7, SIZE)]
    return [*found, in_a_group(here)] if here.world_size == 3 else found


@pytest.mark.dist
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_l1_parts_and_sums_are_those_of_gloo(world_size: int) -> None:
    for found in on_ranks(world_size, every_way):
        assert all(found), found
