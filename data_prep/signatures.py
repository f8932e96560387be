"""What two documents are compared by: MinHash signatures of word sequences, cut into bands.

A document is the set of its runs of `SHINGLE_WORDS` words (Broder 1997); of that set `NUM_HASHES`
minima are kept, in `NUM_BANDS` bands. Two documents whose sets share a part J (Jaccard) agree in a
whole band with probability 1 - (1 - J**6)**20: .27 at J = .5, .93 at .7, .98 at .75, .998 at .8 and
1.000 at .9. What agrees in a band is then compared by the low byte of every minimum (Li and Koenig
2010), which gives J to +-.04.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache

import numpy as np
from jaxtyping import Int64, UInt8, UInt32, UInt64
from rensa import RMinHash  # pyright: ignore[reportAttributeAccessIssue]

from data_prep.characters import FIRST_UNCASED, SPACELESS, character_categories, code_points
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

BATCH_CHARACTERS = 1 << 20
"""Characters of a document, or a little more, whose words are hashed at once."""

_SEPARATOR, _LETTER, _WORD, _SEVERAL = 0, 1, 2, 3
_SEVERAL_CHARACTERS = re.compile("[ßŉǰΐΰևẖ-ẚẞ\u1f50-\u1fff\ufb00-\ufb17İ]")
_BLOCK = 1 << 16
_MULTIPLIER = 0x9E3779B97F4A7C15


def signature_rows(documents: Iterable[Document], side: int, *, near: bool = True) -> np.ndarray:
    """The rows of dtype ROW by which `documents`, all on one side, find their duplicates.

    `near` gives 20 rows a document, from which exact and near duplicates are found; without it
    there is one row a document, for exact ones only.
    """
    tables = [_rows(document, side, near) for document in documents]
    return np.concatenate(tables) if tables else np.empty(0, ROW)


def _rows(document: Document, side: int, near: bool) -> np.ndarray:
    content = _content(document.paragraphs)
    rows = np.zeros(NUM_BANDS if near else 1, ROW)
    rows["document_id"], rows["side"], rows["content"] = document.id, side, np.void(content)
    number = np.frombuffer(content, "<u8")[:1]
    if not near:
        rows["key"] = mix_array(number)
        return rows
    found = signature(document.paragraphs)
    found = minima(number) if found is None else found
    rows["key"] = band_keys(found)
    rows["sketch"] = (found & 0xFF).astype(np.uint8)
    return rows


def _content(paragraphs: Sequence[str]) -> bytes:
    """A hash of a document's text: its paragraphs, a line each."""
    digest = hashlib.blake2b(digest_size=16)
    for number, paragraph in enumerate(paragraphs):
        digest.update(b"\n" if number else b"")
        digest.update(paragraph.encode("utf-8", "surrogatepass"))
    return digest.digest()


def signature(paragraphs: Sequence[str]) -> UInt32[np.ndarray, "hashes"] | None:
    """The minima over the shingles of a document; None if it has no word.

    Memory holds what is known of BATCH_CHARACTERS of it, or of one paragraph, at once.
    """
    found: list[np.ndarray] = []
    words = np.empty(0, np.uint64)
    for batch in _batches(paragraphs):
        words = np.concatenate([words, word_hashes("\n".join(batch))])
        if words.size >= SHINGLE_WORDS:
            found = [np.minimum.reduce([*found, minima(_shingles(words))])]
            words = words[-(SHINGLE_WORDS - 1) :]
    if not found and words.size:
        found = [minima(_shingles(words))]
    return found[0] if found else None


def _batches(paragraphs: Sequence[str]) -> Iterator[list[str]]:
    """The paragraphs in runs of BATCH_CHARACTERS or a little more."""
    batch: list[str] = []
    size = 0
    for paragraph in paragraphs:
        batch.append(paragraph)
        size += len(paragraph)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def shingle_hashes(text: str) -> UInt64[np.ndarray, "shingles"]:
    """A hash of each run of five words; of all words together where there are fewer."""
    return _shingles(word_hashes(text))


def _shingles(words: UInt64[np.ndarray, "words"]) -> UInt64[np.ndarray, "shingles"]:
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
    return words_by_line(text)[0]


