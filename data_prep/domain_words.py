"""Rows of their own for the words of a field that a WordPiece vocabulary cuts to pieces.

Each such word is written on one of the vocabulary's [unused] rows, which pretraining never touched,
or appended behind its end. What the word was made of before is recorded, so that training can start
from the mean of those pieces' embeddings.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy

from data_prep.config import TokenizerTraining
from data_prep.documents import Document
from data_prep.tokenizer_training import sample
from mlmdist.errors import ConfigError
from mlmdist.tokenizer import Tokenizer, WordPieceTokenizer

log = logging.getLogger(__name__)

LEAST_PIECES = 3
LEAST_COUNT = 2
MOST_COUNTED = 4_000_000
"""Different words counted at once, of about 150 bytes each; then those seen once are forgotten."""

JOINED_WORDS = 512


def add_domain_words(
    tokenizer: Tokenizer, documents: Iterable[Document], num_chars: int, config: TokenizerTraining
) -> WordPieceTokenizer:
    """The tokenizer with the most frequent words that it cuts in three pieces or more as pieces.

    There are `config.domain_words` of them. Words are counted over the sample that training takes
    too, in the form the vocabulary knows them in; they are of letters alone, and equally frequent
    ones go by their letters' code points.
    Raises ConfigError if it is no WordPiece tokenizer, or has too few unused rows.
    """
    if not isinstance(tokenizer, WordPieceTokenizer):
        raise ConfigError(
            f"tokenizer.domain_words={config.domain_words}: only kind wordpiece has rows for them; "
            "a SentencePiece tokenizer is better trained on the text"
        )
    free = tokenizer.unused if config.domain_rows == "unused" else None
    if free is not None and len(free) < config.domain_words:
        raise ConfigError(
            f"tokenizer.domain_words={config.domain_words}: the vocabulary has {len(free)} unused "
            "rows; ask for no more, or set tokenizer.domain_rows=appended"
        )
    counts = _count(tokenizer, sample(documents, num_chars, config))
    chosen = _choose(tokenizer, counts, config.domain_words)
    if len(chosen) < config.domain_words:
        log.warning(
            "only %d words are cut in %d pieces or more and come %d times or more: "
            "tokenizer.domain_words=%d is not filled",
            len(chosen),
            LEAST_PIECES,
            LEAST_COUNT,
            config.domain_words,
        )
    size = len(tokenizer.pieces)
    rows = range(size, size + len(chosen)) if free is None else free[: len(chosen)]
    return _with_rows(tokenizer, dict(zip(rows, chosen, strict=True)))


def _count(tokenizer: WordPieceTokenizer, documents: Iterable[Document]) -> Counter[str]:
    """How often each word comes, as the vocabulary knows it. Memory is bounded by MOST_COUNTED."""
    found: Counter[str] = Counter()
    for document in documents:
        for paragraph in document.paragraphs:
            found.update(tokenizer.normalize(paragraph).split(" "))
        if len(found) > MOST_COUNTED:
            found = Counter({word: count for word, count in found.items() if count > 1})
    counts: Counter[str] = Counter()
    for words in _rows(found):
        for word, place in tokenizer.words_of(words):
            counts[word] += found[words[place]]
    return counts


def _rows(found: Counter[str]) -> Iterator[list[str]]:
    words = list(found)
    for first in range(0, len(words), JOINED_WORDS):
        yield words[first : first + JOINED_WORDS]


def _choose(tokenizer: WordPieceTokenizer, counts: Counter[str], most: int) -> list[str]:
    """The most frequent words of letters that are cut in LEAST_PIECES or more."""
    often = [word for word, n in counts.items() if n >= LEAST_COUNT and word.isalpha()]
    often.sort(key=lambda word: (-counts[word], word))
    chosen: list[str] = []
    for first in range(0, len(often), JOINED_WORDS):
        words = often[first : first + JOINED_WORDS]
        cut = zip(words, tokenizer.pieces_of(words), strict=True)
        chosen += [word for word, ids in cut if len(ids) >= LEAST_PIECES]
        if len(chosen) >= most:
            break
    return chosen[:most]


def _with_rows(tokenizer: WordPieceTokenizer, words: dict[int, str]) -> WordPieceTokenizer:
    """The same tokenizer with these words on these rows."""
    definition = deepcopy(tokenizer.definition)
    pieces = dict(enumerate(tokenizer.pieces)) | words
    definition["model"]["vocab"] = {pieces[token]: token for token in range(len(pieces))}
    old = dict(zip(words, tokenizer.pieces_of(list(words.values())), strict=True))
    return WordPieceTokenizer(definition, tokenizer.settings, tokenizer.new_rows | old)
