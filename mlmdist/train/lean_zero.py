"""What DeepSpeed's ZeRO 1 and 2 does several times over with gradients, done once, for the CPU.

There a pass over all gradients is bound by memory and costs a percent or more of a step. DeepSpeed
copies them to be sent and back, divides them by the number of ranks, looks for what is not finite,
takes norms in fp64 of one tensor at a time, flattens and then widens. Here buckets are sent as they
lie, the loss is not multiplied by what would be divided out again, one norm says both, and
gradients are widened on their way into the flat partition.

These are methods of DeepSpeed's optimizer that it does not promise to keep: the parity tests of
tests/train/test_engine.py, with every stage against plain torch, would notice.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as ranks
from torch import Tensor

INVALID_NORM = -1.0  # what DeepSpeed takes for a norm that is not finite


def install(optimizer: Any) -> None:
    """Let this optimizer of stage 1 or 2 take the short ways below."""
    optimizer.gradient_average = False
    optimizer.flatten = _flat(optimizer.flatten)
    optimizer.unflatten = _parts(optimizer.unflatten)
    optimizer.has_overflow_partitioned_grads_serial = lambda: torch.zeros(1, dtype=torch.bool)
    optimizer.get_grad_norm_direct = _norm_of(optimizer)
    optimizer.unscale_and_clip_grads = _clipping(optimizer)
    if not optimizer.cpu_offload:
        optimizer._get_preflattened_grad_partition = _widened(optimizer)


def _flat(flatten: Callable[..., Tensor]) -> Callable[[Sequence[Tensor]], Tensor]:
    """Tensors that lie one behind the other are flat already."""

    def flat(tensors: Sequence[Tensor]) -> Tensor:
        return _as_one(tensors) if _are_adjacent(tensors) else flatten(tensors)

    return flat


def _parts(unflatten: Callable[..., Any]) -> Callable[[Tensor, Sequence[Tensor]], Any]:
    """What was flat already has its parts, which need not be copied onto themselves."""

    def parts(flat: Tensor, tensors: Sequence[Tensor]) -> Any:
        lies_there = flat.data_ptr() == tensors[0].data_ptr() and _are_adjacent(tensors)
        return list(tensors) if lies_there else unflatten(flat, tensors)

    return parts


def _are_adjacent(tensors: Sequence[Tensor]) -> bool:
    """Whether tensors lie in one storage without a gap, in this order."""
    first = tensors[0]
    place, storage = first.storage_offset(), first.untyped_storage().data_ptr()
    for one in tensors:
        lies_there = one.is_contiguous() and one.untyped_storage().data_ptr() == storage
        if not lies_there or one.storage_offset() != place or one.dtype != first.dtype:
            return False
        place += one.numel()
    return True


def _as_one(tensors: Sequence[Tensor]) -> Tensor:
    size = sum(one.numel() for one in tensors)
    return tensors[0].as_strided((size,), (1,))


def _norm_of(optimizer: Any) -> Callable[..., Tensor]:
    """The 2-norm of a group's gradients over all ranks, in fp32; INVALID_NORM if not finite."""

    def norm_of(gradients: Sequence[Tensor], _params: Any, norm_type: float = 2) -> Tensor:
        assert norm_type == 2, f"{norm_type}: ZeRO clips by the 2-norm"
        norms = torch._foreach_norm(list(gradients), 2, dtype=torch.float32)  # pyright: ignore[reportPrivateImportUsage]
        square = torch.stack(norms).double().square().sum() if norms else torch.zeros(())
        square = square.double()
        ranks.all_reduce(square, group=optimizer.dp_process_group)
        norm = square.sqrt().float()
        return norm if bool(torch.isfinite(norm)) else torch.tensor(INVALID_NORM)

    return norm_of


def _clipping(optimizer: Any) -> Callable[..., None]:
    """As DeepSpeed clips, but for gradients that it would multiply by 1."""
    clip = optimizer.unscale_and_clip_grads

    def clipping(gradients: Sequence[Tensor], norm: Tensor) -> None:
        is_short = not optimizer.clip_grad or 0 <= float(norm) + 1e-6 <= optimizer.clip_grad
        if optimizer.loss_scale != 1.0 or not is_short:
            clip(gradients, norm)

    return clipping


def _widened(optimizer: Any) -> Callable[[int], Tensor]:
    """The gradients of this rank's partition of a group, flat, in its optimizer's format."""

    def widened(group: int) -> Tensor:
        master = optimizer.single_partition_of_fp32_groups[group]
        gradients = [one.reshape(-1) for one in optimizer.averaged_gradients[group]]
        flat = torch.empty_like(master)
        sizes = [one.numel() for one in gradients]
        *parts, rest = flat.split([*sizes, flat.numel() - sum(sizes)])
        torch._foreach_copy_(parts, gradients)  # pyright: ignore[reportPrivateImportUsage]
        rest.zero_()
        return flat

    return widened
