"""One page on what preprocessing made: what came in, what left, and what the windows look like."""

import json
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from data_prep import report_page as draw
from data_prep.documents import ORDINAL_BITS
from data_prep.report_sample import (
    SAMPLE_BLOCKS,
    Sample,
    chosen_windows,
    doubling_edges,
    even_edges,
    histogram_of,
    read_sample,
    window_html,
)
from data_prep.verify import Group, find_sets
from mlmdist.blocks import Block
from mlmdist.config.data import Mask
from mlmdist.errors import DataError
from mlmdist.files import AnyPath, write_text
from mlmdist.logs import quantity
from mlmdist.manifest import Manifest
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import Tokenizer, load_tokenizer

MOST_FREQUENT = 30
SCRIPTS = 8
SENTENCE_TOKENS = 96  # the last bin of sentence lengths holds longer ones too
LISTED_UNKNOWN = 10
CJK_PARTS = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO")


@dataclass(frozen=True)
class Made:
    """What is read for the page; nothing in it grows with the sets."""

    name: str
    groups: list[Group]
    manifests: dict[tuple[int, str], Manifest]
    """By window length and side."""

    sample: Sample
    unigram: Int64[np.ndarray, "ids"]
    tokenizer: Tokenizer
    tokenizer_report: dict[str, Any]
    windows: list[str]

    @property
    def main(self) -> Manifest:
        """The training side of the shortest windows."""
        return self.manifests[
            min(length for length, side in self.manifests if side == "train"), "train"
        ]


def write_report(output: AnyPath, target: AnyPath) -> AnyPath:
    """Write the page on the results in `output` to `target`, which comes back.

    Reads the manifests, the tokenizer and at most SAMPLE_BLOCKS blocks. Raises DataError where
    there is no finished set or tokenizer.
    """
    made = _read(output)
    title = f"{made.name}: prepared text"
    head = f"<h1>{draw.escape(title)}</h1><small>mlmdist data_prep report</small>"
    parts = [head, draw.tiles(_figures(made)), _sets(made), _balance(made), _lengths(made)]
    parts += [_tokens(made), _windows(made), _provenance(made)]
    write_text(target, draw.page(title, parts))
    return target


def _read(output: AnyPath) -> Made:
    shards = output / "shards"
    if not shards.is_dir():
        raise DataError(
            f"{output}: no shards; give the output of a recipe for which "
            "`python -m data_prep shards --config F` is done"
        )
    groups = find_sets(shards)
    manifests: dict[tuple[int, str], Manifest] = {}
    for group in groups:
        for side, folder in group.items():
            manifest = ShardSet.open(folder).manifest
            manifests[manifest.max_seq_len, side or "train"] = manifest
    tokenizer = load_tokenizer(output / "tokenizer")
    opened = ShardSet.open(groups[0].get("train") or groups[0][""])
    mask = Mask(unit="word")
    windows = [
        draw.card(_window_title(block, row), window_html(block, row, tokenizer, mask))
        for block, row in chosen_windows(opened)
    ]
    sample, unigram = read_sample(opened), opened.read_unigram()
    opened.close()
    return Made(
        output.name,
        groups,
        manifests,
        sample,
        unigram,
        tokenizer,
        _tokenizer_report(output),
        windows,
    )


def _tokenizer_report(output: AnyPath) -> dict[str, Any]:
    """What the tokenizer stage found, if it wrote that down."""
    path = output / "tokenizer" / "report.json"
    return json.loads(path.read_bytes()) if path.exists() else {}


def _window_title(block: Block, row: int) -> str:
    source, record = divmod(int(block.document_id[row]), 1 << ORDINAL_BITS)
    return f"Source {source}, record {record}, window {block.window_number[row]}"


def _figures(made: Made) -> list[tuple[str, str]]:
    balance = made.main.balance
    documents, characters = balance.get("documents"), balance.get("characters")
    figures: list[tuple[str, str]] = []
    if documents and characters:
        duplicates = sum(n for why, n in documents["dropped"].items() if "duplicate" in why)
        figures += [
            (f"{documents['out']:,}", f"documents kept of {documents['in']:,}"),
            (quantity(characters["out"]), "characters kept"),
            (f"{duplicates:,}", "duplicates removed"),
        ]
    unknown = made.unigram[made.tokenizer.vocabulary.unk_id] / max(1, made.unigram.sum())
    figures += [
        (quantity(made.main.num_tokens - made.main.num_repeated), "training tokens"),
        (f"{made.main.num_windows:,}", f"training windows of {made.main.max_seq_len}"),
        (f"{unknown:.3%}", "unknown tokens"),
        (f"{made.sample.tokens / max(1, made.sample.words):.2f}", "tokens a word"),
    ]
    return figures


