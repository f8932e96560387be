import bz2
import gzip
import tracemalloc
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.documents import Document
from data_prep.sources import mediawiki
from data_prep.sources.mediawiki import parsed, skip_reason
from data_prep.sources.packed import Counts
from data_prep.sources.pages import PageFinder
from data_prep.sources.record import Raw
from data_prep.sources.records import read_records
from data_prep.sources.splits import plan_splits
from mlmdist.errors import DataError
from tests.data_prep.sources.reading import Entry, entries, pieces, read, source_file, whole

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


def dump(*pages: str) -> bytes:
    return (HEAD + "".join(pages) + "</mediawiki>").encode()


PAGES = [
    page("Alpha", f"[[Vaizdinys:a.jpg|A caption that is a sentence.]]\n{PROSE}\n[[Rūšis:x]]"),
    page("Beta", "#REDIRECT [[Alpha]]", redirect=True),
    page("Vaizdinys:c", PROSE, namespace=6),
    page("Gamma &amp; Δ", f"{PROSE} &lt;ref&gt;source&lt;/ref&gt;"),
    page("Empty", ""),
]
MANY = [page(f"P{n}", f"{PROSE} Number {n * n * n}.") for n in range(60)]


def check(found: list[Entry]) -> None:
    assert [entry for _, entry in found if isinstance(entry, str)] == ["redirect", "namespace"]
    documents = [entry for _, entry in found if isinstance(entry, Document)]
    assert [document.title for document in documents] == ["Alpha", "Gamma & Δ", "Empty"]
    assert [document.paragraphs for document in documents] == [(PROSE,), (PROSE,), ()]
    assert [document.group for document in documents] == [
        str(document.id) for document in documents
    ]
    numbers = [number for number, _ in found if number is not None]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.xml"


@pytest.mark.parametrize("pack", [bytes, bz2.compress, gzip.compress])
def test_plain_and_packed_dumps_read_alike(path: Path, pack) -> None:
    check(read(path, pack(dump(*PAGES)), format="mediawiki"))
    check(read(path, pack(b"\xef\xbb\xbf" + dump(*PAGES) + b"\n"), format="mediawiki"))


def test_utf16_with_a_byte_order_mark_is_known(path: Path) -> None:
    data = dump(*PAGES).decode().encode("utf-16")
    check(read(path, data, format="mediawiki"))
    check(read(path, bz2.compress(data), format="mediawiki"))
    file = source_file(
        path, bz2.compress(data[:500]) + bz2.compress(data[500:]), format="mediawiki"
    )
    check(entries(pieces(file, 300)))


def test_a_page_s_place_is_its_byte_or_its_stream_and_number(path: Path) -> None:
    data = dump(*PAGES)
    assert [n for n, _ in read(path, data, format="mediawiki")][1] == data.index(
        b"<page><title>Beta"
    )
    streams = [
        HEAD.encode(),
        "".join(PAGES[:2]).encode(),
        "".join(PAGES[2:]).encode(),
        b"</mediawiki>",
    ]
    first, second, third, _ = packed_streams = list(map(bz2.compress, streams))
    start = len(first)
    found = read(path, b"".join(packed_streams), format="mediawiki")
    check(found)
    assert [n for n, _ in found] == [start, start + 1, *(start + len(second) + n for n in range(3))]
    assert third


