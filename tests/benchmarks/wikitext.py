"""Wikitext extraction: how fast beside mwparserfromhell, how linear, how clean beside a reference.

    python -m tests.benchmarks.wikitext [--quick] [--corpus PATH]

PATH is a folder with any of: `*.xml.bz2` dumps, `*.tar.xz` of pages as raw wikitext, and
`*reference.jsonl.xz`, another extractor's text of the same articles (`title`, `text`), which ours
is compared with. Default: the dump that gensim ships. Times are of the processor, so that a busy
machine changes little. The ratios of the last line: how many times faster ours is on the pages with
the most templates (`template_heavy`) and on all (`all_pages`), the worst growth of time where a
page doubles (`doubling`, 2 is linear), and the share of the reference's sentences that ours has
(`reference_sentences`).
"""

import argparse
import bz2
import html
import json
import lzma
import re
import tarfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import IO

import mwparserfromhell

from data_prep.wikitext.extraction import extract
from data_prep.wikitext.names import Names
from tests.benchmarks.duel import Board
from tests.data_prep.wikitext.markup import MANY_CHILDREN, NESTINGS, PROSE, UNITS

SAMPLE = ("gensim", "test/test_data")
SAMPLE_DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
NUM_HEAVY_PAGES, NUM_QUICK_PAGES = 20, 4
HEAVY_BYTES = 150_000
MIN_SECONDS = 0.05
"""Shorter times say nothing of how they grow."""

MIN_SENTENCE_WORDS = 6
MIN_COMPARED_SENTENCES = 100
GRAM_WORDS = 5
FOUND_SHARE = 0.8
"""A sentence counts as found where so many of its runs of five words are."""

REMAINS = {
    "{": r"\{", "}": r"\}", "[[": r"\[\[", "]]": r"\]\]", "|": r"\|", "<": r"<", ">": r">",
    "=": r"=", "''": r"''", "URL": r"https?://|www\.",
    "File:": r"(?i:\b(?:file|image):|\bthumb\b\|)",
    "tag": r"</?(?:ref|br|div|span|sup|sub|small|math|table|nowiki|gallery)\b",
    "entity": r"&#?\w{2,8};", "( )": r"\(\s*[,;:.]*\s*\)|\[\s*\]", "( ,": r"\(\s*[,;:]",
    "loose bracket": r" [)\]]|[(\[] ", "loose comma": r" [,.;](?!\w|\.| \.)", "two spaces": r"  ",
}  # fmt: skip

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”')]*\s+(?=[A-Z\"“(])")
_ENDED = re.compile(r"[.!?][\"”')]*\Z")


@dataclass(frozen=True)
class Page:
    """A page of a wiki."""

    title: str
    wikitext: str
    language: str = ""

    def paragraphs(self) -> list[str]:
        """Its prose."""
        return extract(self.wikitext, Names.of_wiki(language=self.language))


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.wikitext", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="few pages, one round")
    parser.add_argument("--corpus", type=Path, help="folder of dumps and a reference; see above")
    arguments = parser.parse_args()
    board = Board()
    sets = list(page_sets(arguments.corpus))
    for name, pages in sets:
        size = sum(len(page.wikitext.encode()) for page in pages) / 1e6
        board.say(f"{name}: {len(pages)} pages, {size:.1f} MB")
    speed(board, [page for _, pages in sets for page in pages], quick=arguments.quick)
    growth(board, quick=arguments.quick)
    cleanness(board, sets, arguments.corpus)
    board.end()


def page_sets(corpus: Path | None) -> Iterator[tuple[str, list[Page]]]:
    """Every dump and archive of a folder with its articles."""
    if corpus is None:
        with (files(SAMPLE[0]) / SAMPLE[1] / SAMPLE_DUMP).open("rb") as stream:
            yield SAMPLE_DUMP, list(dump_pages(bz2.BZ2File(stream)))
        return
    for path in sorted(corpus.glob("*.xml.bz2")):
        with bz2.open(path) as stream:
            yield path.name, list(dump_pages(stream))
    for path in sorted(corpus.glob("*.tar.xz")):
        with tarfile.open(path) as archive:
            members = (member for member in archive if member.isfile())
            texts = ((m.name, archive.extractfile(m)) for m in members)
            yield path.name, [Page(name, file.read().decode()) for name, file in texts if file]


