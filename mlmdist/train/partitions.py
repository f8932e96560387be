"""The files DeepSpeed writes, as whole tensors by name, and the same cut for another world size.

ZeRO keeps fp32 weights and optimizer state as flat tensors, one a group of parameters and rank:

    stages 1, 2   all parameters of the group end to end, cut into equal parts
    stage 3       each parameter in equal parts (the last one padded), a rank's parts end to end

DeepSpeed itself loads them only at the world size that wrote them. Reading needs no DeepSpeed.
"""

import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mlmdist.errors import DataError
from mlmdist.train.optimizer import group_names

MODEL_FILES = "*model_states.pt"
OPTIMIZER_FILES = "*optim_states.pt"
RANK_IN_NAME = re.compile(r"pp_rank_(\d+)_")
ALIGNED_ELEMENTS = 2  # DeepSpeed pads a group to a multiple of this times the world size
DEEPSPEED_CLASSES = (
    "deepspeed.runtime.fp16.loss_scaler.LossScaler",
    "deepspeed.runtime.zero.config.ZeroStageEnum",
    "deepspeed.utils.tensor_fragment.fragment_address",
)

Shapes = dict[str, torch.Size]


@dataclass(frozen=True)
class Partitions:
    """A checkpoint's files in memory; `optimizers` has one entry a rank, none for stage 0."""

    models: list[dict[str, Any]]
    optimizers: list[dict[str, Any]]

    @property
    def stage(self) -> int:
        """The ZeRO stage that wrote them."""
        return int(self.models[0]["ds_config"]["zero_optimization"]["stage"])

    @property
    def shapes(self) -> list[Shapes]:
        """The parameters' names and shapes, a group of the optimizer at a time."""
        return self.models[0]["param_shapes"]

    def states(self) -> list[dict[str, Any]]:
        """What ZeRO keeps on each rank."""
        return [optimizer["optimizer_state_dict"] for optimizer in self.optimizers]


def read(folder: Path) -> Partitions:
    """The files of a checkpoint folder; no class but torch's own is built from them.

    Raises DataError if there are none, or if a rank's is missing.
    """
    models = [_load(path) for path in files_in(folder, MODEL_FILES)]
    if not models:
        raise DataError(f"{folder}: no {MODEL_FILES}; give a folder checkpoints/step-NNNNNNNN")
    optimizers = [_load(path) for path in files_in(folder, OPTIMIZER_FILES)]
    world_size = int(models[0]["dp_world_size"])
    if optimizers and len(optimizers) != world_size:
        raise DataError(
            f"{folder}: optimizer files of {len(optimizers)} ranks; must be {world_size}"
        )
    return Partitions(models, optimizers)


def files_in(folder: Path, pattern: str) -> list[Path]:
    """The files of a kind, in the order of the ranks that wrote them."""
    return sorted(folder.glob(pattern), key=lambda path: rank_of(path.name))


def rank_of(name: str) -> int:
    """The rank that writes the file of this name."""
    found = RANK_IN_NAME.search(name)
    return int(found.group(1)) if found else 0


def weights(partitions: Partitions) -> dict[str, Tensor]:
    """The fp32 weights by name: the master copies, not the bf16 ones."""
    if partitions.stage == 0:
        return _whole_weights(partitions.models[0])
    parts = [_flat_weights(partitions.stage, state) for state in partitions.states()]
    merged = _merge_groups(partitions.stage, parts, partitions.shapes)
    return {name: merged[name] for name in partitions.models[0]["module"]}


def for_world_size(
    partitions: Partitions, world_size: int, alive: Callable[[], None] = lambda: None
) -> Partitions:
    """The same state cut for another number of ranks, to the bit; `alive` is told as it goes on."""
    model = {**partitions.models[0], "dp_world_size": world_size}
    if partitions.stage == 0:
        return Partitions([model], [])
    states = _recut(partitions, world_size, alive)
    template = partitions.optimizers[0]
    optimizers = [{**template, "optimizer_state_dict": state} for state in states]
    return Partitions([model] * (world_size if partitions.stage == 3 else 1), optimizers)


def write(partitions: Partitions, folder: Path, like: Path) -> None:
    """Write the files to `folder`, under the names that those in `like` have."""
    names = ((partitions.models, MODEL_FILES), (partitions.optimizers, OPTIMIZER_FILES))
    for values, pattern in names:
        for rank, value in enumerate(values):
            first = files_in(like, pattern)[0].name
            torch.save(value, folder / RANK_IN_NAME.sub(f"pp_rank_{rank}_", first))


def _whole_weights(model: dict[str, Any]) -> dict[str, Tensor]:
    """Stage 0: the module itself, or the fp32 copies beside a bf16 one, group by group."""
    module: dict[str, Tensor] = model["module"]
    copies = model["optimizer"].get("fp32_groups")
    if copies is None:
        return {name: value.float() for name, value in module.items()}
    groups = group_names(module, with_embeddings_apart=len(copies) > 2)
    names = [name for group in groups for name in group]
    flat = [value for group in copies for value in group]
    found = dict(zip(names, flat, strict=True))
    return {name: found[name].detach() for name in module}


