"""torch's compiler, which no process loads that has not asked for it (engine.py)."""

import os
import shutil

import torch

from mlmdist.errors import ConfigError

SWITCH = "TORCHDYNAMO_DISABLE"
COMPILERS = {"cuda": ("CC", "cc", "gcc", "clang"), "cpu": ("CXX", "g++", "clang++")}
"""By device: the variable that may name it, and where torch's compiler looks for one."""


def allow(device: torch.device) -> None:
    """Let torch.compile compile from now on.

    Raises ConfigError where the system's compiler, which it needs, is missing.
    """
    variable, *names = COMPILERS[device.type]
    named = os.environ.get(variable)
    wanted = [named] if named else names
    if not any(shutil.which(name) for name in wanted):
        raise ConfigError(
            f"train.compile=true needs a compiler, and there is no {' or '.join(wanted)} in PATH; "
            "install g++, or use train.compile=false"
        )
    os.environ.pop(SWITCH, None)
