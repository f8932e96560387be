"""What checkpoints need of an engine, so that they do not know DeepSpeed."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class EngineFiles(Protocol):
    """The part of an engine that goes to files; methods are called by all ranks together."""

    def save(self, folder: Path, tag: str) -> None:
        """Write weights and optimizer state to `folder`/`tag`."""

    def load(self, folder: Path, tag: str) -> None:
        """Read what `save` wrote at this world size."""

    def constants(self) -> dict[str, Any]:
        """What a ZeRO state must hold besides tensors, whatever the checkpoint."""
        ...
