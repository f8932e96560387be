"""Blanks that show what a model has learned: words it finds where frequency does not."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Int64

from mlmdist.blocks import STARTS_ON_SENTENCE, Block
from mlmdist.model.bert import Bert
from mlmdist.model.stream import Stream
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import Tokenizer

MIN_TOKENS, MAX_TOKENS = 8, 32  # of a sentence that is pleasant to read
ROWS_AT_ONCE = 256
MOST_ROWS = 4096
LIKELY = 0.02


@dataclass(frozen=True)
class Blank:
    """A held-out sentence with one word taken out, and how the model fills it."""

    sentence: str
    """With [MASK] in the word's place."""

    word: str
    probability: float
    """What the model gives the word that stood there."""

    rank: int
    """1 if that word is the model's first answer."""

    unigram_probability: float
    """What the word's frequency in the training text gives it."""

    @property
    def gain(self) -> float:
        """Nats by which the model is better than frequency."""
        return float(np.log(self.probability / self.unigram_probability))


@torch.no_grad()
def find_blanks(
    model: Bert, tokenizer: Tokenizer, train: ShardSet, held_out: ShardSet, most: int = 3
) -> list[Blank]:
    """Up to `most` blanks in which the model beats frequency, the most convincing ones first.

    They stand in different sentences and are different words. The sentences are those of the first
    block, so of a fair sample of the held-out set.
    """
    counts = train.read_unigram()
    unigram = (counts + 1) / (counts.sum() + len(counts))
    rows = list(_rows(held_out.read_block(0), tokenizer))
    rows = rows[:: 1 + len(rows) // MOST_ROWS]
    found: list[Blank] = []
    for first in range(0, len(rows), ROWS_AT_ONCE):
        found.extend(_better(model, tokenizer, unigram, rows[first : first + ROWS_AT_ONCE]))
    return _different(sorted(found, key=_unconvincing), most)


def _unconvincing(blank: Blank) -> tuple[int, float]:
    """First answers before what is at least likely before the rest; within each by gain."""
    likely = blank.probability >= LIKELY
    return (0 if blank.rank == 1 else 1 if likely else 2), -blank.gain


def _rows(block: Block, tokenizer: Tokenizer) -> Iterator[tuple[list[int], int]]:
    """(sentence, place of a whole word of one letter-only piece in it)."""
    is_word = tokenizer.is_word
    for row in range(block.num_rows):
        begin = int(block.window_ptr[row])
        window = slice(begin, int(block.window_ptr[row + 1]))
        tokens, words = block.tokens[window], block.word_start[window]
        edges = block.sentence_start[block.sentence_ptr[row] : block.sentence_ptr[row + 1]].tolist()
        if not block.flags[row] & STARTS_ON_SENTENCE:
            edges = edges[1:]
        for start, stop in pairwise([*edges, len(tokens)]):
            if MIN_TOKENS <= stop - start <= MAX_TOKENS:
                places = _whole_words(tokens[start:stop], words[start:stop], is_word)
                yield from ((tokens[start:stop].tolist(), place) for place in places.tolist())


def _whole_words(
    tokens: np.ndarray, words: np.ndarray, is_word: np.ndarray
) -> Int64[np.ndarray, "places"]:
    """Places inside a sentence, its ends left out, where one piece is one word."""
    alone = words[1:-1] & words[2:] & is_word[tokens[1:-1]]
    return np.flatnonzero(alone) + 1


def _better(
    model: Bert, tokenizer: Tokenizer, unigram: np.ndarray, rows: list[tuple[list[int], int]]
) -> Iterator[Blank]:
    """The blanks among `rows` whose word the model finds more probable than its frequency."""
    inputs, places, total = [], [], 0
    cls_id, sep_id = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id
    mask_id = tokenizer.vocabulary.mask_id
    for tokens, place in rows:
        ids = [cls_id, *tokens[:place], mask_id, *tokens[place + 1 :], sep_id]
        inputs.append((ids, [0] * len(ids)))
        places.append(total + 1 + place)
        total += len(ids)
    probabilities = model(Stream.from_rows(inputs, places)).mlm_logits.softmax(-1)
    for (tokens, place), row in zip(rows, probabilities, strict=True):
        word = tokens[place]
        score = float(row[word])
        if score > unigram[word]:
            masked = tokenizer.decode([*tokens[:place], mask_id, *tokens[place + 1 :]])
            rank = 1 + int((row > score).sum())
            yield Blank(masked, tokenizer.decode([word]), score, rank, float(unigram[word]))


def _different(blanks: list[Blank], most: int) -> list[Blank]:
    chosen: list[Blank] = []
    for blank in blanks:
        known = {each.sentence.replace("[MASK]", each.word) for each in chosen}
        words = {each.word.lower() for each in chosen}
        sentence = blank.sentence.replace("[MASK]", blank.word)
        if sentence not in known and blank.word.lower() not in words:
            chosen.append(blank)
        if len(chosen) == most:
            break
    return chosen