def words_by_line(text: str) -> tuple[UInt64[np.ndarray, "words"], Int64[np.ndarray, "words"]]:
    """The `word_hashes` of a text, and the line, from 0 on, on which each word stands."""
    codes = code_points(text)
    kinds = _kinds()[codes]
    if np.any(kinds == _SEVERAL):  # a German sharp s is two letters without case
        codes = code_points(_SEVERAL_CHARACTERS.sub(lambda match: match[0].casefold(), text))
        kinds = _kinds()[codes]
    starts, stops = _word_bounds(kinds)
    found = [_hash_words(codes, *part) for part in _blocks(starts, stops)]
    lines = np.flatnonzero(codes == ord("\n")).searchsorted(starts)
    return np.concatenate([np.empty(0, np.uint64), *found]), lines


def _word_bounds(
    kinds: UInt8[np.ndarray, "characters"],
) -> tuple[Int64[np.ndarray, "words"], Int64[np.ndarray, "words"]]:
    """Where words start and stop: runs of letters, and characters that are words."""
    letters = np.zeros(len(kinds) + 2, np.bool_)
    letters[1:-1] = kinds == _LETTER
    alone = kinds == _WORD
    starts, stops = letters[1:-1] & ~letters[:-2], letters[1:-1] & ~letters[2:]
    return np.flatnonzero(starts | alone), np.flatnonzero(stops | alone) + 1


def _blocks(
    starts: Int64[np.ndarray, "words"], stops: Int64[np.ndarray, "words"]
) -> Iterator[tuple[Int64[np.ndarray, "some"], Int64[np.ndarray, "some"]]]:
    """The words in runs of about _BLOCK characters, and more only where one word is longer."""
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(stops, starts[first] + _BLOCK, "right"))
        last = max(last, first + 1)
        yield starts[first:last], stops[first:last]
        first = last


def _hash_words(
    codes: np.ndarray, starts: Int64[np.ndarray, "words"], stops: Int64[np.ndarray, "words"]
) -> UInt64[np.ndarray, "words"]:
    """The hash of each word: of the sum of its mixed codes, each times a power of its place.

    The sums are differences of one running sum, whose powers count from the first word's start; the
    inverse powers set that right, exactly, modulo 2**64.
    """
    base = int(starts[0])
    codes = codes[base : int(stops[-1])]
    powers, inverse_powers = _powers(max(len(codes) + 1, _BLOCK + 1))
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(_mixed_codes()[codes] * powers[: len(codes)], out=sums[1:])
    return mix_array((sums[stops - base] - sums[starts - base]) * inverse_powers[starts - base])


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


@lru_cache(maxsize=2)
def _powers(count: int) -> tuple[UInt64[np.ndarray, "count"], UInt64[np.ndarray, "count"]]:
    """The powers of an odd constant from 0 on, and of its inverse, modulo 2**64."""
    powers = []
    for base in (_MULTIPLIER, pow(_MULTIPLIER, -1, 1 << 64)):
        factors = np.full(count, base, np.uint64)
        factors[0] = 1
        powers.append(np.cumprod(factors, dtype=np.uint64))
    return powers[0], powers[1]


@cache
def _without_case() -> UInt32[np.ndarray, "codes"]:
    """For each code point that without case, or itself where that is several."""
    codes = np.arange(0x110000, dtype=np.uint32)
    folded = [chr(code).casefold() for code in range(FIRST_UNCASED)]
    codes[:FIRST_UNCASED] = [ord(f) if len(f) == 1 else n for n, f in enumerate(folded)]
    return codes


@cache
def _mixed_codes() -> UInt64[np.ndarray, "codes"]:
    """For each code point the mixed one of what it is without case."""
    return mix_array(_without_case().astype(np.uint64))


@cache
def _kinds() -> UInt8[np.ndarray, "codes"]:
    """For each code point what it is without case: _SEPARATOR, _LETTER, _WORD or _SEVERAL."""
    inside = np.isin(character_categories(), [ord(kind) for kind in "LNM"])
    kinds = np.where(inside, np.uint8(_LETTER), np.uint8(_SEPARATOR))
    for first, last in SPACELESS:
        kinds[first : last + 1] *= _WORD
    kinds = kinds[_without_case()]
    kinds[[code for code in range(FIRST_UNCASED) if len(chr(code).casefold()) > 1]] = _SEVERAL
    return kinds