@settings(max_examples=12)
@given(
    size=st.sampled_from([1, 100, 347, 1000, 5000]),
    stream=st.sampled_from([0, 40, 300, 2000]),
    end=st.sampled_from([b"", b"\n", b"\n\n"]),
)
def test_pages_are_the_same_wherever_the_dump_is_cut(
    tmp_path_factory, size: int, stream: int, end: bytes
) -> None:
    data = dump(*MANY[:20]) + end
    if stream:  # streams that end anywhere, in tags too
        data = b"".join(bz2.compress(data[n : n + stream]) for n in range(0, len(data), stream))
    path = tmp_path_factory.getbasetemp() / "cut.xml"
    file = source_file(path, data, format="mediawiki")
    expected = entries([whole(file)])
    assert [entry for _, entry in expected if isinstance(entry, str)] == []
    assert len({number for number, _ in expected}) == 20
    assert entries(pieces(file, max(size, len(data) // 30))) == expected


@pytest.mark.parametrize("split_bytes", [1_000, 64_000, 64_000_000])
@pytest.mark.parametrize("pack", [bytes, bz2.compress])
def test_the_planner_s_splits_give_the_same_pages(path: Path, split_bytes: int, pack) -> None:
    parts = [dump(*MANY)[n : n + 3000] for n in range(0, len(dump(*MANY)), 3000)]
    data = b"".join(map(pack, parts))
    file = source_file(path, data, format="mediawiki", split_bytes=split_bytes)
    splits = plan_splits([file])
    assert (len(splits) > 1) == (split_bytes < len(data))
    assert entries(splits) == read(path, data, format="mediawiki")


@pytest.mark.parametrize("pack", [bytes, bz2.compress, gzip.compress])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.99])
def test_a_dump_that_ends_too_early_is_one_problem(path: Path, pack, share: float) -> None:
    data = pack(dump(*MANY))
    cut = data[: int(len(data) * share)]
    found = read(path, cut, format="mediawiki")
    bad = [(number, entry) for number, entry in found if isinstance(entry, str)]
    assert len(bad) == 1
    assert found[-1] == bad[0]
    assert bad[0][0] is None
    assert "fetch it again" in bad[0][1] or "is no MediaWiki dump" in bad[0][1]
    if pack is bytes:
        assert found[:-1] == read(path, data, format="mediawiki")[: len(found) - 1]
        file = source_file(path, cut, format="mediawiki")
        assert entries(pieces(file, max(1, len(cut) // 7))) == found


@pytest.mark.parametrize("stream", [100, 1000])
def test_streams_that_are_whole_but_not_all_there_are_one_problem(path: Path, stream: int) -> None:
    text = dump(*MANY[:12])
    streams = [text[n : n + stream] for n in range(0, len(text), stream)]
    data = b"".join(map(bz2.compress, streams[:-2]))
    file = source_file(path, data, format="mediawiki")
    found = entries([whole(file)])
    assert [entry for _, entry in found if isinstance(entry, str)] == [found[-1][1]]
    assert "</mediawiki>" in str(found[-1][1])
    for size in (150, 300, len(data) - 20):
        assert entries(pieces(file, size)) == found


def test_a_last_piece_shorter_than_the_last_tag_is_no_problem(path: Path) -> None:
    text = dump(*MANY[:3])
    streams = bz2.compress(text[:-5]) + bz2.compress(text[-5:])
    for data, size in ((text, len(text) - 5), (text, len(text) - 1), (streams, len(streams) - 50)):
        file = source_file(path, data, format="mediawiki")
        found = entries(pieces(file, size))
        assert [isinstance(entry, Document) for _, entry in found] == [True] * 3


def test_a_damaged_stream_loses_itself_alone(path: Path) -> None:
    streams = [HEAD.encode(), *("".join(MANY[n : n + 10]).encode() for n in range(0, 60, 10))]
    compressed = list(map(bz2.compress, [*streams, b"</mediawiki>"]))
    data = bytearray(b"".join(compressed))
    start = sum(map(len, compressed[:3]))
    data[start + len(compressed[3]) // 2] ^= 0x10
    file = source_file(path, bytes(data), format="mediawiki")
    found = entries([whole(file)])
    titles = [entry.title for _, entry in found if isinstance(entry, Document)]
    assert titles == [f"P{n}" for n in range(60) if not 20 <= n < 30]
    (problem,) = [entry for _, entry in found if isinstance(entry, str)]
    assert f"at byte {start:,}: damaged bzip2" in problem
    assert entries(pieces(file, 600)) == found


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("<page><title>Bad</title><revision><text>no end\n", "another starts in it"),
        ("<page><title>Bad</title><revision><text>a</revision></page>\n", "no XML: mismatched tag"),
        ("<page><title>&nonesuch;</title></page>\n", "no XML: undefined entity"),
        ("<page><ns>zero</ns></page>\n", "invalid literal"),
        ("<page>&#0;</page>\n", "no XML"),
        (page("Bad", "x" * 5000), "max_record_bytes=4,000"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, bz2.compress])
def test_a_bad_page_is_a_problem_and_the_next_goes_on(path: Path, bad: str, reason, pack) -> None:
    data = pack(dump(MANY[0], bad, MANY[1]))
    first, problem, last = read(path, data, format="mediawiki", max_record_bytes=4000)
    assert isinstance(first[1], Document)
    assert isinstance(last[1], Document)
    assert reason in str(problem[1])
    assert problem[0] is not None


def test_an_unclosed_last_page_in_a_closed_dump_is_that_page_s_problem(path: Path) -> None:
    data = dump(MANY[0], MANY[1].replace("</page>", ""))
    for size in (100, 1 << 20):
        file = source_file(path, data, format="mediawiki")
        (_, first), (number, problem) = entries(pieces(file, size))
        assert isinstance(first, Document)
        assert (number, problem) == (data.rindex(b"<page>"), "the page has no end")


def test_bytes_that_no_xml_holds_are_left_out(path: Path) -> None:
    data = dump(page("A\x00B", f"{PROSE}\x01\x0b")).replace(b"free", b"fr\xffee")
    ((_, found),) = read(path, data, format="mediawiki")
    assert isinstance(found, Document)
    assert (found.title, found.paragraphs) == ("AB", (PROSE.replace("free", "fr\ufffdee"),))


def test_deleted_text_other_models_and_many_revisions(path: Path) -> None:
    deleted = "<page><title>D</title><revision><text deleted='deleted' /></revision></page>"
    other = page("M", PROSE).replace("<model>wikitext", "<model>json")
    first, second = (
        f"<revision><text>Old: {PROSE}</text></revision>",
        f"<revision><text>New: {PROSE}</text></revision>",
    )
    twice = f"<page><title>T</title>{first}{second}</page>"
    found = [entry for _, entry in read(path, dump(deleted, other, twice), format="mediawiki")]
    assert all(isinstance(entry, Document) for entry in found)
    assert [entry.paragraphs for entry in found if isinstance(entry, Document)] == [
        (),
        (),
        (f"New: {PROSE}",),
    ]


@pytest.mark.parametrize("data", [b"", b"<html><page></page></html>", b"some text " * 100])
def test_what_is_no_dump_is_one_problem(path: Path, data: bytes) -> None:
    ((number, problem),) = read(path, data, format="mediawiki")
    assert number is None
    assert "is no MediaWiki dump" in str(problem)
    file = source_file(path, data, format="mediawiki")
    assert len(entries(pieces(file, 10))) == 1


def test_a_head_that_is_no_xml_is_one_problem(path: Path) -> None:
    data = dump(*PAGES).replace(b"</namespaces>", b"")
    ((_, problem),) = read(path, data, format="mediawiki")
    assert "its <siteinfo> is no XML" in str(problem)


def test_more_pages_in_a_stream_than_bytes_have_no_ids(path: Path) -> None:
    data = bz2.compress(dump(*["<page><ns>1</ns></page>"] * 1000)[: -len("</mediawiki>")])
    data += bz2.compress(b"<page><ns>1</ns></page></mediawiki>")
    with pytest.raises(DataError, match="holds more pages than bytes"):
        read(path, data, format="mediawiki")


def endless(num_pages: int) -> Iterator[bytes]:
    """A dump of many pages that is made while it is read."""
    yield HEAD.encode()
    one = page("Page", "word " * 2000).encode()
    for _ in range(num_pages):
        yield one
    yield b"</mediawiki>"


def test_memory_does_not_grow_with_the_dump() -> None:
    def peak(num_pages: int) -> int:
        tracemalloc.start()
        finder = PageFinder(0, 0, 1 << 20, follows=False)
        found: Iterator[Raw] = finder.pages(endless(num_pages))
        assert sum(1 for raw in found if not raw.problem) == num_pages
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(10)
    assert peak(1000) < 1.5 * peak(200) < 1_000_000


def test_a_page_that_never_ends_takes_no_memory() -> None:
    tracemalloc.start()
    finder = PageFinder(0, 0, 1 << 16, follows=False)
    (problem,) = finder.pages(iter([b"<page>", *[b"x" * 100_000] * 300, b"</page></mediawiki>"]))
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    assert "max_record_bytes" in problem.problem


def test_the_sample_dump_gives_pages_and_clean_prose(tmp_path: Path) -> None:
    folder = files("gensim") / "test" / "test_data"
    name = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
    data = (folder / name).read_bytes()
    counts = Counts()
    file = source_file(tmp_path / "x", data, format="mediawiki")
    raws = [raw.take() for _, raw in read_records(whole(file), counts)]
    pages = {found.title: found for found in (parsed(raw.data, counts) for raw in raws)}
    assert len(raws) == len(pages) == 206
    assert sum(not skip_reason(found) for found in pages.values()) == 106
    number = list(pages).index("Achilles")
    document, _ = mediawiki.read_document(raws[number], 0, counts)
    assert document is not None
    prose = "\n".join(document.paragraphs)
    assert len(prose) > 20_000
    assert "Ancient Greek: Ἀχιλλεύς" in prose
    marks = ["{{", "}}", "[[", "]]", "''", "<ref", "|thumb", "px|", "Category:", "://", "( "]
    assert [mark for mark in marks if mark in prose] == []
