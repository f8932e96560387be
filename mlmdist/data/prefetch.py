"""A thread that makes items ahead of their use."""

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
POLL_SECONDS = 0.1


class Prefetcher(Generic[Item]):
    """Iterates over `source` with up to `depth` items made ahead by a thread.

    An error in `source` is raised at the consumer, in its place. `close` stops the thread; so does
    the end of the items, and leaving a `with` block.
    """

    def __init__(self, source: Iterator[Item], depth: int) -> None:
        self.source = source
        self.ready: queue.Queue[Item | _End] = queue.Queue(depth)
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._work, name="prefetch", daemon=True)
        self.thread.start()

    def __iter__(self) -> "Prefetcher[Item]":
        return self

    def __next__(self) -> Item:
        item = self._get()
        if not isinstance(item, _End):
            return item
        self.close()
        raise item.error or StopIteration

    def __enter__(self) -> "Prefetcher[Item]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread and wait for it; items made ahead are dropped."""
        self.stopped.set()
        while self.thread.is_alive():
            self._drain()
            self.thread.join(POLL_SECONDS)
        self._drain()

    def _drain(self) -> None:
        while not self.ready.empty():
            self.ready.get_nowait()

    def _work(self) -> None:
        end = _End(None)
        try:
            for item in self.source:
                self._put(item)
                if self.stopped.is_set():
                    return
        except BaseException as error:  # the consumer raises it
            end = _End(error)
        finally:
            getattr(self.source, "close", _nothing)()  # a generator has something to put away
        self._put(end)

    def _get(self) -> "Item | _End":
        while not self.stopped.is_set():
            try:
                return self.ready.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
        return _End(None)

    def _put(self, item: "Item | _End") -> None:
        while not self.stopped.is_set():
            try:
                self.ready.put(item, timeout=POLL_SECONDS)
            except queue.Full:
                continue
            return


def _nothing() -> None:
    pass


class _End:
    """What stands behind the last item: the error that ended the source, if one did."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error
