"""The tokenizer: text to ids and back, and what the ids are.

A tokenizer folder holds `tokenizer.model` (SentencePiece) and `meta.json` (hash, size). Text is
normalised here, not inside SentencePiece, so that a `tokenizer.json` can do exactly the same; the
model itself is trained with `identity` normalisation. Special tokens are control symbols: no text,
whatever it holds, is ever read as one of them (law W3).
"""

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import sentencepiece
from jaxtyping import Bool, Int32, Int64

from mlmdist.errors import DataError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID = range(5)
NUM_SPECIAL_POSITIONS = 3  # of the longest row: [CLS] A [SEP] B [SEP]
SPACE = "\u2581"  # SentencePiece's mark of a space before a piece
NORMALISATION = "nfkc, space mark as space, whitespace collapsed, stripped"
MODEL_NAME = "tokenizer.model"
META_NAME = "meta.json"


@dataclass(frozen=True)
class Vocabulary:
    """The ids: how many, which are special, and which may stand in for a masked token."""

    size: int
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    special_ids: tuple[int, ...]
    drawable: Int64[np.ndarray, "ids"]
    """Ids of ordinary pieces, ascending: what a random replacement is drawn from (law M1)."""


@dataclass(frozen=True)
class Encoded:
    """Texts as tokens, end to end; text i has tokens `ptr[i]` to `ptr[i + 1]`."""

    tokens: Int32[np.ndarray, "total"]
    char_end: Int64[np.ndarray, "total"]
    """Where each token ends, in characters of all the texts joined."""

    ptr: Int64[np.ndarray, "texts_plus_1"]


def normalize(text: str) -> str:
    """The text as the tokenizer sees it: NFKC, runs of whitespace as one space, none at the ends.

    SentencePiece's space mark counts as a space, which is what SentencePiece would read it as.
    """
    return " ".join(unicodedata.normalize("NFKC", text).replace(SPACE, " ").split())


