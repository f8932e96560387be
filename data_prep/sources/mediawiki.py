"""MediaWiki XML dumps, plain or packed, each page found and parsed alone.

A page's place is the byte at which it starts in the unpacked dump; in a bzip2 dump, which is cut
where its streams start, it is that of the stream in the file plus the page's number in the stream.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from data_prep.documents import Document
from data_prep.sources.files import SourceFile
from data_prep.sources.packed import (
    Counts,
    Damage,
    find_stream,
    frames,
    kind_of,
    raw_blocks,
    read_head,
)
from data_prep.sources.pages import START, PageFinder, StreamPlaces
from data_prep.sources.record import NOWHERE, Raw
from data_prep.sources.splits import Piece
from data_prep.sources.text import TextBytes, decode, piece_text, whole_text
from data_prep.wikitext.extraction import extract
from data_prep.wikitext.names import Names

ARTICLE_NAMESPACE = 0
FILE_NAMESPACE, CATEGORY_NAMESPACE = 6, 14
SITE_END = b"</siteinfo>"
MOST_HEAD_BYTES = 1 << 22
# MediaWiki itself stops at 2 MB; extraction may take 30 times the text.
MOST_WIKITEXT_CHARACTERS = 16_000_000
_ROOT = re.compile(rb"<mediawiki\b[^>]*>")
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


@dataclass(frozen=True)
class Site:
    """What a dump's head says about its wiki: the local names of its namespaces."""

    language: str = ""
    namespaces: dict[int, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> Names:
        """The link prefixes of this wiki that put a file or a category instead of words."""
        return Names.of_wiki(
            files=(self.namespaces.get(FILE_NAMESPACE, ""),),
            categories=(self.namespaces.get(CATEGORY_NAMESPACE, ""),),
            language=self.language,
        )


@dataclass(frozen=True)
class PageBytes:
    """A page as it stands in its dump, and the wiki it is of."""

    data: bytes | bytearray
    site: Site


@dataclass(frozen=True)
class Page:
    """A page's newest revision in a dump."""

    title: str
    namespace: int
    redirect: bool
    text: str
    """Wikitext; empty where the revision was deleted or is no wikitext."""


def read_records(piece: Piece, counts: Counts) -> Iterator[Raw]:
    """The pages that start in the piece, as PageBytes; memory holds one.

    Raises Damage where the file is none; of what is wrong behind its head a record tells.
    """
    file = piece.file
    kind = kind_of(read_head(file.path))
    try:
        text, site = _head(file)
    except Damage:
        if piece.start:
            return  # the first piece tells it
        raise
    if text.recoded and piece.start:
        return  # no stream of it can be read alone: the first piece has it all
    if kind == "bzip2" and not text.recoded:
        found = _pages_of_streams(piece, counts)
    else:
        found = _pages_of_text(piece, counts, all_of_it=text.recoded)
    for raw in found:
        if not raw.problem:
            raw.data = PageBytes(raw.data, site)
        yield raw


def read_document(record: PageBytes, identity: int, counts: Counts) -> tuple[Document | None, str]:
    """A page as a document, its own group, or why it is none (`redirect`, `namespace`).

    It has no paragraphs where the page has no prose. ValueError says why a page cannot be read.
    """
    page = parsed(record.data, counts)
    if reason := skip_reason(page):
        return None, reason
    if len(page.text) > MOST_WIKITEXT_CHARACTERS:
        raise ValueError(f"its {len(page.text):,} characters are too many for a wiki page")
    paragraphs = tuple(extract(page.text, record.site.names))
    return Document(identity, str(identity), page.title, paragraphs), ""


def skip_reason(page: Page) -> str:
    """Why a page is no article (`redirect`, `namespace`), or the empty string for an article."""
    if page.namespace != ARTICLE_NAMESPACE:
        return "namespace"
    return "redirect" if page.redirect else ""


def _pages_of_text(piece: Piece, counts: Counts, *, all_of_it: bool) -> Iterator[Raw]:
    file = piece.file
    stop = file.num_bytes if all_of_it else piece.stop
    text = piece_text(file.path, piece.start, stop, file.num_bytes, counts)
    most_bytes, follows = file.source.max_record_bytes, piece.start > 0
    finder = PageFinder(text.first, piece.start, most_bytes, follows=follows)
    finder.stop_at(text.stop, ends_file=stop == file.num_bytes)
    return finder.pages(text.blocks)


def _pages_of_streams(piece: Piece, counts: Counts) -> Iterator[Raw]:
    """The pages of the bzip2 streams that start in the piece; a damaged stream is one record."""
    file = piece.file
    start = find_stream(file.path, piece.start, piece.stop) if piece.start else 0
    while start is not None:
        raw = raw_blocks(file.path, start, range(piece.start, piece.stop), counts)
        places = StreamPlaces(frames(raw, "bzip2", start), piece.stop, str(file.path))
        finder = PageFinder(0, 0, file.source.max_record_bytes, follows=start > 0)
        try:
            for page in finder.pages(places.blocks(finder)):
                page.place = places.place(page.place) if page.place >= 0 else NOWHERE
                yield page
            places.check()
            return
        except Damage as damage:
            if damage.place >= piece.stop:
                return  # the piece that it is in tells it
            yield Raw(NOWHERE, problem=str(damage))
            start = find_stream(file.path, damage.place + 1, piece.stop)


def _head(file: SourceFile) -> tuple[TextBytes, Site]:
    """How the file is written, and what its head says."""
    text = whole_text(file.path, 0, Counts())
    head = bytearray()
    for block in text.blocks:
        head += block
        if SITE_END in head or START in head or len(head) > MOST_HEAD_BYTES:
            break
    return text, _site(bytes(head))


def _site(head: bytes) -> Site:
    """The site of the head of a dump; a dump that ends in its head has a nameless one."""
    root = _ROOT.search(head)
    if root is None:
        raise Damage("is no MediaWiki dump: no <mediawiki> stands at its start")
    end = head.find(SITE_END)
    known = head[root.start() : end + len(SITE_END) if end >= 0 else root.end()]
    try:
        element = ET.fromstring(known + b"</mediawiki>")  # noqa: S314 (no DTD stands before it)
    except ET.ParseError as error:
        raise Damage(f"its <siteinfo> is no XML ({error}); fetch the dump again") from None
    language = element.get("{http://www.w3.org/XML/1998/namespace}lang", "")
    spaces = (item for item in element.iter() if _local(item.tag) == "namespace")
    return Site(language, {int(item.get("key", "0")): item.text or "" for item in spaces})


def parsed(data: bytes | bytearray, counts: Counts) -> Page:
    """The page of a `<page>` element; control characters, which no XML may hold, are left out."""
    try:
        try:
            return _page(ET.fromstring(data))  # noqa: S314 (a page alone has no entities of its own)
        except ET.ParseError:
            return _page(ET.fromstring(_NOT_XML.sub("", decode(data, counts))))  # noqa: S314
    except ET.ParseError as error:
        raise ValueError(f"the page is no XML: {error}") from None


def _page(page: ET.Element) -> Page:
    """A `<page>` element as a record; of several revisions the last one in the file is taken."""
    fields = {_local(child.tag): child for child in page}
    revision = fields.get("revision")
    parts = {} if revision is None else {_local(child.tag): child for child in revision}
    model = _text(parts, "model") or "wikitext"
    return Page(
        title=_text(fields, "title"),
        namespace=int(_text(fields, "ns") or ARTICLE_NAMESPACE),
        redirect="redirect" in fields,
        text=_text(parts, "text") if model == "wikitext" else "",
    )


def _local(tag: str) -> str:
    """A tag without its XML namespace, whose version number differs between dumps."""
    return tag.rpartition("}")[2]


def _text(elements: dict[str, ET.Element], name: str) -> str:
    element = elements.get(name)
    return "" if element is None else element.text or ""