def dump_pages(stream: IO[bytes]) -> Iterator[Page]:
    """The articles of an XML dump."""
    language = ""
    for event, element in ET.iterparse(stream, events=("start", "end")):
        kind = element.tag.rpartition("}")[2]
        if kind == "mediawiki" and event == "start":
            language = element.get("{http://www.w3.org/XML/1998/namespace}lang", "")
        if kind != "page" or event == "start":
            continue
        parts = {child.tag.rpartition("}")[2]: child for child in element.iter()}
        if parts["ns"].text == "0" and "redirect" not in parts:
            yield Page(parts["title"].text or "", parts["text"].text or "", language)
        element.clear()


def speed(board: Board, pages: list[Page], *, quick: bool) -> None:
    """Ours and mwparserfromhell's `strip_code` in turn, on the pages with the most templates."""
    by_templates = sorted(
        (page for page in pages if len(page.wikitext) < HEAVY_BYTES),
        key=lambda page: page.wikitext.count("{{"),
        reverse=True,
    )
    heavy = by_templates[: NUM_QUICK_PAGES if quick else NUM_HEAVY_PAGES]
    every = by_templates[:: 20 if quick else 10]
    for case, chosen in (("template_heavy", heavy), ("all_pages", every)):
        work = sum(len(page.wikitext.encode()) for page in chosen) / 1e6
        ours, theirs = in_turn(
            lambda chosen=chosen: [page.paragraphs() for page in chosen],
            lambda chosen=chosen: [
                str(mwparserfromhell.parse(page.wikitext).strip_code()) for page in chosen
            ],
            rounds=1 if quick else 2,
        )
        speeds = f"{work / ours:.2f} against {work / theirs:.2f} MB/s, {len(chosen)} pages"
        board.note(case, theirs / ours, speeds)


def in_turn(
    ours: Callable[[], object], theirs: Callable[[], object], *, rounds: int
) -> tuple[float, float]:
    """The median times of both, run in turn, `rounds` times A B B A."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for is_theirs in (False, True, True, False) * rounds:
        times[is_theirs].append(processor_seconds(theirs if is_theirs else ours))
    return median(times[False]), median(times[True])


def processor_seconds(work: Callable[[], object]) -> float:
    """The processor time of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def growth(board: Board, *, quick: bool) -> None:
    """How the time grows where a page of one broken piece doubles; 2 is linear."""
    count = 5_000 if quick else 10_000
    pages: list[tuple[str, Callable[[int], str]]] = [
        *((unit, lambda n, u=unit: u * n) for unit in UNITS),
        *((a + b, lambda n, a=a, b=b: a * n + "x" + b * n) for a, b in NESTINGS),
        *((a + u, lambda n, a=a, u=u, b=b: a + u * n + b) for a, u, b in MANY_CHILDREN),
    ]
    worst, slowest = (0.0, ""), (0.0, "")
    for name, page in pages:
        ratio, twice = min(_doubling(page, count) for _ in range(2))
        slowest = max(slowest, (twice, name))
        if twice > MIN_SECONDS:
            worst = max(worst, (ratio, name))
    board.note("doubling", worst[0], f"worst of {len(pages)} broken pages: {worst[1]!r}")
    board.say(f"slowest of them at {2 * count:,} pieces: {slowest[0]:.2f} s, {slowest[1]!r}")


def _doubling(page: Callable[[int], str], count: int) -> tuple[float, float]:
    """How much longer twice as many pieces take, and their time."""
    once, twice = (_extraction_seconds(page(number)) for number in (count, 2 * count))
    return twice / once, twice


