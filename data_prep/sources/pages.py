"""The pages of a MediaWiki dump, found in its bytes by their tags and not parsed.

In XML a `<` of the text is written `&lt;`, so `<page>` stands nowhere but where a page starts.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator

from data_prep.sources.packed import WAY_OUT
from data_prep.sources.record import NOWHERE, Raw, too_large
from data_prep.sources.text import ALL
from mlmdist.errors import DataError

START, END, CLOSE = b"<page>", b"</page>", b"</mediawiki>"
_START_OR_END = re.compile(rb"</?page>")


class PageFinder:
    """Cuts blocks of bytes into pages, places counted in bytes.

    Pages that start at `start` or behind it are given, each from its tag to its end, and none that
    starts where `stop_at` said to stop. `follows`: bytes of the dump stand before the first.
    """

    def __init__(self, first: int, start: int, most_bytes: int, *, follows: bool) -> None:
        self.first, self.place = first, first  # of the bytes seen, of those not yet looked at
        self.start, self.most_bytes, self.follows = start, most_bytes, follows
        self.stop, self.ends_file = ALL, True
        self.page_place: int | None = None
        self.page: bytearray | None = None  # None outside of a page, and in one that is too large
        self.tail = b""

    def stop_at(self, place: int, *, ends_file: bool) -> None:
        """Give no page that starts at `place`, which has not come yet, or behind it.

        Where the dump does not end as one should, the reader with `ends_file` tells it.
        """
        self.stop, self.ends_file = place, ends_file

    def pages(self, blocks: Iterable[bytes]) -> Iterator[Raw]:
        """The pages of the blocks, which go on from each other; a page without end is a problem."""
        carry = b""
        for block in blocks:
            data = carry + block
            used = 0
            while (found := self._next_tag(data, used)) is not None:
                at, is_start = found
                if is_start and self.page_place is None and self.place + at >= self.stop:
                    return
                page = self._take(data, used, at, is_start=is_start)
                used = at + len(START if is_start else END)
                if page is not None:
                    yield page
            keep = max(used, len(data) - len(END) + 1)
            self._add(data[used:keep])
            carry = data[keep:]
            self.place += keep
            if self.page_place is None and self.place >= self.stop:
                return
        self._add(carry)
        self.place += len(carry)
        yield from self._at_end()

    def _next_tag(self, data: bytes, used: int) -> tuple[int, bool] | None:
        """Where the next tag that matters stands in the data, and whether a page starts there."""
        if self.page_place is None:
            at = data.find(START, max(used, self.start - self.place))
            return (at, True) if at >= 0 else None
        found = _START_OR_END.search(data, used)
        return (found.start(), found.group() == START) if found else None

    def _take(self, data: bytes, used: int, at: int, *, is_start: bool) -> Raw | None:
        """Go over a tag; the page that ends with it, if one does."""
        before: Raw | None = None
        if self.page_place is not None:
            place = self.page_place
            self._add(data[used : at + (0 if is_start else len(END))])
            if is_start:
                before = Raw(place, problem="the page has no end: another starts in it")
            elif self.page is None:
                before = too_large(place, self.most_bytes)
            else:
                before = Raw(place, self.page)
        self.page_place = self.place + at if is_start else None
        self.page = bytearray(START) if is_start else None
        self.tail = b"" if is_start else END
        return before

    def _add(self, data: bytes) -> None:
        """Take bytes that hold no tag."""
        if self.page is not None:
            self.page += data
            if len(self.page) > self.most_bytes:
                self.page = None
        self.tail = (self.tail + data[-4096:]).rstrip()[-len(CLOSE) :]

    def _at_end(self) -> Iterator[Raw]:
        """What is wrong with the end of the file, if something is."""
        # Where the last piece is shorter than the tag, the piece before holds the tag's start.
        short = self.place - self.first < len(CLOSE) and CLOSE.endswith(self.tail)
        closed = self.tail == CLOSE or (short and self.follows)
        if self.page_place is not None and closed:
            yield Raw(self.page_place, problem="the page has no end")
        elif not closed and self.ends_file:
            yield Raw(NOWHERE, problem=f"the dump ends before its </mediawiki>; {WAY_OUT}")


class StreamPlaces:
    """Blocks of a file of many streams, and the place of a page: its stream's, plus its number."""

    def __init__(self, streams: Iterable[tuple[int, bytes]], stop: int, name: str) -> None:
        self.streams, self.stop, self.name = streams, stop, name
        self.position = 0
        self.starts = deque[tuple[int, int]]()  # (position in the blocks, in the file)
        self.pages = 0

    def blocks(self, finder: PageFinder) -> Iterator[bytes]:
        """The blocks; the finder is told where the first stream at or behind `stop` starts."""
        for stream, block in self.streams:
            if not self.starts or stream != self.starts[-1][1]:
                self.starts.append((self.position, stream))
                if stream >= self.stop and finder.ends_file:
                    finder.stop_at(self.position, ends_file=False)
            self.position += len(block)
            yield block

    def place(self, position: int) -> int:
        """The place of the next page, which starts at `position` of the blocks."""
        while len(self.starts) > 1 and self.starts[1][0] <= position:
            self.check()
            self.starts.popleft()
            self.pages = 0
        self.pages += 1
        return self.starts[0][1] + self.pages - 1

    def check(self) -> None:
        """Raise DataError if the next stream's places would be this one's too."""
        if len(self.starts) > 1 and self.starts[0][1] + self.pages > self.starts[1][1]:
            raise DataError(
                f"{self.name}: the bzip2 stream at byte {self.starts[0][1]:,} holds more pages "
                "than bytes, so they have no ids; pack the dump as one stream"
            )
