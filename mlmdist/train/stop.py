"""A request to stop (SIGTERM, SIGINT): noted at once, acted on by all ranks at the next step."""

import logging
import signal
from types import FrameType, TracebackType
from typing import Any

log = logging.getLogger(__name__)


class Stop:
    """Whether this rank was signalled, and whether all ranks have agreed to stop.

    A signal alone decides nothing: the loop adds `signalled` up over all ranks and tells `agree`,
    so that every rank saves at the same step. A second signal changes nothing: launchers send
    several, and end what does not stop in time by themselves.
    """

    def __init__(self) -> None:
        self.signalled = False
        self.requested = False
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

    def agree(self, num_signalled: int) -> None:
        """Take the number of signalled ranks as it was summed over all of them."""
        if num_signalled and not self.requested:
            log.warning("asked to stop: saving at the end of this step")
        self.requested = num_signalled > 0

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.signalled = True
