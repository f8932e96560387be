"""Documents to windows: encode paragraphs, find sentences and words, cut, lay out as a block."""

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
from jaxtyping import Bool, Int64

from data_prep.config import Windows
from data_prep.documents import Document
from data_prep.sentences import ends
from mlmdist.blocks import Block
from mlmdist.tokenizer import NUM_SPECIAL_POSITIONS, Encoded, Tokenizer, normalize
from mlmdist.windows import Window, cut

U16_IDS = 1 << 16


def encode_documents(
    documents: Sequence[Document], tokenizer: Tokenizer, config: Windows
) -> tuple[Block, int]:
    """The documents' windows, in order, as one block of any number of rows; and their tokens.

    The number of tokens is counted before anything is cut, for the balance of law W2.

    A document's tokens are those of its paragraphs, each encoded as a whole: sentences encoded
    alone would get stray word marks. A sentence end inside a piece is no boundary.
    """
    texts = [normalize(text) for document in documents for text in document.paragraphs]
    encoded = tokenizer.encode_with_ends(texts)
    word_starts = tokenizer.word_starts(encoded.tokens, encoded.ptr)
    sentence_starts = find_sentence_starts(texts, encoded)
    paragraphs = np.cumsum([0] + [len(document.paragraphs) for document in documents])
    bounds = encoded.ptr[paragraphs]  # document i has the tokens bounds[i] to bounds[i + 1]
    windows = [
        _cut_document(first, last, sentence_starts, word_starts, config)
        for first, last in pairwise(bounds.tolist())
    ]
    ids = np.array([document.id for document in documents], dtype=np.uint64)
    dtype = np.uint16 if tokenizer.vocabulary.size <= U16_IDS else np.uint32
    tokens = encoded.tokens.astype(dtype)
    block = _lay_out(windows, ids, bounds, tokens, sentence_starts, word_starts)
    return block, len(tokens)


def find_sentence_starts(texts: Sequence[str], encoded: Encoded) -> Int64[np.ndarray, "starts"]:
    """Tokens at which a sentence starts, ascending; a text's first token is one."""
    bases = np.cumsum([0] + [len(text) for text in texts])
    inside = [
        base + end
        for base, text in zip(bases.tolist(), texts, strict=False)
        for end in ends(text)[:-1]
    ]
    end_chars = np.array(inside, dtype=np.int64)
    token = np.searchsorted(encoded.char_end, end_chars)
    on_boundary = encoded.char_end[token] == end_chars if len(token) else np.zeros(0, np.bool_)
    firsts = encoded.ptr[:-1][np.diff(encoded.ptr) > 0]
    return np.union1d(firsts, token[on_boundary] + 1)


def _cut_document(
    first: int,
    last: int,
    sentence_starts: Int64[np.ndarray, "starts"],
    word_starts: Bool[np.ndarray, "total"],
    config: Windows,
) -> list[Window]:
    low, high = np.searchsorted(sentence_starts, (first, last))
    return cut(
        last - first,
        (sentence_starts[low:high] - first).tolist(),
        word_starts[first:last],
        config.max_seq_len - NUM_SPECIAL_POSITIONS,
        config.overlap,
    )


def _lay_out(
    windows: list[list[Window]],
    document_ids: np.ndarray,
    bounds: Int64[np.ndarray, "documents_plus_1"],
    tokens: np.ndarray,
    sentence_starts: Int64[np.ndarray, "starts"],
    word_starts: Bool[np.ndarray, "total"],
) -> Block:
    """The windows' arrays, gathered from the arrays of all tokens."""
    counts = np.array([len(rows) for rows in windows], dtype=np.int64)
    table = np.array(list(chain.from_iterable(windows)), dtype=np.int64).reshape(-1, 4)
    start, stop, repeated, flags = table.T
    base = np.repeat(bounds[:-1], counts)
    window_ptr, token_index = _spans(base + start, base + stop)
    low = np.searchsorted(sentence_starts, base + start, "right")
    high = np.searchsorted(sentence_starts, base + stop, "left")
    sentence_ptr, sentence_start = _window_sentences(sentence_starts, base + start, low, high)
    first_window = np.cumsum(counts) - counts
    return Block(
        tokens=tokens[token_index],
        window_ptr=window_ptr.astype(np.uint32),
        sentence_start=sentence_start.astype(np.uint16),
        sentence_ptr=sentence_ptr.astype(np.uint32),
        word_start=word_starts[token_index],
        document_id=np.repeat(document_ids, counts),
        token_offset=start.astype(np.uint32),
        window_number=(np.arange(len(table)) - np.repeat(first_window, counts)).astype(np.uint32),
        repeated=repeated.astype(np.uint16),
        flags=flags.astype(np.uint8),
    )


def _window_sentences(
    sentence_starts: Int64[np.ndarray, "starts"],
    window_start: Int64[np.ndarray, "rows"],
    low: Int64[np.ndarray, "rows"],
    high: Int64[np.ndarray, "rows"],
) -> tuple[Int64[np.ndarray, "rows_plus_1"], Int64[np.ndarray, "found"]]:
    """Pointers and offsets of the sentence starts inside each window: 0, then those between."""
    inner_ptr, inner = _spans(low, high)
    rows = np.arange(len(window_start))
    offsets = sentence_starts[inner] - np.repeat(window_start, high - low)
    with_zero = np.insert(offsets, inner_ptr[:-1], 0)
    return inner_ptr + np.append(rows, len(rows)), with_zero


def _spans(
    starts: Int64[np.ndarray, "rows"], stops: Int64[np.ndarray, "rows"]
) -> tuple[Int64[np.ndarray, "rows_plus_1"], Int64[np.ndarray, "total"]]:
    """Pointers to, and the integers of, the ranges [start, stop), end to end."""
    lengths = stops - starts
    ptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    return ptr, np.arange(ptr[-1]) + np.repeat(starts - ptr[:-1], lengths)