def _flat_weights(stage: int, state: dict[str, Any]) -> list[Tensor]:
    """A rank's fp32 weights, one flat tensor a group."""
    return state["fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"]


def _optimizer_state(stage: int, state: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """A rank's optimizer state: group number -> name -> flat tensor or number."""
    name = "optimizer_state_dict" if stage == 3 else "base_optimizer_state"
    return state[name]["state"]


def _merge_groups(stage: int, parts: list[list[Tensor]], shapes: list[Shapes]) -> dict[str, Tensor]:
    """Whole tensors out of every rank's flat ones."""
    whole: dict[str, Tensor] = {}
    for group, names in enumerate(shapes):
        whole |= merge(stage, [flat[group] for flat in parts], names)
    return whole


def merge(stage: int, parts: list[Tensor], shapes: Shapes) -> dict[str, Tensor]:
    """One group's whole tensors out of every rank's flat part of it."""
    sizes = [shape.numel() for shape in shapes.values()]
    if stage < 3:
        pieces = list(torch.cat(parts)[: sum(sizes)].split(sizes))
    else:
        shares = [-(-size // len(parts)) for size in sizes]
        cut = [part[: sum(shares)].split(shares) for part in parts]
        pieces = [torch.cat(of_ranks)[:size] for size, *of_ranks in zip(sizes, *cut, strict=True)]
    return {
        name: piece.reshape(shape)
        for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
    }


def split(stage: int, whole: dict[str, Tensor], shapes: Shapes, world_size: int) -> list[Tensor]:
    """One group's flat part for each rank: the inverse of `merge`, padded with zeros."""
    flat = [whole[name].flatten() for name in shapes]
    if stage < 3:
        return list(_padded(torch.cat(flat), ALIGNED_ELEMENTS * world_size).chunk(world_size))
    cut = [_padded(tensor, world_size).chunk(world_size) for tensor in flat]
    return [torch.cat(of_rank) for of_rank in zip(*cut, strict=True)]


def _padded(flat: Tensor, multiple: int) -> Tensor:
    return torch.nn.functional.pad(flat, (0, -len(flat) % multiple))


def _recut(
    partitions: Partitions, world_size: int, alive: Callable[[], None]
) -> list[dict[str, Any]]:
    """Every new rank's ZeRO state."""
    stage, states, shapes = partitions.stage, partitions.states(), partitions.shapes
    new = [_blank(stage, states[0], world_size) for _ in range(world_size)]
    for group, names in enumerate(shapes):
        for kind, parts in _kinds(stage, states, group):
            alive()
            cut = split(stage, merge(stage, parts, names), names, world_size)
            for state, part in zip(new, cut, strict=True):
                _put(stage, state, group, kind, part.clone())
        if stage < 3:
            _drop_padding(new, group, sum(shape.numel() for shape in names.values()))
    return new


def _kinds(
    stage: int, states: list[dict[str, Any]], group: int
) -> Iterator[tuple[str | None, list[Tensor]]]:
    """Every rank's flat weights (None) and optimizer tensors (by name) of a group."""
    yield None, [_flat_weights(stage, state)[group] for state in states]
    of_ranks = [_optimizer_state(stage, state).get(group, {}) for state in states]
    for name, value in of_ranks[0].items():
        if isinstance(value, Tensor) and value.ndim > 0:
            yield name, [state[name] for state in of_ranks]


def _put(stage: int, state: dict[str, Any], group: int, kind: str | None, part: Tensor) -> None:
    if kind is None:
        _flat_weights(stage, state)[group] = part
    else:
        _optimizer_state(stage, state)[group][kind] = part


def _blank(stage: int, state: dict[str, Any], world_size: int) -> dict[str, Any]:
    """A rank's state with all that is not a flat tensor, in containers of its own."""
    blank = {key: value for key, value in state.items() if not isinstance(value, Foreign)}
    flat_name = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
    state_name = "optimizer_state_dict" if stage == 3 else "base_optimizer_state"
    blank[flat_name] = list(state[flat_name])
    groups = {key: dict(value) for key, value in state[state_name]["state"].items()}
    blank[state_name] = {**state[state_name], "state": groups}
    count = state["partition_count"]
    blank["partition_count"] = [world_size] * len(count) if isinstance(count, list) else world_size
    blank.pop("param_slice_mappings", None)
    return blank


def _drop_padding(states: list[dict[str, Any]], group: int, num_elements: int) -> None:
    """Stages 1 and 2 save the last rank's weights without the padding, and note its length."""
    last = _flat_weights(1, states[-1])
    padding = sum(len(_flat_weights(1, state)[group]) for state in states) - num_elements
    last[group] = last[group][: len(last[group]) - padding].clone()
    for state in states:
        paddings = list(state["group_paddings"])
        paddings[group] = padding if state is states[-1] else 0
        state["group_paddings"] = paddings


class Foreign:
    """Stands in for an object of one of DeepSpeed's classes; it holds nothing that is needed."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments


def _load(path: Path) -> dict[str, Any]:
    try:
        with torch.serialization.safe_globals([(Foreign, name) for name in DEEPSPEED_CLASSES]):
            return torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not a checkpoint file that can be read ({reason})") from None
