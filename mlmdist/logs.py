"""What a person sees while a command runs: log lines and progress with an estimate of the end."""

import logging
import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from mlmdist.errors import DONE, PREEMPTED, UserError

log = logging.getLogger(__name__)

MIN_REDRAW_SECONDS = 0.1
MIN_LINE_SECONDS = 10.0
CLEAR_LINE = "\r\x1b[2K"
LINE_UP = "\x1b[1A"


def set_up(*, rank: int = 0, level: int = logging.INFO) -> None:
    """Send log lines to standard error: all of them from rank 0, warnings from the other ranks."""
    prefix = "" if rank == 0 else f"[rank {rank}] "
    logging.basicConfig(
        level=level if rank == 0 else max(level, logging.WARNING),
        format=f"%(asctime)s {prefix}%(levelname).1s %(message)s",
        datefmt="%H:%M:%S",
        handlers=[_AboveTheBar(sys.stderr)],
        force=True,
    )


class _AboveTheBar(logging.StreamHandler[TextIO]):
    """Writes a line where the bar stands on a terminal; the bar comes again below it."""

    def emit(self, record: logging.LogRecord) -> None:
        if Progress.drawn_lines:
            self.stream.write(_clear(Progress.drawn_lines))
            Progress.drawn_lines = 0
        super().emit(record)


def run_command(command: Callable[[], int | None]) -> int:
    """Run a command; a `UserError` becomes one line on standard error and its exit code.

    Anything else is a bug and keeps its traceback (exit code 1).
    """
    try:
        return command() or DONE
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted; the same command goes on where it was\n")
        return PREEMPTED


class Progress:
    """A bar on a terminal, a line every ten seconds elsewhere: share done, rate, time left.

    `total` and `advance` count in `unit`; the caller chooses what a unit is (bytes, steps, blocks).
    A note that does not fit behind the bar on a terminal gets the line below it.
    """

    drawn_lines = 0  # of a bar that is the last thing on the terminal

    def __init__(self, label: str, total: float, unit: str, *, shown: bool = True) -> None:
        self.label, self.total, self.unit, self.shown = label, total, unit, shown
        self.done = 0.0
        self.note = ""
        self.started = time.monotonic()
        self.first = 0.0  # what was there before this process began: no part of the rate
        self.on_terminal = sys.stderr.isatty()
        self.drawn = self.started if not self.on_terminal else 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.shown and self.on_terminal:
            self._draw()
            sys.stderr.write("\n")
            Progress.drawn_lines = 0

    def resume_at(self, done: float) -> None:
        """Count `done` as finished by an earlier process."""
        self.done = self.first = done

    @property
    def seconds(self) -> float:
        """Time since the work began, never zero."""
        return max(time.monotonic() - self.started, 1e-9)

    def advance(self, amount: float, note: str = "") -> None:
        """Count `amount` more as finished; `note` stands behind the bar."""
        self.note = note or self.note
        self.stand_at(self.done + amount, lambda: self.note)

    def stand_at(self, done: float, note: Callable[[], str]) -> None:
        """Count `done` as finished in all; the note is asked for only if it is to be drawn."""
        self.done = done
        wait = MIN_REDRAW_SECONDS if self.on_terminal else MIN_LINE_SECONDS
        if self.shown and time.monotonic() - self.drawn >= wait:
            self.note = note()
            self._draw()

    def _draw(self) -> None:
        self.drawn = time.monotonic()
        if not self.on_terminal:
            log.info("%s", self.text())
            return
        width = shutil.get_terminal_size().columns - 1  # a longer line would wrap and stay
        text = self.text()
        lines = [text] if len(text) <= width else [self.bar(), self.note] if self.note else [text]
        shown = "\n".join(line[:width] for line in lines)
        sys.stderr.write(f"{_clear(max(Progress.drawn_lines, 1))}{shown}")
        sys.stderr.flush()
        Progress.drawn_lines = len(lines)

    def text(self) -> str:
        """The bar as it stands: `label  42 % [####----] 12.3 steps/s, 0:41 left, note`."""
        return f"{self.bar()}, {self.note}" if self.note else self.bar()

    def bar(self) -> str:
        """The bar without the note."""
        rate = (self.done - self.first) / self.seconds
        share = min(self.done / self.total, 1.0) if self.total else 1.0
        bar = "#" * int(share * 16)
        left = clock((self.total - self.done) / rate) if rate > 0 else "?"
        percent = min(int(share * 100), 99) if share < 1 else 100
        speed = f"{quantity(rate)} {self.unit}/s"
        return f"{self.label} {percent:3}% [{bar:-<16}] {speed}, {left} left"


def _clear(lines: int) -> str:
    """What takes so many lines off the terminal, the last of which holds the cursor."""
    return CLEAR_LINE + f"{LINE_UP}{CLEAR_LINE}" * (lines - 1)


def clock(seconds: float) -> str:
    """`0:07`, `12:34` or `1:02:03`."""
    whole = max(0, round(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def quantity(value: float) -> str:
    """A number of three digits with the field's prefixes: `12.3`, `4.56k`, `789M`."""
    for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"
