import bz2
import io
import tracemalloc
from importlib.resources import files
from typing import IO

import pytest

from data_prep.sources.mediawiki import Page, page_document, read_pages, skip_reason
from mlmdist.errors import DataError

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" xml:lang="lt">
<siteinfo><namespaces><namespace key="0" /><namespace key="6">Vaizdinys</namespace>
<namespace key="14">Rūšis</namespace></namespaces></siteinfo>
"""
PROSE = "All human beings are born free and equal in dignity and rights."


def page(title: str, text: str, *, namespace: int = 0, redirect: bool = False) -> str:
    mark = '<redirect title="X" />' if redirect else ""
    return (
        f"<page><title>{title}</title><ns>{namespace}</ns><id>7</id>{mark}<revision><id>1</id>"
        f'<model>wikitext</model><text xml:space="preserve">{text}</text></revision></page>\n'
    )


def dump(*pages: str) -> str:
    return HEAD + "".join(pages) + "</mediawiki>"


PAGES = [
    page("Alpha", f"[[Vaizdinys:a.jpg|A caption that is a sentence.]]\n{PROSE}\n[[Rūšis:x]]"),
    page("Beta", "#REDIRECT [[Alpha]]", redirect=True),
    page("Vaizdinys:c", PROSE, namespace=6),
    page("Gamma &amp; Δ", f"{PROSE} &lt;ref&gt;source&lt;/ref&gt;"),
    page("Empty", ""),
]


def read(data: bytes) -> list[Page]:
    return list(read_pages(io.BytesIO(data), "x.xml"))


def check(pages: list[Page]) -> None:
    assert [found.title for found in pages] == [
        "Alpha",
        "Beta",
        "Vaizdinys:c",
        "Gamma & Δ",
        "Empty",
    ]
    assert [skip_reason(found) for found in pages] == ["", "redirect", "namespace", "", ""]
    assert [found.ordinal for found in pages] == [0, 1, 2, 3, 4]
    documents = [page_document(found, 2) for found in pages if not skip_reason(found)]
    assert [document.paragraphs for document in documents] == [(PROSE,), (PROSE,), ()]
    assert [document.id for document in documents] == [2 << 40, 2 << 40 | 3, 2 << 40 | 4]
    assert documents[0].group == str(2 << 40)
    assert pages[0].site.language == "lt"


def test_plain_and_compressed_dumps_read_alike() -> None:
    data = dump(*PAGES).encode()
    check(read(data))
    check(read(bz2.compress(data)))


def test_dumps_of_many_bzip2_streams_are_read_whole() -> None:
    data = dump(*PAGES).encode()
    parts = [data[start : start + 300] for start in range(0, len(data), 300)]
    check(read(b"".join(map(bz2.compress, parts))))


def test_utf16_with_a_byte_order_mark_is_known() -> None:
    check(read(dump(*PAGES).encode("utf-16")))


@pytest.mark.parametrize("compress", [bytes, bz2.compress])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_dump_that_ends_too_early_is_an_error(compress, share: float) -> None:
    data = compress(dump(*PAGES * 20).encode())
    with pytest.raises(DataError, match=r"^x\.xml: broken after about [\d,]+ bytes"):
        read(data[: int(len(data) * share)])


def test_streams_that_are_whole_but_not_all_there_are_an_error() -> None:
    data = dump(*PAGES).encode()
    with pytest.raises(DataError, match="broken after"):
        read(bz2.compress(data[:700]))
    with pytest.raises(DataError, match="broken after"):
        read(b"")


def test_damaged_bzip2_is_an_error() -> None:
    data = bytearray(bz2.compress(dump(*PAGES * 20).encode()))
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(DataError, match="broken after"):
        read(bytes(data))


class _Endless(io.RawIOBase):
    """A dump of many pages that is made while it is read."""

    def __init__(self, num_pages: int) -> None:
        self.left, self.rest = num_pages, HEAD.encode()
        self.page = page("Page", "word " * 2000).encode()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while len(self.rest) < len(buffer) and self.left:
            self.rest += self.page
            self.left -= 1
            if not self.left:
                self.rest += b"</mediawiki>"
        size = min(len(buffer), len(self.rest))
        buffer[:size] = self.rest[:size]
        self.rest = self.rest[size:]
        return size


def test_memory_does_not_grow_with_the_dump() -> None:
    def peak(num_pages: int) -> int:
        tracemalloc.start()
        assert sum(1 for _ in read_pages(io.BufferedReader(_Endless(num_pages)))) == num_pages
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(10)
    assert peak(1000) < 1.5 * peak(200) < 20_000_000


def sample() -> IO[bytes]:
    folder = files("gensim") / "test" / "test_data"
    name = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
    return (folder / name).open("rb")


def test_the_sample_dump_gives_clean_prose() -> None:
    with sample() as stream:
        pages = list(read_pages(stream))
    articles = [found for found in pages if not skip_reason(found)]
    assert (len(pages), len(articles)) == (206, 106)
    documents = {found.title: page_document(found, 0) for found in articles[:8]}
    text = "\n".join("\n".join(document.paragraphs) for document in documents.values())
    assert len(text) > 100_000
    marks = ["{{", "}}", "[[", "]]", "''", "<ref", "|thumb", "px|", "Category:", "://", "( "]
    assert [mark for mark in marks if mark in text] == []
    assert "1300 mi" in " ".join(documents["Alabama"].paragraphs)  # {{convert|1300|mi|km}}
    assert "Ancient Greek: Ἀχιλλεύς" in " ".join(documents["Achilles"].paragraphs)
