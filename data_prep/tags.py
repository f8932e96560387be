"""A small number a token, from the user's word list or tagger, for masking rules.

A word list is a file of lines `word TAB tag`, see `data_prep.word_files`. A tagger is a function of
the user, named `module:function` and importable on every node:

    def tag(words: list[str]) -> list[int]: ...  # words of a paragraph -> a tag, 0 to 255, for each

Words are those of whole-word masking (data_prep/words.py): "don't" is three of them. Every token of
a word has its word's tag; 0 says that there is none.
"""

import hashlib
import importlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, UInt8

from data_prep.config import Tags
from data_prep.word_files import MAX_TAG, WordList, read_word_list
from mlmdist.errors import ConfigError, DataError
from mlmdist.tokenizer import Encoded

Tagger = Callable[[list[str]], Any]


def tags_of(
    texts: Sequence[str], encoded: Encoded, word_starts: Bool[np.ndarray, "total"], config: Tags
) -> UInt8[np.ndarray, "total"] | None:
    """The tag of each token, that of its word; None where the recipe asks for none.

    Raises ConfigError for a list or tagger that cannot be used, and DataError naming the paragraph
    for which a tagger fails or gives anything but a tag for each word.
    """
    if config.word_list is None and config.tagger is None:
        return None
    firsts = np.flatnonzero(word_starts)
    bounds = firsts.searchsorted(encoded.ptr)  # text i has the words bounds[i] to bounds[i + 1]
    words = _words("".join(texts), encoded, firsts)
    if config.word_list:
        tags = np.fromiter(map(_word_list(config.word_list).tag, words), np.uint8, len(words))
    else:
        name = str(config.tagger)
        tagger = load_tagger(name)
        tags = np.zeros(len(words), np.uint8)
        for text, low, high in zip(texts, bounds.tolist(), bounds.tolist()[1:], strict=False):
            if high > low:
                tags[low:high] = _ask(tagger, words[low:high], name, text)
    return np.repeat(tags, np.diff(firsts, append=len(word_starts)))


def tags_fingerprint(config: Tags) -> str:
    """What decides the tags besides the recipe: the content of the list, or the tagger's module."""
    if config.word_list:
        content = config.word_list.read_bytes()
    elif config.tagger:
        file = importlib.import_module(config.tagger.partition(":")[0]).__file__
        content = Path(file).read_bytes() if file else b""
    else:
        return ""
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=2)
def load_tagger(name: str) -> Tagger:
    """The user's function `module:function`; ConfigError says why it cannot be had."""
    module, _, function = name.partition(":")
    try:
        tagger = getattr(importlib.import_module(module), function)
    except Exception as error:
        raise ConfigError(
            f"tags.tagger: {name} cannot be imported ({type(error).__name__}: {error}); it must be "
            "`module:function`, importable on every node"
        ) from error
    if not callable(tagger):
        raise ConfigError(f"tags.tagger: {name} is {tagger!r}; it must be a function")
    return tagger


@lru_cache(maxsize=2)
def _word_list(path: Path) -> WordList:
    return read_word_list(path)


def _words(text: str, encoded: Encoded, firsts: Int64[np.ndarray, "words"]) -> list[str]:
    """The words that start at the tokens `firsts`, without the space before them."""
    begins = np.append(0, encoded.char_end)[firsts]
    bounds = [*begins.tolist(), len(text)]
    return [text[first:last].strip() for first, last in pairwise(bounds)]


def _ask(tagger: Tagger, words: list[str], name: str, text: str) -> UInt8[np.ndarray, "words"]:
    """The tags that the user's function gives the words of a paragraph."""
    try:
        tags = list(tagger(words))
    except Exception as error:
        raise DataError(
            f"tags.tagger: {name} fails with {type(error).__name__}: {error} on the paragraph "
            f"{text[:60]!r}; mend it, or give `tags.word_list` instead"
        ) from error
    if len(tags) != len(words) or not all(map(_is_tag, tags)):
        wrong = next((tag for tag in tags if not _is_tag(tag)), None)
        found = f"{len(tags)} tags" if wrong is None else repr(wrong)
        raise DataError(
            f"tags.tagger: {name} gives {found} for the paragraph {text[:60]!r} of {len(words)} "
            f"words; it must give an integer from 0 to {MAX_TAG} for each word"
        )
    return np.array(tags, np.uint8)


def _is_tag(tag: Any) -> bool:
    return (
        isinstance(tag, int | np.integer)
        and not isinstance(tag, bool)
        and bool(0 <= tag <= MAX_TAG)
    )
