"""Proof of one block: each window against the laws, and what it says of its neighbours.

That the windows of each document join to its tokens (law W1) is shown without a table of documents:
every window but a document's last promises (document, next number, where it stops, whether a gap
follows), every window but a first claims (document, its number, where its new tokens start less the
gap before them, whether there is one). Promises and claims are the same multiset if and only if the
chains are whole, and then no token is new in two windows, as gaps are not negative. Multisets are
compared by sums of two independent 64-bit hashes (Clarke et al. 2003, MSet-Add-Hash), which any
number of readers can add up.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int64

from data_prep.sealing import count_tokens
from mlmdist.blocks import BEFORE_GAP, ENDS_ON_SENTENCE, LAST_OF_DOCUMENT, OPTIONAL, ROW_LONG, Block
from mlmdist.manifest import Manifest
from mlmdist.rng import absorb_array, hash64
from mlmdist.tokenizer import NUM_SPECIAL_POSITIONS

MASK64 = (1 << 64) - 1
NUMBERS = ("windows", "tokens", "repeated", "left_out", "tails", "firsts", "lasts", *OPTIONAL)


@dataclass
class Findings:
    """What reading a block, a shard or a set gives; `a + b` is what reading both gives."""

    broken: list[str] = field(default_factory=list)
    windows: int = 0
    tokens: int = 0
    repeated: int = 0
    left_out: int = 0
    """Tokens in gaps before windows."""

    tails: int = 0
    """Documents of which text behind their last window is left out."""

    firsts: int = 0
    lasts: int = 0
    tag: int = 0
    """Blocks that have tags."""

    gap: int = 0
    """Blocks that have gaps."""

    promised: tuple[int, int] = (0, 0)
    claimed: tuple[int, int] = (0, 0)
    documents: tuple[int, int] = (0, 0)
    """The multiset of documents."""

    unigram: Int64[np.ndarray, "ids"] | int = 0

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(
            broken=self.broken + other.broken,
            promised=_add(self.promised, other.promised),
            claimed=_add(self.claimed, other.claimed),
            documents=_add(self.documents, other.documents),
            unigram=self.unigram + other.unigram,
            **{name: getattr(self, name) + getattr(other, name) for name in NUMBERS},
        )


def check_block(block: Block, manifest: Manifest, where: str) -> Findings:
    """What a block gives; `where` names it in what is broken."""
    if not _fits_together(block):
        return Findings(broken=[f"{where}: the lengths of its fields do not fit together"])
    start = block.token_offset.astype(np.int64)
    lengths = np.diff(block.window_ptr.astype(np.int64))
    last = (block.flags & LAST_OF_DOCUMENT) > 0
    before_gap = (block.flags & BEFORE_GAP) > 0
    first = block.window_number == 0
    new = start + block.repeated
    gap = np.zeros_like(new) if block.gap is None else block.gap.astype(np.int64)
    rules = {
        "a window is empty or too long": (lengths < 1)
        | (lengths > manifest.max_seq_len - NUM_SPECIAL_POSITIONS),
        "a repeated head leaves nothing new": block.repeated >= lengths,
        "a document's first window does not start at its start": first & (new != gap),
        "a document's last window ends inside a sentence": last
        & ~before_gap
        & ((block.flags & ENDS_ON_SENTENCE) == 0),
        "a repeated head stands behind a gap": (gap > 0) & (block.repeated > 0),
        "a gap follows in a set without gaps": before_gap & (block.gap is None),
    }
    broken = [
        f"{where}, window {int(np.flatnonzero(bad)[0])}: {rule}"
        for rule, bad in rules.items()
        if bad.any()
    ]
    broken += _check_tokens(block, manifest, where) + _check_sentences(block, lengths, where)
    numbers = block.window_number.astype(np.uint64)
    stop = (start + lengths).astype(np.uint64)
    claimed = (block.document_id, numbers, (new - gap).astype(np.uint64), gap > 0)
    promised = (block.document_id, numbers + np.uint64(1), stop, before_gap)
    return Findings(
        broken,
        windows=block.num_rows,
        tokens=len(block.tokens),
        repeated=int(block.repeated.sum()),
        left_out=int(gap.sum()),
        tails=int((last & before_gap).sum()),
        firsts=int(first.sum()),
        lasts=int(last.sum()),
        tag=int(block.tag is not None),
        gap=int(block.gap is not None),
        promised=_multiset_hash(*(part[~last] for part in promised)),
        claimed=_multiset_hash(*(part[~first] for part in claimed)),
        documents=_multiset_hash(block.document_id[first]),
        unigram=count_tokens(block, manifest.vocab_size) if not broken else 0,
    )


def _fits_together(block: Block) -> bool:
    """Whether every field has the length that the pointers and the number of rows say."""
    rows, total = block.num_rows, len(block.tokens)
    pointers = (block.window_ptr, block.sentence_ptr)
    sizes = [len(getattr(block, name)) for name in ROW_LONG]
    sizes += [rows if block.gap is None else len(block.gap)]
    sizes += [len(pointer) - 1 for pointer in pointers]
    totals = [int(block.window_ptr[-1]), len(block.word_start)]
    totals += [total if block.tag is None else len(block.tag)]
    return rows > 0 and set(sizes) == {rows} and set(totals) == {total}


def _check_tokens(block: Block, manifest: Manifest, where: str) -> list[str]:
    never = [token for name, token in manifest.special_ids.items() if name != "[UNK]"]
    allowed = np.ones(int(block.tokens.max(initial=0)) + 1, dtype=np.bool_)
    allowed[manifest.vocab_size :] = False
    allowed[[token for token in never if token < len(allowed)]] = False
    wrong = ~allowed[block.tokens]
    if not wrong.any():
        return []
    place = int(np.flatnonzero(wrong)[0])
    return [f"{where}, token {place}: id {block.tokens[place]} cannot come from text"]


def _check_sentences(block: Block, lengths: Int64[np.ndarray, "rows"], where: str) -> list[str]:
    """Sentence starts ascend inside each window, from 0 to under its length."""
    ptr = block.sentence_ptr.astype(np.int64)
    if (np.diff(ptr) < 1).any() or ptr[-1] != len(block.sentence_start):
        return [f"{where}: a window has no sentence start"]
    starts = block.sentence_start.astype(np.int64)
    ascends = np.diff(starts) > 0
    ascends[ptr[1:-1] - 1] = True  # from one window to the next
    inside = starts < np.repeat(lengths, np.diff(ptr))
    if (starts[ptr[:-1]] != 0).any() or not ascends.all() or not inside.all():
        return [f"{where}: sentence starts do not ascend from 0 inside a window"]
    return []


def _multiset_hash(*parts: np.ndarray) -> tuple[int, int]:
    """Sums of hashes of rows, each of one number of every part; unsigned, or truth values."""
    sums: list[int] = []
    for purpose in ("verify.first", "verify.second"):
        state = hash64(purpose)
        for part in parts:
            state = absorb_array(state, part.astype(np.uint64))
        sums.append(int(np.sum(state)))
    return sums[0], sums[1]


def _add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return (one[0] + other[0]) & MASK64, (one[1] + other[1]) & MASK64
