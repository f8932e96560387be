"""The pages of a MediaWiki XML dump, one at a time, plain or bzip2."""

import bz2
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, Protocol, cast, runtime_checkable

from data_prep.documents import Document, document_id
from data_prep.wikitext.extraction import extract
from data_prep.wikitext.names import Names
from mlmdist.errors import DataError

ARTICLE_NAMESPACE = 0
FILE_NAMESPACE, CATEGORY_NAMESPACE = 6, 14
READ_BYTES = 1 << 20
BZIP2_MAGIC = b"BZh"


@runtime_checkable
class Readable(Protocol):
    """What a parser reads from."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most `size`; none at the end."""
        ...


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
        )


@dataclass(frozen=True)
class Page:
    """A page's newest revision in a dump."""

    title: str
    namespace: int
    redirect: bool
    text: str
    """Wikitext; empty where the revision was deleted or is no wikitext."""

    ordinal: int
    """The page's place in its file, redirects and other namespaces counted, from 0."""

    site: Site


def read_pages(stream: Readable, name: str = "the dump") -> Iterator[Page]:
    """The pages of an XML dump in file order; memory holds one page at a time.

    `stream` is read from its place and may be bzip2, of one or many streams; UTF-8 and UTF-16 are
    known by declaration or byte order mark. Raises DataError, which names `name`, where the file is
    damaged or ends too early; the pages before that place have been given.
    """
    counter = _Counter(_decompressed(stream))
    try:
        yield from _pages(counter)
    except (EOFError, OSError, ValueError, ET.ParseError) as error:
        raise DataError(
            f"{name}: broken after about {counter.count:,} bytes of XML ({error}); a dump must be "
            f"whole: compare its checksum and fetch it again"
        ) from error


def skip_reason(page: Page) -> str:
    """Why a page is no article (`redirect`, `namespace`), or the empty string for an article."""
    if page.namespace != ARTICLE_NAMESPACE:
        return "namespace"
    return "redirect" if page.redirect else ""


def page_document(page: Page, source_index: int) -> Document:
    """The page as a document, its own group; it has no paragraphs where the page has no prose."""
    number = document_id(source_index, page.ordinal)
    return Document(number, str(number), page.title, tuple(extract(page.text, page.site.names)))


class _Counter:
    """A readable that counts what went through it, so that an error can say where."""

    def __init__(self, stream: Readable) -> None:
        self.stream, self.count = stream, 0

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, `READ_BYTES` at most."""
        data = self.stream.read(min(size, READ_BYTES) if size > 0 else READ_BYTES)
        self.count += len(data)
        return data


def _decompressed(stream: Readable) -> Readable:
    """The stream behind bzip2, where its first bytes say so; `bz2` joins streams itself."""
    head = stream.read(len(BZIP2_MAGIC))
    whole = _Joined(head, stream)
    return bz2.BZ2File(cast("IO[bytes]", whole)) if head == BZIP2_MAGIC else whole


class _Joined:
    """Bytes that were read already, then the stream they came from, which need not seek."""

    def __init__(self, head: bytes, stream: Readable) -> None:
        self.head, self.stream = head, stream

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""
        head, self.head = self.head, b""
        return head or self.stream.read(size)


def _pages(stream: Readable) -> Iterator[Page]:
    """Pages out of parse events; each element is thrown away as soon as it has been used."""
    events = ET.iterparse(stream, events=("start", "end"))  # noqa: S314 (expat bounds what entities grow to)
    _, root = next(events)
    site, ordinal = Site(), 0
    for event, element in events:
        if event == "start":
            continue
        kind = _local(element.tag)
        if kind == "siteinfo":
            site = _site(element, root)
        elif kind == "page":
            yield _page(element, ordinal, site)
            ordinal += 1
            root.clear()


def _site(siteinfo: ET.Element, root: ET.Element) -> Site:
    language = root.get("{http://www.w3.org/XML/1998/namespace}lang", "")
    spaces = (item for item in siteinfo.iter() if _local(item.tag) == "namespace")
    return Site(language, {int(item.get("key", "0")): item.text or "" for item in spaces})


def _page(page: ET.Element, ordinal: int, site: Site) -> Page:
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
        ordinal=ordinal,
        site=site,
    )


def _local(tag: str) -> str:
    """A tag without its XML namespace, whose version number differs between dumps."""
    return tag.rpartition("}")[2]


def _text(elements: dict[str, ET.Element], name: str) -> str:
    element = elements.get(name)
    return "" if element is None else element.text or ""
