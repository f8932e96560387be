"""No rank waits for ever (law T3): ranks tell rank 0 where they stand; rank 0 ends the job by name.

Collectives alone do not do this: a stopped peer or a cut link is noticed only at a time-out of many
minutes, and no message names the rank. So each rank has a thread that sends a line a second to rank
0's hub: how many marks of the run it has passed, and the last one's name.

- A closed connection without a farewell, or silence for `peer_seconds`: the rank is lost (exit 11).
- The rank with the fewest marks, without a new one for `hang_seconds`, hangs (exit 12).
- A rank that fails for a reason of its own tells it, and all ranks end with its exit code.
- A rank that loses the hub ends by itself, and so does one whose launcher is gone.

Time in which the watching process itself was stopped (Ctrl-Z, a suspended machine) does not count.
"""

import faulthandler
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from mlmdist.dist import Place
from mlmdist.errors import BUG, HANG, PEER_LOST, ConfigError, UserError
from mlmdist.train.hub import OWN_FAILURE_GRACE_SECONDS, Hub, Verdict, machine
from mlmdist.train.lines import Connection

log = logging.getLogger(__name__)

BEATS_PER_DEADLINE = 5
MAX_BEAT_SECONDS = 1.0
VERDICT_SECONDS = 3.0
TOLD = "told to rank 0, which speaks for all"


@dataclass(frozen=True)
class Address:
    """The port on rank 0's machine at which its hub listens, and the word that lets a rank in."""

    port: int
    word: str


def beat_seconds(peer_seconds: float) -> float:
    """How often a rank is heard of."""
    return min(MAX_BEAT_SECONDS, peer_seconds / BEATS_PER_DEADLINE)


