"""Documents to tokens: encode paragraphs, find sentences, words and tags; then lay out windows.

A document's tokens are those of its paragraphs, each encoded as a whole: sentences encoded alone
would get stray word marks. Cleaning bounds the length of a paragraph, so a document of any length
is encoded in bounded memory, but for its text and its arrays (about 4 bytes a token).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, UInt64

from data_prep.config import Prep, Tags, Windows, Words
from data_prep.documents import Document
from data_prep.key_sentences import information
from data_prep.long_text import cut_documents
from data_prep.sentences import inner_ends
from data_prep.tags import tags_of
from data_prep.words import word_starts
from mlmdist.blocks import LAST_OF_DOCUMENT, Block, spans
from mlmdist.tokenizer import Encoded, Tokenizer
from mlmdist.windows import Text, place

U16_IDS = 1 << 16
RUN_CHARACTERS = 2_000_000  # encoded at once: lists of ids take 30 bytes a token


@dataclass(frozen=True)
class Tokens:
    """Documents as tokens, end to end, before they are cut."""

    ids: UInt64[np.ndarray, "documents"]
    characters: Int64[np.ndarray, "documents"]
    text: Text
    tokens: np.ndarray
    """Unsigned, of 16 bits where the vocabulary allows."""

    tags: np.ndarray | None
    disagreements: int
    """Word boundaries of the segmenter inside a token."""


@dataclass(frozen=True)
class Run:
    """Paragraphs to encode at once, normalised, none of them empty."""

    texts: list[str] = field(default_factory=list)
    documents: list[int] = field(default_factory=list)
    """The place of each paragraph's document among those that are encoded together."""

    whole: list[bool] = field(default_factory=list)
    """Whether a paragraph is one sentence, which is not looked into."""


class Encoder:
    """A tokenizer and the recipe's words, tags and windows: documents in, windows out."""

    def __init__(self, tokenizer: Tokenizer, words: Words, tags: Tags, windows: Windows) -> None:
        self.tokenizer, self.words, self.tags, self.windows = tokenizer, words, tags, windows
        self.dtype = np.uint16 if tokenizer.vocabulary.size <= U16_IDS else np.uint32
        used = windows.long_text == "key_sentences"
        self.known = information(tokenizer.scores.tolist()) if used else np.zeros(0, dtype=np.int64)

    @classmethod
    def of(cls, tokenizer: Tokenizer, config: Prep) -> "Encoder":
        """The encoder of a recipe."""
        return cls(tokenizer, config.words, config.tags, config.windows)

    def tokens(self, documents: Sequence[Document]) -> Tokens:
        """The tokens of the documents, in order; what is held beside them is bounded."""
        counts = np.zeros(len(documents) + 1, dtype=np.int64)  # tokens, by place + 1
        found: tuple[list[np.ndarray], ...] = ([], [], [])  # tokens, sentence starts, word starts
        tagged: list[np.ndarray] = []
        before, disagreements = 0, 0
        for run in _runs(documents, self.tokenizer):
            texts = run.texts
            encoded = self.tokenizer.encode_with_ends(texts)
            words, disagreed = word_starts(texts, encoded, self.tokenizer, self.words)
            tags = tags_of(texts, encoded, words, self.tags)
            sentences = find_sentence_starts(texts, encoded, np.array(run.whole, np.bool_))
            part = encoded.tokens.astype(self.dtype), sentences + before, words
            for column, array in zip(found, part, strict=True):
                column.append(array)
            tagged += [] if tags is None else [tags]
            np.add.at(counts, np.array(run.documents, np.int64) + 1, np.diff(encoded.ptr))
            before += len(encoded.tokens)
            disagreements += disagreed
        tokens, sentences, words = map(_joined, found)
        return Tokens(
            ids=np.array([document.id for document in documents], dtype=np.uint64),
            characters=np.array([document.num_characters for document in documents]),
            text=Text(np.cumsum(counts), sentences, words),
            tokens=tokens,
            tags=np.concatenate(tagged) if tagged else None,
            disagreements=disagreements,
        )

    def windows_of(self, encoded: Tokens, max_seq_len: int) -> tuple[Block, int]:
        """The windows kept of the documents, in order, as one block of any number of rows.

        Also gives the tokens that are in none of them, counted by gaps and not by what is there, so
        that the balance of law W2 says something.
        """
        text = encoded.text
        rows = cut_documents(
            text, encoded.tokens, encoded.ids, self.known, self.windows, max_seq_len
        )
        placed = place(text, rows)
        window_ptr, (tokens, words, tags) = spans(
            (encoded.tokens, text.word_starts, encoded.tags), rows.start, rows.stop
        )
        sentence_ptr, sentence_start = _window_sentences(
            text.sentence_starts, rows.start, rows.stop
        )
        gapless = self.windows.long_text == "sliding"
        block = Block(
            tokens=tokens,
            window_ptr=window_ptr.astype(np.uint32),
            sentence_start=sentence_start.astype(np.uint16),
            sentence_ptr=sentence_ptr.astype(np.uint32),
            word_start=words,
            document_id=encoded.ids[placed.document],
            token_offset=(rows.start - text.bounds[placed.document]).astype(np.uint32),
            window_number=placed.number.astype(np.uint32),
            repeated=rows.repeated.astype(np.uint16),
            flags=placed.flags.astype(np.uint8),
            tag=tags,
            gap=None if gapless else placed.gap.astype(np.uint32),
        )
        last = rows.stop[(placed.flags & LAST_OF_DOCUMENT) > 0]
        behind = text.bounds[1:][np.diff(text.bounds) > 0] - last
        return block, int(placed.gap.sum() + behind.sum())


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """The arrays end to end; the list is empty afterwards, so that a long text is there once."""
    joined = np.concatenate(parts)
    parts.clear()
    return joined