def _sets(made: Made) -> str:
    rows = [
        (
            f"{side.replace('_', '-')}, rows of {length}",
            *(m.num_documents, m.num_windows, m.num_tokens, m.num_repeated, m.num_shards),
            m.content_fingerprint[:16],
        )
        for (length, side), m in sorted(
            made.manifests.items(), key=lambda item: (item[0][0], item[0][1] != "train")
        )
    ]
    head = ("set", "documents", "windows", "tokens", "of them repeated", "shards", "fingerprint")
    return draw.section("The sets", "", draw.table(head, rows))


def _balance(made: Made) -> str:
    balance = made.main.balance
    documents, characters = balance.get("documents", {}), balance.get("characters", {})
    if not documents:
        return ""
    reasons = {**documents["dropped"], **characters.get("dropped", {})}
    rows: list[tuple[str, int, int]] = [("kept", documents["out"], characters["out"])]
    rows += sorted(
        (
            (why, documents["dropped"].get(why, 0), characters["dropped"].get(why, 0))
            for why in reasons
        ),
        key=lambda row: -row[1],
    )
    shares = draw.charts(
        [
            draw.card(unit, draw.bars([(why, n, f"{n / max(1, came):.1%}") for why, n in counts]))
            for unit, came, counts in (
                ("Documents", documents["in"], [row[:2] for row in rows]),
                ("Characters", characters["in"], [(row[0], row[2]) for row in rows]),
            )
        ]
    )
    left_out = [
        f"{sum(m.balance['tokens']['dropped'].values()):,} of {m.balance['tokens']['in']:,} tokens "
        f"of the {side.replace('_', '-')} side in rows of {length}"
        for (length, side), m in sorted(made.manifests.items())
        if m.balance["tokens"]["dropped"]
    ]
    said = "Every document and character that came in was kept or left for the reason named."
    said += f" Left out of long documents: {'; '.join(left_out)}." if left_out else ""
    table = draw.table(
        ("", "documents", "characters"), [("came in", documents["in"], characters["in"]), *rows]
    )
    return draw.section("What came in and what left", said, table, "<br>", shares)


def _lengths(made: Made) -> str:
    sample, manifest = made.sample, made.main
    longest = max((int(part.max(initial=1)) for part in sample.documents), default=1)
    most = max((int(part.max(initial=1)) for part in sample.per_window), default=1)
    specs = (
        ("Documents", sample.documents, doubling_edges(longest), "tokens a document, bins double"),
        ("Windows", sample.windows, even_edges(manifest.max_seq_len - 3), "tokens a window"),
        ("Sentences", sample.sentences, even_edges(SENTENCE_TOKENS), "tokens a sentence"),
        ("Sentences a window", sample.per_window, even_edges(most), "sentences a window"),
    )
    pictures = [
        draw.histogram(title, edges, histogram_of(parts, edges), unit)
        for title, parts, edges, unit in specs
    ]
    windows = sum(map(len, sample.windows))
    all_of_it = manifest.num_blocks <= SAMPLE_BLOCKS
    said = (
        f"Of the training set, rows of {manifest.max_seq_len}: "
        f"{'all' if all_of_it else f'{sample.num_blocks} of'} {manifest.num_blocks:,} blocks, "
        f"{windows:,} windows, of which {sample.whole_starts / max(1, windows):.1%} start on a "
        f"sentence. Sentences of over {SENTENCE_TOKENS} tokens stand in the last bin."
    )
    if sample.cut_tails:
        said += f" Of {sample.cut_tails:,} documents the end is left out and not counted here."
    return draw.section("Lengths", said, draw.charts(pictures, small=True))


def _tokens(made: Made) -> str:
    total = max(1, int(made.unigram.sum()))
    top = np.argsort(-made.unigram, kind="stable")[:MOST_FREQUENT].tolist()
    frequent = [
        (
            made.tokenizer.pieces[token],
            float(made.unigram[token]),
            f"{made.unigram[token] / total:.2%}",
        )
        for token in top
        if made.unigram[token]
    ]
    scripts = script_shares(made.unigram, made.tokenizer)
    cards = [
        draw.card("Most frequent tokens", draw.bars(frequent, mono=True)),
        draw.card("Scripts, by tokens", draw.bars([(n, s, f"{s:.2%}") for n, s in scripts])),
        draw.card("Unknown characters", _unknown(made)),
    ]
    if made.sample.tagged:
        tags = np.flatnonzero(made.sample.tag_counts).tolist()
        counts = [(f"tag {tag}", float(made.sample.tag_counts[tag])) for tag in tags]
        cards.append(
            draw.card("Tags, in the sample", draw.bars([(n, s, quantity(s)) for n, s in counts]))
        )
    unused = int((made.unigram[made.tokenizer.vocabulary.drawable] == 0).sum())
    said = (
        f"A vocabulary of {len(made.unigram):,} pieces, of which the training set never uses "
        f"{unused:,}. Repeated heads of windows are not counted."
    )
    return draw.section("Tokens", said, draw.charts(cards))


