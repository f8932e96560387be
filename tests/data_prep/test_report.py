"""The report: one page, whole, escaped, with the figures of the manifests."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from data_prep import report_sample
from data_prep.config import Tags, TokenizerTraining, Windows, Words
from data_prep.documents import Document
from data_prep.encoding import Encoder
from data_prep.report import script_shares, write_report
from data_prep.report_page import histogram, table
from data_prep.report_sample import (
    doubling_edges,
    even_edges,
    histogram_of,
    read_sample,
    sample_blocks,
    window_html,
)
from data_prep.tokenizer_training import train_tokenizer
from mlmdist.config.data import Mask
from mlmdist.data.preview import preview
from mlmdist.errors import DataError
from mlmdist.files import write_json
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import Tokenizer, save_tokenizer
from tests.data_prep.test_verify import Made, documents, write

EVIL = "<script>alert(1)</script> & \"quoted\" 'dogs' <b>slept</b>."
EVIL_DOCUMENTS = [Document(n, "", "", (EVIL, "вода дом. " + EVIL)) for n in (90, 91, 92)]
CORPUS = [*documents(0, 40), *EVIL_DOCUMENTS]
VOID = {"meta", "rect", "line", "br"}


class Checked(HTMLParser):
    """Collects tags, text and attributes; raises where a tag is closed that is not open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tokenizer]:
    folder = tmp_path_factory.mktemp("report") / "<i>out"
    (folder / "tokenizer").mkdir(parents=True)
    config = TokenizerTraining(vocab_size=64, character_coverage=1)
    tokenizer = train_tokenizer(CORPUS, 10**6, config, folder / "tokenizer")
    save_tokenizer(tokenizer, folder / "tokenizer")
    windows = Windows(max_seq_len=48, overlap=12)
    encoder = Encoder(tokenizer, Words(), Tags(), windows)
    balance = {
        "documents": {"in": 50, "out": 43, "dropped": {"short": 6, "near duplicate": 1}},
        "characters": {"in": 90_000, "out": 80_000, "dropped": {"short": 10_000}},
    }
    for side, some in (("train", CORPUS[5:]), ("held_out", CORPUS[:5])):
        encoded = encoder.tokens(some)
        block, _ = encoder.windows_of(encoded, 48)
        tokens = {
            "in": len(encoded.tokens), "repeated": int(block.repeated.sum()),
            "out": len(block.tokens), "dropped": {},
        }  # fmt: skip
        write(
            folder / "shards" / side,
            Made(block, 48),
            vocab_size=tokenizer.vocabulary.size,
            tokenizer_hash=tokenizer.hash,
            balance=balance | {"tokens": tokens},
            provenance={
                "config": {"shards": {"seed": 0}},
                "versions": {"numpy": "<2>"},
                "sources": [{"name": "<wiki>.xml", "bytes": 77}],
            },
        )
    unknown = [{"character": "<", "code_point": "U+003C", "name": "less <than", "count": 6}]
    write_json(folder / "tokenizer" / "report.json", {"unknown": {"most_frequent": unknown}})
    return folder, tokenizer


@pytest.fixture(scope="module")
def page(output: tuple[Path, Tokenizer]) -> str:
    target = output[0].with_name("report.html")
    assert write_report(output[0], target) == target
    return target.read_text()


def test_the_page_is_one_well_formed_file_that_asks_for_nothing(page: str) -> None:
    checked = Checked(page)
    assert page.count("<!doctype html>") == page.count("<html") == 1
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(checked.tags)
    names = {name for name, _ in checked.attributes}
    assert not {name for name in names if name in ("src", "href") or name.startswith("on")}
    assert not re.search(r"url\(|@import|https?://", page)
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert len(page) < 300_000


def test_text_of_the_corpus_is_text_on_the_page(page: str) -> None:
    checked = Checked(page)
    assert "script" not in checked.tags
    assert "wiki" not in checked.tags
    assert "b" in checked.tags, "of the tiles"
    shown = "".join(checked.text)
    for said in ("<i>out", "<wiki>.xml", "<2>", "less <than"):
        assert said in shown
    assert checked.tags.count("i") == page.count("<i>"), "only our own"


def test_the_figures_are_those_of_the_manifests(page: str, output: tuple[Path, Tokenizer]) -> None:
    shown = " ".join("".join(Checked(page).text).split())
    train = ShardSet.open(output[0] / "shards" / "train").manifest
    for number in (train.num_documents, train.num_windows, train.num_tokens, train.num_repeated):
        assert f"{number:,}" in shown
    assert train.content_fingerprint in shown
    assert train.tokenizer_hash in shown
    for said in ("documents kept of 50", "near duplicate", "10,000", "held-out, rows of 48"):
        assert said in shown
    assert "1duplicates removed" in shown
    assert shown.count("Source 0, record") == report_sample.SHOWN_WINDOWS


