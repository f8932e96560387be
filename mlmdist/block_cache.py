"""Blocks of remote shard sets, kept in a folder of this machine that its processes share.

    FOLDER/SHA256 OF THE SHARD/KEY     the bytes of a block, or of the index, as in the shard
    FOLDER/total                       bytes of all of them
    FOLDER/incoming                    the block that is being written
    FOLDER/lock, FOLDER/fetching-NN    held while blocks are written or evicted; or fetched

A block is written under the one name `incoming` by whoever holds the lock, and renamed: there is
never more than one half-written block, and the next writer removes what a killed one left. Room is
made before it is written and the total is raised before it appears, so blocks never take more than
the bound, and a kill leaves the total too high at most; evicting counts anew.

What is read is checked against the CRC that the shard's index gives, each time, so nothing has to
be synced to disk. Readers take no lock: a file that is evicted under one stays readable to it. A
cache that cannot be used costs speed only: what its folder refuses is logged once and passed.
"""

import fcntl
import logging
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

log = logging.getLogger(__name__)

GIGABYTE = 10**9
FREE_BYTES = 1 << 30  # of its disk that a cache leaves to others
ROOM = 0.95  # of the bound is left after evicting, so that it is not done for each block
LOCK_SECONDS = 10.0
FETCH_SECONDS = 60.0  # the longest wait for another process that fetches the same block
PAUSE_SECONDS = 60.0  # without writing, after the folder refused something
POLL_SECONDS = 0.005
NUM_FETCHES = 64
TOTAL, INCOMING, LOCK = "total", "incoming", "lock"
DIGEST_LENGTH = 64  # of the folders' names
INDEX_KEY = "__index__"  # of a shard's index: small, wanted at each start, and so evicted last


@dataclass(frozen=True)
class CachedBlock:
    """What a block is known by, and what its bytes must be."""

    shard_sha256: str
    key: str
    bytes: int
    crc32c: int


