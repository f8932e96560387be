"""What two documents are compared by: MinHash signatures of word sequences, cut into bands.

A document is the set of its runs of `SHINGLE_WORDS` words (Broder 1997); of that set `NUM_HASHES`
minima are kept, in `NUM_BANDS` bands. Two documents whose sets share a part J (Jaccard) agree in a
whole band with probability 1 - (1 - J**6)**20: .27 at J = .5, .93 at .7, .98 at .75, .998 at .8 and
1.000 at .9. What agrees in a band is then compared by the low byte of every minimum (Li and Koenig
2010), which gives J to +-.04.
"""

import hashlib
import unicodedata
from collections.abc import Iterable
from functools import cache

import numpy as np
from jaxtyping import UInt8, UInt32, UInt64
from rensa import RMinHash  # pyright: ignore[reportAttributeAccessIssue]

from data_prep.documents import Document
from mlmdist.rng import absorb_array, hash64, mix_array

SHINGLE_WORDS = 5
NUM_HASHES = 120
NUM_BANDS = 20
HASHES_A_BAND = NUM_HASHES // NUM_BANDS
SEED = 1
SIGNATURE_VERSION = 1

EXCLUDED, HELD_OUT, TRAIN = 0, 1, 2
"""Sides, in the order in which they keep a text that stands on two of them."""

ROW = np.dtype(
    [
        ("key", "<u8"),
        ("document_id", "<u8"),
        ("side", "u1"),
        ("content", "V16"),
        ("sketch", "u1", (NUM_HASHES,)),
    ]
)
"""One band of a document; rows of one key are compared. 153 bytes, 20 rows a document."""

# Scripts without spaces: each character is a word of its own.
_WORD_CHARACTERS = (
    (0x0E00, 0x0EFF), (0x0F00, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
_SEPARATOR, _LETTER, _WORD = 0, 1, 2
_MULTIPLIER = 0x9E3779B97F4A7C15


def signature_rows(documents: Iterable[Document], side: int, *, near: bool = True) -> np.ndarray:
    """The rows of dtype ROW by which `documents`, all on one side, find their duplicates.

    `near` gives 20 rows a document, from which exact and near duplicates are found; without it
    there is one row a document, for exact ones only.
    """
    tables = [_rows(document, side, near) for document in documents]
    return np.concatenate(tables) if tables else np.empty(0, ROW)


def _rows(document: Document, side: int, near: bool) -> np.ndarray:
    text = "\n".join(document.paragraphs)
    content = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    rows = np.zeros(NUM_BANDS if near else 1, ROW)
    rows["document_id"], rows["side"], rows["content"] = document.id, side, np.void(content)
    number = np.frombuffer(content, "<u8")[:1]
    if not near:
        rows["key"] = mix_array(number)
        return rows
    shingles = shingle_hashes(text)
    signature = minima(shingles if shingles.size else number)
    rows["key"] = band_keys(signature)
    rows["sketch"] = (signature & 0xFF).astype(np.uint8)
    return rows


def shingle_hashes(text: str) -> UInt64[np.ndarray, "shingles"]:
    """A hash of each run of five words; of all words together where there are fewer."""
    words = word_hashes(text)
    length = min(SHINGLE_WORDS, words.size)
    if not length:
        return words
    num_shingles = words.size - length + 1
    state = np.zeros(num_shingles, np.uint64)
    for place in range(length):
        state = absorb_array(state, words[place : place + num_shingles])
    return state


def word_hashes(text: str) -> UInt64[np.ndarray, "words"]:
    """A hash of each word, without case and the marks between words.

    In scripts that put no spaces between words each character is a word.
    """
    codes = np.frombuffer(text.casefold().encode("utf-32-le", "surrogatepass"), "<u4")
    kinds = _kinds()[codes]
    inside = np.flatnonzero(kinds)
    if not inside.size:
        return np.empty(0, np.uint64)
    alone = kinds[inside] == _WORD
    begins = np.ones(inside.size, np.bool_)
    begins[1:] = (np.diff(inside) > 1) | alone[1:] | alone[:-1]
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=inside.size)
    offsets = np.arange(inside.size) - np.repeat(starts, lengths)
    terms = mix_array(codes[inside].astype(np.uint64)) * _powers(int(lengths.max()))[offsets]
    return mix_array(np.add.reduceat(terms, starts))


def minima(shingles: UInt64[np.ndarray, "shingles"]) -> UInt32[np.ndarray, "hashes"]:
    """The smallest value of each of NUM_HASHES hash functions over a set that is not empty."""
    offsets = np.array([0, shingles.size], np.uint64)
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(
        np.ascontiguousarray(shingles), offsets, NUM_HASHES, SEED
    )
    return np.array(matrix.to_rows()[0], np.uint32)


def band_keys(signature: UInt32[np.ndarray, "hashes"]) -> UInt64[np.ndarray, "bands"]:
    """One hash a band; the same minima in different bands give different keys."""
    bands = signature.astype(np.uint64).reshape(NUM_BANDS, HASHES_A_BAND)
    state = absorb_array(hash64("band", SIGNATURE_VERSION), np.arange(NUM_BANDS, dtype=np.uint64))
    for place in range(HASHES_A_BAND):
        state = absorb_array(state, bands[:, place])
    return state


def _powers(count: int) -> UInt64[np.ndarray, "count"]:
    """The powers of an odd constant from 0 on, modulo 2**64."""
    factors = np.full(count, _MULTIPLIER, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


@cache
def _kinds() -> UInt8[np.ndarray, "codes"]:
    """For each code point whether it separates words, is part of one, or is one."""
    kinds = np.fromiter(
        (unicodedata.category(chr(code))[0] in "LNM" for code in range(0x110000)),
        np.uint8,
        0x110000,
    )
    for first, last in _WORD_CHARACTERS:
        kinds[first : last + 1] *= _WORD
    return kinds
