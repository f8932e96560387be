"""Rank 0's side of the watch: what is known of each rank, and the verdict that follows from it."""

import logging
import os
import resource
import selectors
import signal
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlmdist.errors import HANG, PEER_LOST
from mlmdist.train.lines import Connection

log = logging.getLogger(__name__)

OWN_FAILURE_GRACE_SECONDS = 0.5
OTHER_FILES = 512  # that rank 0 has open beside a connection to each rank


@dataclass(frozen=True)
class Verdict:
    """Why the job ends: the exit code, one line for a person, and the ranks that caused it."""

    code: int
    text: str
    ranks: tuple[int, ...] = ()
    grace_seconds: float = 0.0
    """How long rank 0 may take to come to the same end by itself, and say it in its own words."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Verdict":
        """The verdict that was sent as its fields."""
        return cls(**{**values, "ranks": tuple(values["ranks"])})


@dataclass
class Peer:
    """What the hub knows of one rank."""

    rank: int
    connection: Connection | None = None
    pid: int = 0
    machine: str = ""
    count: int = 0
    ticks: int = 0
    where: str = "start"
    heard: float = 0.0  # when it was last heard of
    moved: float = 0.0  # when it last told of progress
    left: bool = False

    def hear(self, state: dict[str, Any], now: float) -> None:
        """Take in what the rank says of itself."""
        self.heard = now
        if (state["count"], state["ticks"]) != (self.count, self.ticks):
            self.count, self.ticks, self.where = state["count"], state["ticks"], state["where"]
            self.moved = now


class Hub:
    """A listening socket and what the ranks said; `turn` waits a moment and judges."""

    def __init__(
        self, *, world_size: int, word: str, peer_seconds: float, hang_seconds: float
    ) -> None:
        self.word, self.peer_seconds, self.hang_seconds = word, peer_seconds, hang_seconds
        if world_size > 1:
            allow_files(world_size + OTHER_FILES)
        self.listener = socket.create_server(("", 0), backlog=max(16, world_size))
        self.port: int = self.listener.getsockname()[1]
        # It knows the sockets: to name them all at each word costs milliseconds with many ranks.
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        now = time.monotonic()
        self.peers = {rank: Peer(rank, heard=now, moved=now) for rank in range(world_size)}
        self.peers[0].pid = os.getpid()
        self.strangers: list[Connection] = []
        self.turned = now

    def turn(self, seconds: float, own_state: dict[str, Any]) -> Verdict | None:
        """Listen for `seconds`, then say whether the job must end."""
        deadline = time.monotonic() + seconds
        verdict = None
        while verdict is None and (left := deadline - time.monotonic()) > 0:
            verdict = self._listen(left)
        self._forgive_own_absence(seconds)
        self.peers[0].hear(own_state, time.monotonic())
        for peer in self._present():
            if peer.connection is not None:
                peer.connection.send({"alive": True})
        return verdict or self._judge()

    def tell(self, verdict: Verdict) -> None:
        """Send the verdict to every rank that is still there."""
        for peer in self._present():
            if peer.connection is not None:
                peer.connection.send({"verdict": asdict(verdict)})

    def dismiss(self) -> None:
        """Tell every rank that the work is done and nobody watches any more."""
        for peer in self._present():
            if peer.connection is not None:
                peer.connection.send({"dismissed": True})

    def kill_silent(self, verdict: Verdict) -> None:
        """End lost ranks on this machine that still exist, stopped or stuck: they hear nothing."""
        if verdict.code != PEER_LOST:
            return
        for rank in verdict.ranks:
            peer = self.peers[rank]
            if peer.pid and peer.machine == machine() and rank != 0:
                try:
                    os.kill(peer.pid, signal.SIGKILL)
                except ProcessLookupError:
                    log.debug("rank %d is gone already", rank)

    def close(self) -> None:
        """Close all sockets."""
        self.selector.close()
        self.listener.close()
        for connection in [*self.strangers, *(peer.connection for peer in self.peers.values())]:
            if connection is not None:
                connection.close()

    def _present(self) -> list[Peer]:
        return [peer for peer in self.peers.values() if not peer.left]

    def _listen(self, seconds: float) -> Verdict | None:
        """Read once from whoever speaks within `seconds`."""
        for key, _ in self.selector.select(seconds):
            speaker = key.fileobj
            if speaker is self.listener:
                stranger = Connection(self.listener.accept()[0])
                self.strangers.append(stranger)
                self.selector.register(stranger, selectors.EVENT_READ)
            elif isinstance(speaker, Connection) and speaker in self.strangers:
                self._admit(speaker)
            elif (verdict := self._hear(key.data)) is not None:
                return verdict
        return None

    def _admit(self, stranger: Connection) -> None:
        """Let in who knows the word; what else it said at once is heard too."""
        self.strangers.remove(stranger)
        lines, open_still = stranger.receive(0)
        if not open_still or not lines or lines[0].get("word") != self.word:
            self.selector.unregister(stranger)
            stranger.close()
            return
        hello = lines[0]["hello"]
        peer = self.peers[hello["rank"]]
        peer.connection, peer.pid, peer.machine = stranger, hello["pid"], hello["machine"]
        peer.heard = time.monotonic()
        self.selector.modify(stranger, selectors.EVENT_READ, peer)
        self._take(peer, lines[1:])

    def _hear(self, peer: Peer) -> Verdict | None:
        assert peer.connection is not None
        lines, open_still = peer.connection.receive(0)
        verdict = self._take(peer, lines)
        if verdict is None and not open_still and not peer.left:
            return Verdict(
                PEER_LOST,
                f"rank {peer.rank} is gone without a word (it stood at: {peer.where}); "
                "the same command resumes the run",
                (peer.rank,),
            )
        return verdict

    def _take(self, peer: Peer, lines: list[dict[str, Any]]) -> Verdict | None:
        now = time.monotonic()
        for line in lines:
            if "bye" in line and not peer.left:
                peer.left = True
                assert peer.connection is not None, "who speaks is connected"
                self.selector.unregister(peer.connection)
            elif "failed" in line:
                failed = line["failed"] | {"grace_seconds": OWN_FAILURE_GRACE_SECONDS}
                return Verdict.from_json(failed)
            elif "count" in line:
                peer.hear(line, now)
        return None

    def _forgive_own_absence(self, seconds: float) -> None:
        """If this process was stopped itself, nobody is to blame for that time."""
        now = time.monotonic()
        if now - self.turned > seconds + self.peer_seconds / 2:
            for peer in self.peers.values():
                peer.heard = peer.moved = now
        self.turned = now

    def _judge(self) -> Verdict | None:
        now = time.monotonic()
        silent = [peer for peer in self._present() if now - peer.heard > self.peer_seconds]
        if silent:
            ranks = tuple(peer.rank for peer in silent)
            return Verdict(
                PEER_LOST,
                f"{names(ranks)} not heard of for {self.peer_seconds:g} s (limits.peer_seconds; "
                f"stood at: {silent[0].where}); the same command resumes the run",
                ranks,
            )
        return self._judge_progress(now)

    def _judge_progress(self, now: float) -> Verdict | None:
        present = self._present()
        fewest = min(peer.count for peer in present)
        last = [peer for peer in present if peer.count == fewest]
        if any(now - peer.moved <= self.hang_seconds for peer in last):
            return None  # the others may wait for the one that works, without telling
        ranks = tuple(peer.rank for peer in last)
        waiting = tuple(peer.rank for peer in present if peer.count > fewest)
        others = f", {names(waiting)} waiting for it" if waiting else ""
        return Verdict(
            HANG,
            f"{names(ranks)} without progress for {self.hang_seconds:g} s (limits.hang_seconds) "
            f"at: {last[0].where}{others}; the same command resumes the run",
            ranks,
        )


def allow_files(count: int) -> None:
    """Let this process open `count` files, as far as its hard limit goes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and hard < count:
        log.warning("only %d open files are allowed (ulimit -Hn), %d may be needed", hard, count)
    if soft != resource.RLIM_INFINITY and soft < count:
        allowed = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def machine() -> str:
    """A name for the set of processes that share process numbers with this one."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{socket.gethostname()} {namespace}"


def names(ranks: tuple[int, ...]) -> str:
    """`rank 3` or `ranks 1, 3`."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(str(rank) for rank in ranks)}"