def test_an_output_without_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no shards"):
        write_report(tmp_path, tmp_path / "report.html")


def test_the_same_output_gives_the_same_page(page: str, output: tuple[Path, Tokenizer]) -> None:
    target = write_report(output[0], output[0].with_name("again.html"))
    assert target.read_text() == page


def test_a_window_is_shown_with_every_mark(output: tuple[Path, Tokenizer]) -> None:
    folder, tokenizer = output
    opened = ShardSet.open(folder / "shards" / "train")
    mask = Mask(unit="token", rate=0.3)
    for row in range(0, 300, 29):
        block = opened.read_block(0)
        first, last = int(block.window_ptr[row]), int(block.window_ptr[row + 1])
        html = window_html(block, row, tokenizer, mask)
        Checked(html)
        words = int(block.word_start[first:last].sum()) + (not block.word_start[first])
        assert len(re.findall(r"<span class='w( old)?'>", html)) == words
        assert len(re.findall(r'<span class=(t|"t [mrk]") title', html)) == last - first
        sentences = re.findall(r"<span class=s>(\d+)</span>", html)
        count = int(block.sentence_ptr[row + 1] - block.sentence_ptr[row])
        assert sentences == [str(number + 1) for number in range(count)]
        repeated = int(block.repeated[row])
        old = int(block.word_start[first : first + repeated].sum())
        assert html.count("<span class='w old'>") == old
        seen = preview(block, row, mask, tokenizer.vocabulary, 0)
        assert len(re.findall(r"<i>", html)) == len(seen.places) > 0
        assert (seen.places >= repeated).all(), "the repeated head is never predicted"
        masked = int((seen.shown == tokenizer.vocabulary.mask_id).sum())
        assert html.count("<i>[MASK]</i>") == masked


def test_markup_in_a_window_is_escaped(output: tuple[Path, Tokenizer]) -> None:
    folder, tokenizer = output
    block = ShardSet.open(folder / "shards" / "train").read_block(0)
    rows = np.flatnonzero(block.document_id >= 90).tolist()
    pages = "".join(window_html(block, row, tokenizer, Mask()) for row in rows)
    assert set(Checked(pages).tags) == {"p", "span", "i"}
    assert "&lt;" in pages


def test_lengths_are_those_of_the_set(output: tuple[Path, Tokenizer]) -> None:
    opened = ShardSet.open(output[0] / "shards" / "train")
    sample = read_sample(opened)
    manifest = opened.manifest
    assert int(np.concatenate(sample.windows).sum()) == manifest.num_tokens
    assert int(np.concatenate(sample.sentences).sum()) == manifest.num_tokens
    documents = np.concatenate(sample.documents)
    assert len(documents) == manifest.num_documents
    assert int(documents.sum()) == manifest.num_tokens - manifest.num_repeated
    assert int(np.concatenate(sample.per_window).sum()) == len(np.concatenate(sample.sentences))


def test_only_so_many_blocks_are_looked_at() -> None:
    assert sample_blocks(3) == [0, 1, 2]
    some = sample_blocks(10**9)
    assert len(set(some)) == len(some) == report_sample.SAMPLE_BLOCKS
    assert some == sorted(some)
    assert some[-1] < 10**9


def test_histograms_count_every_value_once() -> None:
    values = [np.array([0, 1, 2, 3]), np.array([3, 900])]
    assert histogram_of(values, [0, 2, 4, 6]) == [2, 3, 1]
    assert histogram_of([], [0, 2]) == [0]
    for largest in (0, 1, 7, 45, 509):
        edges = even_edges(largest)
        assert edges[0] == 0
        assert edges[-1] > largest
        assert doubling_edges(largest)[-1] > largest
    Checked(histogram('<"x">', [0, 2, 4], [0, 0], "<tokens>"))


def test_tables_put_whole_numbers_to_the_right() -> None:
    made = table(("name", "count"), [("<x>", 12345), ("y", 1)])
    assert "<td>&lt;x&gt;</td><td class=n>12,345</td>" in made


def test_scripts_are_shares_of_the_tokens(output: tuple[Path, Tokenizer]) -> None:
    _, tokenizer = output
    counts = np.zeros(tokenizer.vocabulary.size, dtype=np.int64)
    letters = [t for t, text in enumerate(tokenizer.surfaces) if text.isalpha() and text.isascii()]
    counts[letters[0]], counts[tokenizer.vocabulary.unk_id] = 3, 1
    assert script_shares(counts, tokenizer) == [("Latin", 0.75), ("unknown, bytes, spaces", 0.25)]