class Watchdog:
    """One rank's end of the watch; a context manager around everything that ranks do together.

    On rank 0 it holds the hub. `end` is called with the exit code when the job must end; it does
    not return (`os._exit`: a rank inside a collective cannot be woken in any other way).
    """

    def __init__(
        self,
        here: Place,
        *,
        peer_seconds: float,
        hang_seconds: float,
        end: Callable[[int], Any] = os._exit,
    ) -> None:
        self.here, self.peer_seconds, self.hang_seconds = here, peer_seconds, hang_seconds
        self._end = end
        self._count, self._ticks, self._where = 0, 0, "start"
        self._hub: Hub | None = None
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._ending = threading.Lock()
        self._parent = os.getppid()

    def listen(self) -> Address | None:
        """Open rank 0's hub and return where it is; None on the other ranks."""
        if self.here.rank != 0:
            return None
        word = secrets.token_hex(16)
        self._hub = Hub(
            world_size=self.here.world_size,
            word=word,
            peer_seconds=self.peer_seconds,
            hang_seconds=self.hang_seconds,
        )
        return Address(self._hub.port, word)

    def watch(self, address: Address) -> None:
        """Begin to watch; `address` is rank 0's, as it was broadcast."""
        if self._hub is None:
            self._connection = self._connect(address)
        self._thread = threading.Thread(target=self._guard, name="watchdog", daemon=True)
        self._thread.start()

    def mark(self, where: str) -> None:
        """Tell that this rank has come to `where`; all ranks pass the same marks in one order."""
        self._where = where
        self._count += 1

    def alive(self) -> None:
        """Tell that a long piece of work goes on, without passing a mark."""
        self._ticks += 1

    def __enter__(self) -> "Watchdog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, UserError):
            self._wait_for_verdict()  # a failed collective is the consequence of a lost peer
        verdict = None if error is None else _verdict(self.here.rank, error)
        self._closing.set()
        if self._hub is not None:
            self._leave_as_hub(self._hub, verdict)
        elif self._connection is not None:
            self._leave_as_peer(self._connection, verdict)
            if error is not None:
                error.add_note(TOLD)

    def _wait_for_verdict(self) -> None:
        """Give the watching thread time to end the job in the name of the rank that caused it."""
        if self.here.world_size > 1:
            time.sleep(VERDICT_SECONDS)

    def _leave_as_hub(self, hub: Hub, verdict: Verdict | None) -> None:
        if self._thread is not None:
            self._thread.join(timeout=VERDICT_SECONDS)
        if verdict is None:
            hub.dismiss()
        else:
            hub.tell(verdict)
        hub.close()

    def _leave_as_peer(self, connection: Connection, verdict: Verdict | None) -> None:
        connection.send({"bye": True} if verdict is None else {"failed": asdict(verdict)})
        if verdict is not None:  # the hub must have read it before the connection breaks
            time.sleep(OWN_FAILURE_GRACE_SECONDS + 2 * beat_seconds(self.peer_seconds))
        if self._thread is not None:
            self._thread.join(timeout=VERDICT_SECONDS)
        connection.close()

    def _connect(self, address: Address) -> Connection:
        host = os.environ.get("MASTER_ADDR", "127.0.0.1")
        try:
            endpoint = socket.create_connection((host, address.port), timeout=self.peer_seconds)
        except OSError as error:
            raise ConfigError(
                f"rank {self.here.rank} cannot reach the watchdog of rank 0 at {host}:"
                f"{address.port} ({error}); ranks must reach all ports of one another's machines"
            ) from None
        connection = Connection(endpoint)
        hello = {"rank": self.here.rank, "pid": os.getpid(), "machine": machine()}
        connection.send({"word": address.word, "hello": hello})
        return connection

    def _state(self) -> dict[str, Any]:
        return {"count": self._count, "ticks": self._ticks, "where": self._where}

    def _guard(self) -> None:
        """The thread's work; a rank that is not watched must not go on as if it were."""
        try:
            self._serve() if self._hub is not None else self._beat()
        except Exception:
            log.exception("the watchdog of rank %d failed", self.here.rank)
            self._end(BUG)

    def _serve(self) -> None:
        """Rank 0's thread: read what the ranks say, judge, and carry the verdict out."""
        assert self._hub is not None
        beat = beat_seconds(self.peer_seconds)
        while not self._closing.is_set():
            verdict = self._hub.turn(beat, self._state()) or self._orphaned()
            if verdict is not None and not self._closing.wait(verdict.grace_seconds):
                self._hub.tell(verdict)
                self._hub.kill_silent(verdict)
                self._carry_out(verdict, speak=True)
                return

    def _beat(self) -> None:
        """Another rank's thread: say where this rank stands, and listen for a verdict."""
        assert self._connection is not None
        beat = beat_seconds(self.peer_seconds)
        heard = now = time.monotonic()
        while not self._closing.is_set():
            self._connection.send(self._state())
            lines, open_still = self._connection.receive(beat)
            before, now = now, time.monotonic()
            if lines or now - before > beat + self.peer_seconds / 2:
                heard = now  # or this process was stopped itself: nobody is to blame for that
            if any("dismissed" in line for line in lines):
                return
            verdict = _told(lines) or self._lost_hub(heard, open_still) or self._orphaned()
            if verdict is not None and not self._closing.is_set():
                self._carry_out(verdict, speak=not _told(lines))
                return

    def _lost_hub(self, heard: float, open_still: bool) -> Verdict | None:
        silence = time.monotonic() - heard
        if open_still and silence < self.peer_seconds:
            return None
        how = f"not heard of for {silence:.0f} s" if open_still else "gone without a word"
        return Verdict(PEER_LOST, f"rank 0 is {how}; the same command resumes the run", (0,))

    def _orphaned(self) -> Verdict | None:
        if not self.here.launched or os.getppid() == self._parent:
            return None
        return Verdict(
            PEER_LOST,
            f"the launcher of rank {self.here.rank} is gone; the same command resumes the run",
        )

    def _carry_out(self, verdict: Verdict, *, speak: bool) -> None:
        """End this process with the verdict's exit code."""
        with self._ending:
            if speak:
                sys.stderr.write(f"error: {verdict.text}\n")
            if verdict.code == HANG and self.here.rank in verdict.ranks:
                faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
            sys.stderr.flush()
            self._end(verdict.code)


def _told(lines: list[dict[str, Any]]) -> Verdict | None:
    for line in lines:
        if "verdict" in line:
            return Verdict.from_json(line["verdict"])
    return None


def _verdict(rank: int, error: BaseException) -> Verdict:
    """What the other ranks are told when this one ends with `error`."""
    if isinstance(error, UserError):
        return Verdict(error.exit_code, str(error), (rank,))
    first_line = (str(error).splitlines() or [""])[0]
    return Verdict(BUG, f"rank {rank} failed: {type(error).__name__}: {first_line}", (rank,))
