"""Which tokens start a word, for whole-word masking.

As a rule the tokenizer knows: a word starts behind a space, where letters meet anything else, and
at each piece of a script without spaces. For Chinese, `segmenter: jieba` finds words of several
characters: jieba-rs (`rjieba`), which needs a tenth of the time that jieba itself takes.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from data_prep.characters import SPACE, character_kinds, code_points
from data_prep.config import Words
from data_prep.word_files import read_dictionary
from mlmdist.tokenizer import SPACE as SPACE_MARK
from mlmdist.tokenizer import Encoded, Tokenizer

VERSION = 1
HAN = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))


def word_starts(
    texts: Sequence[str], encoded: Encoded, tokenizer: Tokenizer, config: Words
) -> tuple[Bool[np.ndarray, "total"], int]:
    """Whether each token of `texts` starts a word, and the number of disagreements.

    `encoded` are the texts' tokens and their ends. The segmenter decides next to Chinese
    characters, the tokenizer everywhere else. A disagreement is a word boundary of the segmenter
    inside a token, which stays whole.
    """
    starts = tokenizer.word_starts(encoded.tokens, encoded.ptr)
    if config.segmenter == "none" or all(map(str.isascii, texts)):
        return starts, 0
    decided, bounds = _chinese_bounds(texts, config.dictionary)
    ends = encoded.char_end.astype(np.int64)
    begins = np.append(0, ends[:-1])[: len(ends)]
    mine = decided[begins] & (begins < ends)  # later bytes of a character are not looked at
    starts[mine] = bounds[begins[mine]]
    # A space that is a piece of its own begins the word behind it.
    spaces = [token for token, piece in enumerate(tokenizer.pieces) if piece == SPACE_MARK]
    lone = np.isin(encoded.tokens, spaces)
    starts[1:] &= ~lone[:-1]
    starts[encoded.ptr[:-1][np.diff(encoded.ptr) > 0]] = True
    inside = bounds & decided
    inside[ends] = False
    return starts, int(np.count_nonzero(inside))


def words_fingerprint(config: Words) -> str:
    """What decides the words besides the recipe: the dictionary's content, the library's version.

    Empty where the recipe asks for no segmenter.
    """
    if config.segmenter == "none":
        return ""
    content = config.dictionary.read_bytes() if config.dictionary else b""
    return f"{VERSION} rjieba {version('rjieba')} {hashlib.sha256(content).hexdigest()}"


def _chinese_bounds(
    texts: Sequence[str], dictionary: Path | None
) -> tuple[Bool[np.ndarray, "places"], Bool[np.ndarray, "places"]]:
    """For each place of the texts end to end: whether the segmenter decides on it, and how.

    It decides between two characters that are no spaces, of which one is Chinese; what it says at
    the end of a text means nothing.
    """
    codes = code_points("".join(texts))
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    stops = np.cumsum(lengths)
    decided = np.zeros(len(codes) + 1, np.bool_)
    chinese, solid = _is_chinese(codes), character_kinds()[codes] & SPACE == 0
    decided[1:-1] = (chinese[1:] | chinese[:-1]) & solid[1:] & solid[:-1]
    bounds = np.zeros(len(codes) + 1, np.bool_)
    some = np.flatnonzero(np.diff(np.append(0, np.cumsum(chinese))[np.append(0, stops)]))
    if len(some):
        chosen = [texts[number] for number in some.tolist()]
        bounds[_word_ends(chosen, stops[some] - lengths[some], dictionary)] = True
    return decided, bounds


def _is_chinese(codes: np.ndarray) -> Bool[np.ndarray, "characters"]:
    """Whether each code point is a Chinese character."""
    found = np.zeros(len(codes), np.bool_)
    for first, last in HAN:
        found |= (codes >= first) & (codes <= last)
    return found


def _word_ends(
    texts: list[str], starts: Int64[np.ndarray, "texts"], dictionary: Path | None
) -> Int64[np.ndarray, "words"]:
    """Where the segmenter sees words end in texts that begin at `starts`."""
    words = _segmenter(dictionary).cut("\n".join(texts))
    ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    bases = np.cumsum(lengths + 1) - lengths - 1
    number = np.searchsorted(bases, ends - 1, "right") - 1
    inside = ends - bases[number]
    real = inside <= lengths[number]  # all but the line ends
    return (starts[number] + inside)[real]


@lru_cache(maxsize=2)
def _segmenter(dictionary: Path | None) -> Any:
    """A jieba with the words of the dictionary; it is made once a process."""
    import rjieba

    segmenter = rjieba.Jieba()
    for word, frequency in read_dictionary(dictionary) if dictionary else ():
        for form in dict.fromkeys((word, word.lower())):
            segmenter.add_word(form, frequency or segmenter.suggest_freq(form), None)
    return segmenter
