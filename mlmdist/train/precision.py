"""The number format of matrix work, where the recipe leaves it to the machine."""

from pathlib import Path
from typing import Literal

from mlmdist import dist
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import ConfigError
from mlmdist.train import folder

CPU_DESCRIPTION = Path("/proc/cpuinfo")
BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""Flags of processors that multiply bf16: two of x86, one of ARM. Elsewhere torch computes it by
detours: on AVX2 alone, matrix work takes 5 to 10 times the time it takes in fp32."""

GPU_DEVICES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # the second under WSL2
BF16_CAPABILITY = (8, 0)  # NVIDIA's compute capability from which tensor cores take bf16


def settled(config: Pretrain) -> Pretrain:
    """The config with `train.precision: auto` replaced by a format.

    A run keeps the format that it was begun with, on whatever machine it goes on (law T1).
    """
    if config.train.precision != "auto":
        return config
    saved = folder.saved_config(config.run) if folder.has_begun(config.run) else None
    return _with_precision(config, saved.train.precision if saved else fastest())


def agreed(config: Pretrain) -> Pretrain:
    """The config with rank 0's `train.precision`, for the ranks' machines may differ.

    Raises ConfigError for fp16 without a GPU.
    """
    refuse_slow(config.train.precision, has_gpu=_has_gpu())
    return _with_precision(config, dist.broadcast_decision(config.train.precision))


def refuse_slow(precision: str, *, has_gpu: bool) -> None:
    """Raise ConfigError for a format that this machine computes by detours only."""
    if precision == "fp16" and not has_gpu:
        raise ConfigError(
            "train.precision=fp16 on a machine without a GPU: processors do not multiply it; use "
            "train.precision=auto (bf16 where the processor has it, else fp32)"
        )


def _has_gpu() -> bool:
    if not any(path.exists() for path in GPU_DEVICES):
        return False
    import torch  # elsewhere a dry run needs none

    return torch.cuda.is_available()


def _with_precision(config: Pretrain, precision: str) -> Pretrain:
    train = config.train.model_copy(update={"precision": precision})
    return config.model_copy(update={"train": train})


def fastest() -> Literal["fp32", "bf16"]:
    """bf16 where this machine's GPU, or else its processor, multiplies it; else fp32."""
    if _has_gpu():
        import torch

        return "bf16" if torch.cuda.get_device_capability() >= BF16_CAPABILITY else "fp32"
    return "bf16" if cpu_flags(CPU_DESCRIPTION) & BF16_FLAGS else "fp32"


def cpu_flags(description: Path) -> set[str]:
    """The abilities that Linux lists of the first processor; none where it lists nothing."""
    try:
        lines = description.read_text().splitlines()
    except OSError:
        return set()
    named = (line.partition(":") for line in lines)
    found = (value for key, _, value in named if key.strip() in ("flags", "Features"))
    return set(next(found, "").split())
