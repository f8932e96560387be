"""A request to stop (SIGTERM, SIGINT, a launcher that is gone): acted on by all ranks together."""

import logging
import os
import signal
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from mlmdist.dist import Place

log = logging.getLogger(__name__)

LAUNCHER = "deepspeed"


class Stop:
    """Whether this rank was signalled, and whether all ranks have agreed to stop.

    A signal alone decides nothing: the loop adds `signalled` up over all ranks and tells `agree`,
    so that every rank saves at the same step. A second signal changes nothing: launchers send
    several, and end what does not stop in time by themselves.

    The `deepspeed` command dies of SIGTERM without a word to its child launch.py, our parent: ranks
    that see launch.py with another parent than at the start take it as the signal.
    """

    def __init__(self, here: Place) -> None:
        self.requested = False
        self._noted = False
        self._launcher = _launcher() if here.launched else None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def signalled(self) -> bool:
        """Whether this rank has reason to stop."""
        return self._noted or self._launcher not in (None, _parent(os.getppid()))

    def agree(self, num_signalled: int) -> None:
        """Take the number of signalled ranks as it was summed over all of them."""
        if num_signalled and not self.requested:
            log.warning("asked to stop: saving at the end of this step")
        self.requested = num_signalled > 0

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._noted = True


def _launcher() -> int | None:
    """The process of the `deepspeed` command two generations above, if it is there."""
    pid = _parent(os.getppid())
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return None
    return pid if LAUNCHER in words else None


def _parent(pid: int) -> int | None:
    """The parent of a process (man 5 proc_pid_stat); None if the process is gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(status.rpartition(")")[2].split()[1])