def find_sentence_starts(
    texts: Sequence[str],
    encoded: Encoded,
    whole: Bool[np.ndarray, "texts"],
) -> Int64[np.ndarray, "starts"]:
    """Tokens at which a sentence starts, ascending.

    A text's first token is one; a `whole` text has no other. A sentence end inside a token is no
    boundary.
    """
    starts = np.zeros(len(encoded.tokens) + 1, dtype=np.bool_)
    found = [np.zeros(0, dtype=np.int64)]
    base, place = 0, 0
    for single, run in groupby(whole.tolist()):
        some = texts[place : place + sum(1 for _ in run)]
        if not single:
            found.append(inner_ends(some) + base)
        base += sum(map(len, some))
        place += len(some)
    end_chars = np.concatenate(found)
    token = np.searchsorted(encoded.char_end, end_chars)
    starts[token[encoded.char_end[token] == end_chars] + 1] = True
    starts[encoded.ptr[:-1][np.diff(encoded.ptr) > 0]] = True
    return np.flatnonzero(starts[:-1])


def _runs(documents: Sequence[Document], tokenizer: Tokenizer) -> Iterator[Run]:
    """The paragraphs in runs of about RUN_CHARACTERS; one run, empty, if there are none."""
    run, size = Run(), 0
    for number, document in enumerate(documents):
        for paragraphs in _stretches(document.paragraphs):
            texts = [text for text in tokenizer.normalize_all(paragraphs) if text]
            num_chars = sum(map(len, texts))
            if run.texts and size + num_chars > RUN_CHARACTERS:
                yield run
                run, size = Run(), 0
            run.texts.extend(texts)
            run.documents.extend([number] * len(texts))
            run.whole.extend([document.sentences_given] * len(texts))
            size += num_chars
    yield run


def _stretches(paragraphs: Sequence[str]) -> Iterator[Sequence[str]]:
    """The paragraphs in stretches of RUN_CHARACTERS and at most one paragraph more.

    Cleaned text is normal already; of other text a stretch may become up to 18 times as long.
    """
    ends = np.cumsum(np.fromiter(map(len, paragraphs), np.int64, len(paragraphs)))
    first = 0
    while first < len(paragraphs):
        before = ends[first - 1] if first else 0
        last = int(np.searchsorted(ends, before + RUN_CHARACTERS)) + 1
        yield paragraphs[first:last]
        first = last


def _window_sentences(
    sentence_starts: Int64[np.ndarray, "starts"],
    start: Int64[np.ndarray, "rows"],
    stop: Int64[np.ndarray, "rows"],
) -> tuple[Int64[np.ndarray, "rows_plus_1"], Int64[np.ndarray, "found"]]:
    """Pointers and offsets of the sentence starts inside each window: 0, then those between."""
    low = np.searchsorted(sentence_starts, start, "right")
    high = np.searchsorted(sentence_starts, stop, "left")
    found: list[Any]
    ptr, found = spans((sentence_starts,), low - 1, high)  # one in front, to be made 0
    offsets = found[0] - np.repeat(start, np.diff(ptr))
    offsets[ptr[:-1]] = 0
    return ptr, offsets
