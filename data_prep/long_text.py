"""What is kept of a document longer than a window (`windows.long_text`).

Every choice is made of the document's id and text and of the recipe alone. A document that fits a
window is kept whole by all of them.
"""

import numpy as np
from jaxtyping import Int64, UInt64

from data_prep.config import Windows
from data_prep.key_sentences import chosen, sentence_scores
from mlmdist.rng import absorb_array, hash64
from mlmdist.tokenizer import NUM_SPECIAL_POSITIONS
from mlmdist.windows import Cut, Text, cut


def cut_documents(
    text: Text,
    tokens: np.ndarray,
    ids: UInt64[np.ndarray, "documents"],
    known: Int64[np.ndarray, "ids"],
    config: Windows,
    max_seq_len: int,
) -> Cut:
    """The windows kept of documents with these `ids`, for rows of at most `max_seq_len`.

    `tokens` are those of all documents, `known` the information of each id, for `key_sentences`.
    """
    capacity = max_seq_len - NUM_SPECIAL_POSITIONS
    if config.long_text == "random_crop":
        return random_crop(text, ids, capacity, config.crops, config.seed)
    if config.long_text == "key_sentences":
        return key_sentences(text, tokens, known, capacity, config.crops, config.overlap)
    windows = cut(text, text.bounds[:-1], text.bounds[1:], capacity, config.overlap)
    return first(text, windows) if config.long_text == "first" else windows


def first(text: Text, windows: Cut) -> Cut:
    """The first window of each document."""
    return windows.take(np.flatnonzero(_rank(_documents(text, windows)) == 0))


def random_crop(
    text: Text, ids: UInt64[np.ndarray, "documents"], capacity: int, crops: int, seed: int
) -> Cut:
    """`crops` windows of each document, chosen by hash of (seed, document), in text order.

    They are chosen out of a cut without overlap, so no token is in two of them. It begins at a
    sentence within the first window's reach, picked by hash too, and the text before is cut for
    itself: so any sentence may open a crop. Windows less than half full are chosen only where there
    are not enough others.
    """
    opens, closes = text.bounds[:-1], text.bounds[1:]
    low = np.searchsorted(text.sentence_starts, opens)
    high = np.searchsorted(text.sentence_starts, np.minimum(opens + capacity, closes), "left")
    choices = np.where(closes - opens > capacity, np.maximum(high - low, 1), 1).astype(np.uint64)
    picks = absorb_array(hash64("crop shift", seed), ids) % choices
    shifted = np.append(text.sentence_starts, text.bounds[-1])[low + picks.astype(np.int64)]
    shifted = np.where(opens < closes, shifted, opens)
    firsts = np.stack([opens, shifted], axis=1).ravel()
    lasts = np.stack([shifted, closes], axis=1).ravel()
    windows = cut(text, firsts, lasts, capacity, overlap=0)
    document = _documents(text, windows)
    place = (windows.start - opens[document]).astype(np.uint64)
    keys = absorb_array(absorb_array(hash64("crop", seed), ids[document]), place)
    short = 2 * (windows.stop - windows.start) < capacity
    order = np.lexsort((keys, short, document))
    return windows.take(np.sort(order[_rank(document[order]) < crops]))


def key_sentences(
    text: Text,
    tokens: np.ndarray,
    known: Int64[np.ndarray, "ids"],
    capacity: int,
    crops: int,
    overlap: int,
) -> Cut:
    """The most informative sentences of each document, up to `crops` windows' worth of tokens.

    They keep their order. Each run of neighbours is cut into windows of its own, so no window, and
    no pair made of one, holds a gap.
    """
    firsts: list[int] = []
    lasts: list[int] = []
    for opens, closes in zip(text.bounds[:-1].tolist(), text.bounds[1:].tolist(), strict=True):
        if closes - opens <= capacity:
            firsts.append(opens)
            lasts.append(closes)
            continue
        low, high = np.searchsorted(text.sentence_starts, (opens, closes))
        edges = np.append(text.sentence_starts[low:high], closes) - opens
        found = sentence_scores(tokens[opens:closes], edges[:-1], known)
        kept = np.array(chosen(found, np.diff(edges), crops * capacity))
        breaks = np.flatnonzero(np.diff(kept) > 1)
        firsts += (opens + edges[kept[np.append(0, breaks + 1)]]).tolist()
        lasts += (opens + edges[kept[np.append(breaks, -1)] + 1]).tolist()
    runs = np.array(firsts, dtype=np.int64), np.array(lasts, dtype=np.int64)
    return _without_excess(text, cut(text, *runs, capacity, overlap), crops * capacity)


def _without_excess(text: Text, windows: Cut, budget: int) -> Cut:
    """The windows but those beyond the budget of a document whose one sentence exceeds it."""
    document = _documents(text, windows)
    new = windows.stop - windows.start - windows.repeated
    before = np.cumsum(new) - new
    opened = np.searchsorted(document, document, "left")
    return windows.take(np.flatnonzero(before - before[opened] + new <= budget))


def _documents(text: Text, windows: Cut) -> Int64[np.ndarray, "windows"]:
    return np.searchsorted(text.bounds, windows.start, "right") - 1


def _rank(groups: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
    """The place of each element among those of its group; groups stand together, ascending."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups, "left")