class BlockCache:
    """The cache in a folder, of at most `max_bytes`, whichever processes of this machine use it."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self.paused_until = 0.0
        self.counted = False  # by this process: the total may be one of before a power cut
        self.told: set[int | None] = set()

    @classmethod
    def open(cls, folder: Path | None, gigabytes: float) -> "BlockCache | None":
        """The cache in `folder`, by default the user's; None if it is to hold nothing."""
        if not gigabytes:
            return None
        return cls((folder or default_folder()).expanduser(), round(gigabytes * GIGABYTE))

    def read(self, block: CachedBlock, fetch: Callable[[], bytes]) -> bytes:
        """The block's bytes, from the folder or else by `fetch`, whose errors are raised here.

        Of the processes that want a block at the same time, one fetches it.
        """
        data = self._kept(block)
        if data is not None or not self._takes(block):
            return fetch() if data is None else data
        with self._fetching(block):
            data = self._kept(block)
            if data is None:
                data = fetch()
                self._keep(block, data)
        return data

    def fetch_ahead(self, block: CachedBlock, fetch: Callable[[], bytes]) -> None:
        """See to it that the block is in the folder, and not the next to be evicted."""
        try:
            os.utime(self._path(block))
        except OSError:
            if self._takes(block):
                self.read(block, fetch)

    def _takes(self, block: CachedBlock) -> bool:
        return block.bytes <= self.max_bytes and time.monotonic() >= self.paused_until

    def _path(self, block: CachedBlock) -> Path:
        return self.folder / block.shard_sha256 / block.key

    def _kept(self, block: CachedBlock) -> bytes | None:
        """The block's bytes if the folder has them; a file with other bytes is removed."""
        path = self._path(block)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._pause(error)
            return None
        with suppress(OSError):
            if len(data) == block.bytes and google_crc32c.value(data) == block.crc32c:
                os.utime(path)
                return data
            log.warning("%s: damaged in the cache; removed, to be fetched again", path)
            path.unlink()
            return None
        return data

    def _keep(self, block: CachedBlock, data: bytes) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._locked(LOCK, LOCK_SECONDS):
                self._write(block, data)
        except OSError as error:
            self._pause(error)

    def _write(self, block: CachedBlock, data: bytes) -> None:
        """Write a block, if there is room for it; the caller holds the lock."""
        incoming, path = self.folder / INCOMING, self._path(block)
        incoming.unlink(missing_ok=True)  # of a process that was killed
        total = None if path.exists() else self._with_room(len(data))
        if total is None:
            return
        try:
            incoming.write_bytes(data)
            self._note(total + len(data))
            path.parent.mkdir(exist_ok=True)
            incoming.replace(path)
        except OSError:
            with suppress(OSError):
                incoming.unlink()
            raise

    def _with_room(self, size: int) -> int | None:
        """Bytes of the blocks, of which enough were evicted for `size` more; None: no room."""
        total = self._noted()
        free = shutil.disk_usage(self.folder).free - FREE_BYTES
        limit = min(self.max_bytes, total + free)
        if total + size > limit:
            total = self._evict(max(0, min(limit - size, int(limit * ROOM) - size)))
        return total if total + size <= limit else None

    def _evict(self, most: int) -> int:
        """Remove the blocks that were used longest ago until at most `most` bytes are left."""
        blocks = sorted(self._blocks(), key=lambda block: (block[2].name == INDEX_KEY, block))
        total = sum(size for _, size, _ in blocks)
        for _, size, path in blocks:
            if total <= most:
                break
            path.unlink(missing_ok=True)
            total -= size
            with suppress(OSError):
                path.parent.rmdir()  # if that was the shard's last
        self._note(total)
        return total

    def _blocks(self) -> Iterator[tuple[int, int, Path]]:
        """(time of last use, bytes, path) of every block."""
        for shard in self.folder.iterdir():
            if len(shard.name) == DIGEST_LENGTH:
                for path in shard.iterdir():
                    with suppress(FileNotFoundError):  # damaged, and removed by its reader
                        status = path.stat()
                        yield status.st_mtime_ns, status.st_size, path

    def _noted(self) -> int:
        """Bytes of all blocks, counted if nobody knows."""
        if self.counted:
            with suppress(OSError, ValueError):
                return int((self.folder / TOTAL).read_text())
        self.counted = True
        return sum(size for _, size, _ in self._blocks())

    def _note(self, total: int) -> None:
        (self.folder / TOTAL).write_text(str(total))

    @contextmanager
    def _fetching(self, block: CachedBlock) -> Iterator[None]:
        """Held by one process for a block, as far as locks work and nobody takes too long."""
        number = zlib.crc32(f"{block.shard_sha256}/{block.key}".encode()) % NUM_FETCHES
        with ExitStack() as held:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(self._locked(f"fetching-{number:02}", FETCH_SECONDS))
            except TimeoutError:
                log.info("%s: no longer waited for another process to fetch", self._path(block))
            except OSError as error:
                self._pause(error)
            yield

    @contextmanager
    def _locked(self, name: str, seconds: float) -> Iterator[None]:
        """Hold a lock of the folder, which falls with the process; TimeoutError after `seconds`."""
        descriptor = os.open(self.folder / name, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            deadline = time.monotonic() + seconds
            while not _lock(descriptor):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{name} is held by another process for {seconds:.0f} s")
                time.sleep(POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _pause(self, error: OSError) -> None:
        """Write nothing for a while; each kind of refusal is logged once."""
        self.paused_until = time.monotonic() + PAUSE_SECONDS
        if error.errno not in self.told:
            self.told.add(error.errno)
            log.warning(
                "%s: %s; blocks are fetched without the cache until that is mended: slower, but "
                "the same; data.cache.folder names another place",
                self.folder,
                error.strerror or error,
            )


def default_folder() -> Path:
    """`mlmdist` in the user's folder for caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "mlmdist"


def _lock(descriptor: int) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