def _unknown(made: Made) -> str:
    """How much of the text the vocabulary lacks, and which characters that is."""
    count = int(made.unigram[made.tokenizer.vocabulary.unk_id])
    share = count / max(1, int(made.unigram.sum()))
    said = f"<p>{count:,} tokens of the training set are [UNK] ({share:.4%}).</p>"
    found = made.tokenizer_report.get("unknown", {}).get("most_frequent", [])
    if not found:
        return said
    rows = [
        (
            each.get("character", ""),
            f"{each['code_point']} {each['name'].lower()}",
            int(each["count"]),
        )
        for each in found[:LISTED_UNKNOWN]
    ]
    return said + draw.table(("", "behind it, in the tokenizer's sample", "times"), rows)


def script_shares(
    unigram: Int64[np.ndarray, "ids"], tokenizer: Tokenizer
) -> list[tuple[str, float]]:
    """The share of the tokens in each script, largest first, by the first letter of each piece."""
    counts = Counter[str]()
    for token in np.flatnonzero(unigram).tolist():
        counts[_script(tokenizer.surfaces[token])] += int(unigram[token])
    total = max(1, counts.total())
    listed = [(name, number / total) for name, number in counts.most_common(SCRIPTS)]
    rest = 1 - sum(share for _, share in listed)
    return [*listed, ("others", rest)] if len(counts) > SCRIPTS else listed


def _script(text: str) -> str:
    """Latin, CJK, digits, ...: the first word of its first letter's Unicode name."""
    if not text:
        return "unknown, bytes, spaces"
    letter = next((c for c in text if c.isalpha()), None)
    if letter is None:
        return "digits" if any(c.isdigit() for c in text) else "marks and signs"
    name = unicodedata.name(letter, "unnamed").split()[0]
    return name if name in CJK_PARTS else name.capitalize()


def _windows(made: Made) -> str:
    legend = (
        "<div class='legend window'>"
        "<span><span class=w>word</span> a word, <span class=w><span class=t>of</span>"
        "<span class=t>tokens</span></span></span>"
        "<span><span class=s>1</span>a sentence starts</span>"
        "<span class=old><span class=w>repeated</span> from the window before</span>"
        "<span><span class=m>word<i>[MASK]</i></span> masked</span>"
        "<span><span class=r>word<i>other</i></span> replaced by a random token</span>"
        "<span><span class=k>word<i>kept</i></span> predicted but shown</span></div>"
    )
    said = (
        "Chosen by hash, not by eye. The mask is that of the first epoch of a run with seed 0: "
        "whole words, 15 % of the tokens."
    )
    return draw.section("A few windows", said, legend, draw.stack(made.windows))


def _provenance(made: Made) -> str:
    provenance = made.main.provenance
    versions = draw.table(("library", "version"), sorted(provenance.get("versions", {}).items()))
    sources = provenance.get("sources", [])
    listed = draw.table(
        ("source", "bytes"), [(s.get("name", ""), int(s.get("bytes", 0))) for s in sources[:50]]
    )
    more = f"<small>and {len(sources) - 50:,} more</small>" if len(sources) > 50 else ""
    recipe = json.dumps(provenance.get("config", {}), indent=1, sort_keys=True, ensure_ascii=False)
    fingerprints = draw.table(
        ("set", "content fingerprint"),
        [
            (f"{side}, {length}", m.content_fingerprint)
            for (length, side), m in sorted(made.manifests.items())
        ],
    )
    name = draw.escape(made.main.tokenizer_hash)
    identity = f"<p><small>Tokenizer</small><br><code>{name}</code></p>"
    return draw.section(
        "Where it comes from",
        "",
        draw.charts(
            [
                draw.card("Sources", listed, more),
                draw.card("Made with", versions),
                draw.card("Recipe", f"<pre>{draw.escape(recipe)}</pre>"),
                draw.card("Identity", fingerprints, identity),
            ]
        ),
    )
