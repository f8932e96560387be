"""Collectives for ZeRO on the CPU, out of gloo's point-to-point messages.

gloo's own all-gather takes 4 times the time that the same bytes take from neighbour to neighbour,
and what ZeRO wants of a reduction is its sum on one rank, not on all (measured on 220 MB between
two ranks: all-gather 351 ms, the ring here 81; all-reduce 204). Patarasu and Yuan 2009 give the
ring; the chain is its half for one owner.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.distributed as ranks
from torch import Tensor

from mlmdist.train.laps import COMMUNICATION, Laps

TIMED = ("all_reduce", "reduce", "reduce_scatter_tensor", "all_gather_into_tensor", "broadcast")
CHUNK_ELEMENTS = 1 << 22  # of a chain: while one is added the next is on its way


class Finished:
    """The handle of work that is done."""

    def wait(self) -> None:
        """Return at once."""


def install(backend: Any, laps: Laps) -> None:
    """Let DeepSpeed's `backend` gather and reduce by the functions here, all of it timed."""
    own = {"all_gather_into_tensor": all_gather, "reduce": reduce}
    for name in TIMED:
        function = own.get(name) or getattr(type(backend), name).__get__(backend)
        setattr(backend, name, _timed(function, laps))


def _timed(function: Callable[..., Any], laps: Laps) -> Callable[..., Any]:
    @wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        with laps.inside(COMMUNICATION):
            return function(*arguments, **named)

    return timed


def all_gather(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Finished | None:
    """Fill `output_tensor` with every rank's `input_tensor`, in the order of ranks, by a ring.

    Rank r's part may lie in its place already.
    """
    size, rank = ranks.get_world_size(group), ranks.get_rank(group)
    parts = output_tensor.view(-1).chunk(size)
    if parts[rank].data_ptr() != input_tensor.data_ptr():
        parts[rank].copy_(input_tensor.view(-1))
    before, behind = _peer(rank - 1, group), _peer(rank + 1, group)
    for step in range(size - 1):
        sent = ranks.isend(parts[(rank - step) % size], behind, group)
        got = ranks.irecv(parts[(rank - step - 1) % size], before, group)
        _wait(sent, got)
    return Finished() if async_op else None


def reduce(
    tensor: Tensor, dst: int, op: Any = None, group: Any = None, async_op: bool = False
) -> Finished | None:
    """Sum `tensor` over all ranks into that of global rank `dst`; the others' is used up.

    A chain that ends at `dst`: each rank adds its own to what it gets and hands it on, piece by
    piece, so that all links are busy at once.
    """
    assert op is None or "SUM" in str(op), f"{op}: ZeRO sums"
    size, rank = ranks.get_world_size(group), ranks.get_rank(group)
    owner = dst if group is None else ranks.get_group_rank(group, dst)
    is_first, is_last = rank == (owner + 1) % size, rank == owner
    before, behind = _peer(rank - 1, group), _peer(rank + 1, group)
    sent = []
    for piece in tensor.view(-1).split(CHUNK_ELEMENTS):
        if size > 1 and not is_first:
            got = torch.empty_like(piece)
            _wait(ranks.irecv(got, before, group))
            piece.add_(got)
        if not is_last:
            sent.append(ranks.isend(piece, behind, group))
    _wait(*sent)
    return Finished() if async_op else None


def _peer(rank: int, group: Any) -> int:
    """The global number of a rank of the group, counted round."""
    number = rank % ranks.get_world_size(group)
    return number if group is None else ranks.get_global_rank(group, number)


def _wait(*works: Any) -> None:
    for work in works:
        assert work is not None, "a rank of the group sends and receives"
        work.wait()
