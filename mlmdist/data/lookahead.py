"""Blocks of remote shard sets, fetched into the cache before the batches that need them.

The rule: blocks come in bursts, a group of every lane at a time (`order.group_blocks`), and then
none for as many rows as a group holds. So what is fetched ahead is counted in blocks, not batches:
as many as the reader holds, which is a whole group a lane and one more; but never more than a
quarter of the cache, or they would be evicted before their use.

What will be read is not guessed: the cells of coming batches go through the same arithmetic as when
they are made, and a table of what the reader holds by then says which of their blocks it asks for.
The blocks of held-out sets are fetched in the same way, while a set is evaluated. An error here is
passed over; the reader meets it where the block is used.
"""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from mlmdist.data.mixture import Cells, Mixture
from mlmdist.data.reader import Reader
from mlmdist.errors import UserError
from mlmdist.shards import ShardSet

log = logging.getLogger(__name__)

CACHE_PARTS = 4  # one of them may be blocks fetched ahead
CLOSE_SECONDS = 5.0  # a thread that a store keeps longer is left to end by itself
TOKEN_BYTES = 4  # of a block, at most about, with all its fields


class Read(NamedTuple):
    """A block that batch `batch` will ask for."""

    batch: int
    corpus: int
    block: int


class Lookahead:
    """Threads that fetch blocks, at most `limit` of them for batches not reached yet."""

    def __init__(
        self, shard_sets: tuple[ShardSet, ...], reads: Iterator[Read], limit: int, num_threads: int
    ) -> None:
        self.shard_sets, self.reads, self.limit = shard_sets, reads, limit
        self.batch, self.closed = -1, False
        self.ahead: deque[int] = deque()  # the batch of each read that was taken, ascending
        self.planning, self.changed = threading.Lock(), threading.Condition()
        self.threads = [
            threading.Thread(target=self._work, name="lookahead", daemon=True)
            for _ in range(num_threads if limit else 0)
        ]
        for thread in self.threads:
            thread.start()

    def reached(self, batch: int) -> None:
        """Say that the blocks of `batch` are asked for now: further ones may be fetched."""
        with self.changed:
            self.batch = batch
            self.changed.notify_all()

    def close(self) -> None:
        """Fetch nothing more, and wait for what is on its way, but not for long."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (read := self._next()) is not None:
            try:
                self.shard_sets[read.corpus].fetch_ahead(read.block)
            except (UserError, OSError) as error:
                log.debug("not fetched ahead: %s", error)

    def _next(self) -> Read | None:
        """The next read, once it may be fetched; None at the end."""
        with self.planning:
            with self.changed:
                self.changed.wait_for(self._may_go_on)
                if self.closed:
                    return None
            read = next(self.reads, None)  # may walk through many batches
            if read is not None:
                with self.changed:
                    self.ahead.append(read.batch)
            return read

    def _may_go_on(self) -> bool:
        while self.ahead and self.ahead[0] <= self.batch:
            self.ahead.popleft()
        return self.closed or len(self.ahead) < self.limit


@contextmanager
def lookahead(
    reader: Reader, mixture: Mixture, parts: Iterable[tuple[int, Cells]], num_threads: int
) -> Iterator[Lookahead]:
    """What fetches ahead for a reader that will be asked for `parts`: (first batch, cells)."""
    reads = planned(reader, mixture, parts)
    ahead = Lookahead(reader.shard_sets, reads, limit(reader), num_threads)
    try:
        yield ahead
    finally:
        ahead.close()


def limit(reader: Reader) -> int:
    """Blocks fetched ahead, by the rule above; 0 where nothing is remote, or nothing kept."""
    room = [
        one.cache.max_bytes // CACHE_PARTS // max(1, _block_bytes(one))
        for one in reader.shard_sets
        if one.cache is not None
    ]
    return min([reader.capacity, *room]) if room else 0


def _block_bytes(shards: ShardSet) -> int:
    """Bytes of a block of a set, about."""
    return TOKEN_BYTES * shards.manifest.num_tokens // shards.manifest.num_blocks


def planned(reader: Reader, mixture: Mixture, parts: Iterable[tuple[int, Cells]]) -> Iterator[Read]:
    """The blocks that a reader will read for `parts`, in order, and not those it holds by then."""
    held = OrderedDict.fromkeys(reader.held)  # now, before it reads on beside the planning
    return _planned(held, reader.capacity, mixture, parts)


def _planned(
    held: OrderedDict[tuple[int, int], None],
    capacity: int,
    mixture: Mixture,
    parts: Iterable[tuple[int, Cells]],
) -> Iterator[Read]:
    for batch, cells in parts:
        for key in _keys(mixture, cells):
            if key not in held:
                while len(held) >= capacity:
                    held.popitem(last=False)
                yield Read(batch, *key)
            held[key] = None
            held.move_to_end(key)


def _keys(mixture: Mixture, cells: Cells) -> list[tuple[int, int]]:
    """(corpus, block) of whole cells, ascending, as a reader takes them."""
    sizes = mixture.cell_rows(cells)
    blocks, _ = mixture.places(cells, sizes)
    keys = np.unique(np.stack([np.repeat(cells.corpus, sizes), blocks]), axis=1)
    return list(map(tuple, keys.T.tolist()))
