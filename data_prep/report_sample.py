"""What the report shows of a set's blocks: lengths, and a few windows as text with their marks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from jaxtyping import Bool, Int64

from mlmdist.blocks import BEFORE_GAP, LAST_OF_DOCUMENT, STARTS_ON_SENTENCE, Block
from mlmdist.config.data import Mask
from mlmdist.data.preview import Preview, preview
from mlmdist.rng import absorb_array, hash64
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import SPACE, Tokenizer

SAMPLE_BLOCKS = 64
SHOWN_WINDOWS = 6
SEED = 0
SPACE_SIGN = "\u2423"


@dataclass
class Sample:
    """Lengths in at most SAMPLE_BLOCKS blocks, evenly spread; windows lie in them by hash."""

    num_blocks: int = 0
    words: int = 0
    tokens: int = 0
    whole_starts: int = 0
    """Windows that start on a sentence."""

    windows: list[Int64[np.ndarray, "windows"]] = field(default_factory=list)
    sentences: list[Int64[np.ndarray, "sentences"]] = field(default_factory=list)
    """Tokens of sentences, as far as windows hold them."""

    per_window: list[Int64[np.ndarray, "windows"]] = field(default_factory=list)
    """Sentences a window."""

    documents: list[Int64[np.ndarray, "documents"]] = field(default_factory=list)
    """Tokens of the documents whose last window is here; a tail that is left out is not counted."""

    tag_counts: Int64[np.ndarray, "tags"] = field(default_factory=lambda: np.zeros(256, np.int64))
    tagged: bool = False
    cut_tails: int = 0
    """Documents of which the end is left out."""


def read_sample(opened: ShardSet) -> Sample:
    """The sample of a set; one block is held at a time, and eight bytes a window and sentence."""
    sample = Sample()
    for number in sample_blocks(opened.manifest.num_blocks):
        _add(sample, opened.read_block(number))
    return sample


def sample_blocks(num_blocks: int) -> list[int]:
    """The blocks that are looked at, ascending."""
    most = min(num_blocks, SAMPLE_BLOCKS)
    return [place * num_blocks // most for place in range(most)]


def _add(sample: Sample, block: Block) -> None:
    lengths = np.diff(block.window_ptr.astype(np.int64))
    sentence_ptr = block.sentence_ptr.astype(np.int64)
    starts = block.sentence_start.astype(np.int64)
    ends = np.append(starts[1:], 0)
    ends[sentence_ptr[1:] - 1] = lengths
    last = (block.flags & LAST_OF_DOCUMENT) > 0
    sample.num_blocks += 1
    sample.words += int(block.word_start.sum())
    sample.tokens += len(block.tokens)
    sample.whole_starts += int(((block.flags & STARTS_ON_SENTENCE) > 0).sum())
    sample.windows.append(lengths)
    sample.sentences.append(ends - starts)
    sample.per_window.append(np.diff(sentence_ptr))
    sample.documents.append((block.token_offset.astype(np.int64) + lengths)[last])
    sample.cut_tails += int((last & ((block.flags & BEFORE_GAP) > 0)).sum())
    if block.tag is not None:
        sample.tagged = True
        sample.tag_counts += np.bincount(block.tag, minlength=256)


def chosen_windows(opened: ShardSet) -> list[tuple[Block, int]]:
    """(block, row) of a few windows, chosen by hash of the window, each of another block if it can.

    Of windows shorter than half a row others are taken where there are any.
    """
    most = opened.manifest.max_seq_len // 2
    numbers = sample_blocks(opened.manifest.num_blocks)
    ranked = sorted(numbers, key=lambda number: hash64("report block", number))[:SHOWN_WINDOWS]
    each = -(-SHOWN_WINDOWS // len(ranked))
    found: list[tuple[Block, int]] = []
    for number in ranked:
        block = opened.read_block(number)
        keys = absorb_array(hash64("report window"), block.document_id)
        keys = absorb_array(keys, block.window_number.astype(np.uint64))
        short = np.diff(block.window_ptr.astype(np.int64)) < most
        found += [(block, int(row)) for row in np.lexsort((keys, short))[:each]]
    return found[:SHOWN_WINDOWS]


def window_html(block: Block, row: int, tokenizer: Tokenizer, mask: Mask) -> str:
    """A window as text: words underlined, sentence starts numbered, the repeated head grey.

    The tokens that a run with this mask would predict in its first epoch are marked, with what
    would stand in their place.
    """
    first, last = int(block.window_ptr[row]), int(block.window_ptr[row + 1])
    low, high = int(block.sentence_ptr[row]), int(block.sentence_ptr[row + 1])
    numbers = {int(start): n for n, start in enumerate(block.sentence_start[low:high], start=1)}
    shown = preview(block, row, mask, tokenizer.vocabulary, SEED)
    marks = _marks(block.tokens[first:last], shown, tokenizer)
    starts = word_places(block.word_start[first:last])
    drawn: list[str] = []
    for begin, end in zip(starts, [*starts[1:], last - first], strict=True):
        inside = [
            _token(place, int(block.tokens[first + place]), tokenizer, marks)
            for place in range(begin, end)
        ]
        spaced = not tokenizer.continues[block.tokens[first + begin]]
        sentence = next((numbers[p] for p in range(begin, end) if p in numbers), None)
        number = f"<span class=s>{sentence}</span>" if sentence else ""
        old = " old" if begin < block.repeated[row] else ""
        word = f"<span class='w{old}'>{''.join(inside)}</span>"
        drawn.append((" " if spaced and begin else "") + number + word)
    return f'<p class=window dir="auto">{"".join(drawn)}</p>'


def word_places(word_start: Bool[np.ndarray, "tokens"]) -> list[int]:
    """Where words start, and where the window starts if it continues one."""
    return sorted({0, *np.flatnonzero(word_start).tolist()})


def _marks(tokens: np.ndarray, shown: Preview, tokenizer: Tokenizer) -> dict[int, tuple[str, str]]:
    """For each predicted place (kind of mark, what stands there instead)."""
    marks: dict[int, tuple[str, str]] = {}
    for place, token in zip(shown.places.tolist(), shown.shown.tolist(), strict=True):
        if token == tokenizer.vocabulary.mask_id:
            marks[place] = "m", "[MASK]"
        elif token == tokens[place]:
            marks[place] = "k", "kept"
        else:
            marks[place] = "r", text_of(token, tokenizer)
    return marks


def _token(place: int, token: int, tokenizer: Tokenizer, marks: dict[int, tuple[str, str]]) -> str:
    said = escape(text_of(token, tokenizer))
    title = f"id {token}: {tokenizer.pieces[token]}"
    if place not in marks:
        return f'<span class=t title="{escape(title, quote=True)}">{said}</span>'
    kind, instead = marks[place]
    named = f'<span class="t {kind}" title="{escape(title, quote=True)}">{said}'
    return f"{named}<i>{escape(instead)}</i></span>"


def text_of(token: int, tokenizer: Tokenizer) -> str:
    """What a token shows, or its name where that is nothing; a lone space as the sign for one."""
    return tokenizer.surfaces[token] or tokenizer.pieces[token].replace(SPACE, SPACE_SIGN)


def histogram_of(parts: Sequence[np.ndarray], edges: Sequence[int]) -> list[int]:
    """How many values lie in each bin; those outside go to the first and last."""
    values = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    inside = np.clip(values, edges[0], edges[-1] - 1)
    return np.histogram(inside, bins=np.array(edges))[0].tolist()


def even_edges(largest: int, bins: int = 24) -> list[int]:
    """Edges of equal bins of whole numbers from 0 to over `largest`."""
    width = max(1, -(-(largest + 1) // bins))
    return list(range(0, largest + width + 1, width))


def doubling_edges(largest: int) -> list[int]:
    """Edges 1, 2, 4, ... up to over `largest`."""
    return [1 << bits for bits in range(max(1, largest).bit_length() + 1)]