class Tokenizer:
    """A SentencePiece model with the ids of BERT's special tokens in front."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        self.processor = processor
        size = processor.get_piece_size()
        self.pieces = [processor.id_to_piece(token) for token in range(size)]
        if tuple(self.pieces[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
            raise DataError(
                f"the tokenizer's first pieces are {self.pieces[: len(SPECIAL_TOKENS)]}; must be "
                f"{list(SPECIAL_TOKENS)}: train it with `python -m data_prep tokenizer`"
            )
        self.is_byte = np.array([processor.is_byte(token) for token in range(size)])

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """The tokenizer in `folder`; raises DataError if it is missing, damaged or another."""
        path = folder / MODEL_NAME
        if not path.is_file():
            raise DataError(
                f"{folder}: no {MODEL_NAME}; `python -m data_prep tokenizer --config F` makes one"
            )
        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.load(str(path))
            recorded = json.loads((folder / META_NAME).read_bytes())["hash"]
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            raise DataError(f"{path}: not a tokenizer that can be read ({error})") from None
        tokenizer = cls(processor)
        if tokenizer.hash != recorded:
            raise DataError(
                f"{path}: its pieces hash to {tokenizer.hash[:12]}, {META_NAME} says "
                f"{recorded[:12]}; copy both files from the place where they were made"
            )
        return tokenizer

    @cached_property
    def hash(self) -> str:
        """SHA-256 over normalisation, kind, pieces and scores: what decides which ids a text gets.

        The bytes of the model file would not do: they hold training paths and thread counts.
        """
        digest = hashlib.sha256(NORMALISATION.encode())
        for token, piece in enumerate(self.pieces):
            score = self.processor.get_score(token)
            digest.update(f"{piece}\0{score!r}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Size, special ids and the ids of ordinary pieces."""
        special = self.is_byte.copy()
        special[: len(SPECIAL_TOKENS)] = True
        return Vocabulary(
            size=len(self.pieces),
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            cls_id=CLS_ID,
            sep_id=SEP_ID,
            mask_id=MASK_ID,
            special_ids=(PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID),
            drawable=np.flatnonzero(~special),
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without special tokens; texts are normalised first."""
        return self.processor.encode([normalize(text) for text in texts])

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of ids; special tokens by their names."""
        runs: list[str] = []
        ordinary: list[int] = []
        for token in [*map(int, tokens), PAD_ID]:
            if token >= len(SPECIAL_TOKENS):
                ordinary.append(token)
                continue
            if ordinary:
                runs.append(self.processor.decode(ordinary))
                ordinary = []
            runs.append(SPECIAL_TOKENS[token])
        return " ".join(runs[:-1])

    def encode_with_ends(self, texts: Sequence[str]) -> Encoded:
        """Tokens of normalised texts and the character at which each token ends.

        Every character belongs to exactly one token: the last token of a text ends where the text
        does. A text that holds unknown characters or byte pieces takes a slower way.
        """
        rows = self.processor.encode(list(texts))
        ptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=ptr[1:])
        tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=int(ptr[-1]))
        lengths = self._piece_chars[tokens]
        lengths[ptr[:-1][np.diff(ptr) > 0]] -= 1  # the space that SentencePiece puts in front
        for text in np.unique(np.searchsorted(ptr, np.flatnonzero(lengths < 0), "right") - 1):
            lengths[ptr[text] : ptr[text + 1]] = self._exact_lengths(texts[int(text)])
        char_end = np.cumsum(lengths)
        total = sum(map(len, texts))
        assert not len(tokens) or char_end[-1] == total, "tokens do not cover their text"
        return Encoded(tokens, char_end, ptr)

    @cached_property
    def _piece_chars(self) -> Int64[np.ndarray, "ids"]:
        """Characters a piece stands for, its space mark counted; negative if only a text tells."""
        lengths = np.array([len(piece) for piece in self.pieces], dtype=np.int64)
        lengths[: len(SPECIAL_TOKENS)] = -(1 << 40)
        lengths[self.is_byte] = -(1 << 40)
        return lengths

    def _exact_lengths(self, text: str) -> Int64[np.ndarray, "tokens"]:
        """Characters a token, from SentencePiece's own offsets, which count bytes."""
        ends = [piece.end for piece in self.processor.encode(text, return_type="proto").pieces]
        starts_character = (np.frombuffer(text.encode(), dtype=np.uint8) & 0xC0) != 0x80
        chars_before = np.concatenate([[0], np.cumsum(starts_character)])
        return np.diff(chars_before[np.array(ends, dtype=np.int64)], prepend=0)

    def word_starts(
        self, tokens: Int32[np.ndarray, "total"], ptr: Int64[np.ndarray, "texts_plus_1"]
    ) -> Bool[np.ndarray, "total"]:
        """Whether each token starts a word.

        A word starts after a space, where letters or digits meet anything else, and at every piece
        of a script without spaces.
        """
        glued = np.zeros(len(tokens), dtype=np.bool_)
        opens, closes = self._word_edges
        glued[1:] = closes[tokens[:-1]] & opens[tokens[1:]]
        starts = ~glued
        starts[ptr[:-1][np.diff(ptr) > 0]] = True
        return starts

    @cached_property
    def _word_edges(self) -> tuple[Bool[np.ndarray, "ids"], Bool[np.ndarray, "ids"]]:
        """(can continue a word, can be continued) a piece.

        Unknown and byte pieces do both: what they stand for is not known here, so they are kept
        with their neighbours.
        """
        opens = [not piece.startswith(SPACE) and _in_word(piece[0]) for piece in self.pieces]
        closes = [piece == SPACE or _in_word(piece[-1]) for piece in self.pieces]
        both = self.is_byte.copy()
        both[UNK_ID] = True
        return np.array(opens) | both, np.array(closes) | both


def _in_word(character: str) -> bool:
    """Whether it stands inside words: a letter, digit or mark, but of no spaceless script."""
    category = unicodedata.category(character)
    return category[0] in "LNM" and not _is_spaceless(ord(character))


def _is_spaceless(code: int) -> bool:
    """Han, kana, Thai, Lao, Khmer, Myanmar: scripts that put no spaces between words."""
    return (
        0x3040 <= code <= 0x30FF
        or 0x3400 <= code <= 0x4DBF
        or 0x4E00 <= code <= 0x9FFF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x3FFFF
        or 0x0E00 <= code <= 0x0EFF
        or 0x1000 <= code <= 0x109F
        or 0x1780 <= code <= 0x17FF
    )