def _extraction_seconds(wikitext: str) -> float:
    return min(processor_seconds(lambda: extract(f"{PROSE} {wikitext}")) for _ in range(2))


def cleanness(board: Board, sets: list[tuple[str, list[Page]]], corpus: Path | None) -> None:
    """What is left of markup a megabyte of text, and which of the reference's sentences it has."""
    texts = {name: ["\n".join(page.paragraphs()) for page in pages] for name, pages in sets}
    columns = {name[:20]: "\n".join(found) for name, found in texts.items()}
    reference = _reference(corpus) if corpus else {}
    if reference:
        columns["reference"] = "\n".join(reference.values())
    board.say(f"{'remains a MB of text':<22}" + "".join(f"{name:>22}" for name in columns))
    for kind, pattern in REMAINS.items():
        counts = (remains(pattern, text) for text in columns.values())
        board.say(f"{kind:<22}" + "".join(f"{count:>22.1f}" for count in counts))
    board.say(f"{'words':<22}" + "".join(f"{_num_words(text):>22,}" for text in columns.values()))
    for name, pages in sets:
        pairs = zip(pages, texts[name], strict=True)
        compared = [(page, text) for page, text in pairs if page.title in reference]
        if compared:
            _recall(board, compared, reference)


def remains(pattern: str, text: str) -> float:
    """How often a pattern is found in a megabyte of text."""
    return len(re.findall(pattern, text)) / (len(text.encode()) / 1e6 or 1)


def _num_words(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))


def _reference(corpus: Path) -> dict[str, str]:
    """The reference's text of each title."""
    found: dict[str, str] = {}
    for path in sorted(corpus.glob("*reference.jsonl.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                found[record["title"]] = record["text"]
    return found


def _recall(board: Board, compared: list[tuple[Page, str]], reference: dict[str, str]) -> None:
    """The share of the reference's sentences that ours has, of those that the page still holds."""
    num_live, missing = 0, []
    for page, text in compared:
        ours, source = grams(text), grams(_source_words(page.wikitext))
        for sentence in sentences(reference[page.title]):
            if share(sentence, source) >= FOUND_SHARE:
                num_live += 1
                if share(sentence, ours) < FOUND_SHARE:
                    missing.append((page.title, sentence))
    found = 1 - len(missing) / max(num_live, 1)
    if num_live < MIN_COMPARED_SENTENCES:
        return
    board.note("reference_sentences", found, f"of {num_live:,} that the page still holds")
    for title, sentence in missing[:: max(len(missing) // 10, 1)][:10]:
        board.say(f"  missing in {title}: {sentence[:100]}")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, with an end and some words; headings are none."""
    for line in text.split("\n"):
        for sentence in _SENTENCE_END.split(line):
            if _ENDED.search(sentence) and len(_WORD.findall(sentence)) >= MIN_SENTENCE_WORDS:
                yield sentence


def grams(text: str) -> set[tuple[str, ...]]:
    """Every run of five words."""
    words = _WORD.findall(text.lower())
    return set(zip(*(words[i:] for i in range(GRAM_WORDS)), strict=False))


def share(sentence: str, found: set[tuple[str, ...]]) -> float:
    """How many of a sentence's runs of words are among those found, 0 to 1."""
    runs = grams(sentence)
    return len(runs & found) / len(runs) if runs else 0.0


def _source_words(wikitext: str) -> str:
    """The page without references, simple templates and link targets, to look words up in."""
    text = re.sub(r"<!--.*?-->|<ref[^<>]*/>|<ref\b[^<>]*>.*?</ref>", "", wikitext, flags=re.DOTALL)
    text = re.sub(r"\[\[[^\[\]|]*\|([^\[\]|]*)\]\]", r"\1", text)
    for _ in range(3):
        text = re.sub(r"\{\{[^{}]*\}\}", "", text)
    return html.unescape(text.replace("''", ""))


if __name__ == "__main__":
    main()
