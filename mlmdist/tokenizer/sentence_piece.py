"""SentencePiece models, unigram and BPE, with the ids of BERT's special tokens in front.

The model is trained with `identity` normalisation: text is normalised here, so that a
`tokenizer.json` can do exactly the same.

**Why words may be encoded alone.** No piece holds a space anywhere but at its front, so none goes
across a word's end. BPE joins the best neighbours first, and neighbours in different words are
never joined: its result is the words' results end to end. What holds of unigram models stands in
mlmdist/tokenizer/unigram.py.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import sentencepiece
from jaxtyping import Bool, Float64, Int32, Int64
from sentencepiece import sentencepiece_model_pb2

from mlmdist.errors import DataError
from mlmdist.tokenizer.base import TextTokens, Tokenizer
from mlmdist.tokenizer.memo import ALONE, WordTokens, short_words
from mlmdist.tokenizer.text import SPACE, normalize, normalize_all
from mlmdist.tokenizer.unigram import UnigramWords
from mlmdist.tokenizer.vocabulary import SPECIAL_TOKENS, Vocabulary, make_vocabulary

PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID = range(5)
NORMALISATION = "nfkc, space mark as space, whitespace collapsed, stripped"
MODEL_NAME = "tokenizer.model"
UNKNOWN_CHARS = -(1 << 30)  # of a piece that only a text tells the length of
JOINED_WORDS = 512  # that SentencePiece gets at once


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model with the ids of BERT's special tokens in front."""

    kind = "sentencepiece"

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        super().__init__()
        self.processor = processor
        every = list(range(processor.get_piece_size()))
        self.pieces = processor.id_to_piece(every)
        if tuple(self.pieces[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
            raise DataError(
                f"the tokenizer's first pieces are {self.pieces[: len(SPECIAL_TOKENS)]}; must be "
                f"{list(SPECIAL_TOKENS)}: train it with `python -m data_prep tokenizer`"
            )
        self.is_byte = np.array(processor.is_byte(every), dtype=np.bool_)

    def normalize(self, text: str) -> str:
        """NFKC, runs of whitespace as one space, none at the ends."""
        return normalize(text)

    def normalize_all(self, texts: Sequence[str]) -> list[str]:
        """Each text normalised."""
        return normalize_all(texts)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over normalisation, kind, pieces and scores: what decides which ids a text gets.

        The bytes of the model file would not do: they hold training paths and thread counts.
        """
        scored = zip(self.pieces, self.scores.tolist(), strict=True)
        text = NORMALISATION + "".join([f"{piece}\0{score!r}\0" for piece, score in scored])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Size, special ids and the ids of ordinary pieces."""
        special = {name: token for token, name in enumerate(SPECIAL_TOKENS)}
        return make_vocabulary(len(self.pieces), special, np.flatnonzero(self.is_byte))

    @cached_property
    def continues(self) -> Bool[np.ndarray, "ids"]:
        """All but the pieces with a space in front."""
        return np.array([not piece.startswith(SPACE) for piece in self.pieces])

    @cached_property
    def surfaces(self) -> list[str]:
        """The pieces without the mark of a space."""
        unknown = self.is_byte.copy()
        unknown[: len(SPECIAL_TOKENS)] = True
        pieces = zip(self.pieces, unknown.tolist(), strict=True)
        return ["" if hidden else piece.removeprefix(SPACE) for piece, hidden in pieces]

    @cached_property
    def scores(self) -> Float64[np.ndarray, "ids"]:
        """The model's own: log-probabilities in nats (unigram), minus the rank (BPE)."""
        return np.array(self.processor.get_score(list(range(len(self.pieces)))))

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

    @cached_property
    def prefixless(self) -> sentencepiece.SentencePieceProcessor:
        """The same model without the space that it puts before a text: inner parts have none."""
        model = self._model
        model.normalizer_spec.add_dummy_prefix = False
        model.normalizer_spec.remove_extra_whitespaces = False
        return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())

    @property
    def _model(self) -> Any:
        proto: Any = sentencepiece_model_pb2  # its classes are made at run time
        return proto.ModelProto.FromString(self.processor.serialized_model_proto())

    @cached_property
    def _splits_at_spaces(self) -> bool:
        """Whether the model cuts at every space and has no pieces with rules of their own."""
        model = self._model
        kinds = {self._proto_piece.NORMAL, self._proto_piece.UNKNOWN}
        kinds |= {self._proto_piece.CONTROL, self._proto_piece.BYTE}
        return (
            model.normalizer_spec.add_dummy_prefix
            and not model.trainer_spec.treat_whitespace_as_suffix
            and model.trainer_spec.model_type in (1, 2)
            and all(piece.type in kinds for piece in model.pieces)
            and not any(SPACE in piece[1:] for piece in self.pieces)
        )

    @property
    def _proto_piece(self) -> Any:
        proto: Any = sentencepiece_model_pb2
        return proto.ModelProto.SentencePiece

    @cached_property
    def is_unigram(self) -> bool:
        """Whether pieces are chosen by the sum of their scores."""
        return self._model.trainer_spec.model_type == 1

    def _encode_stretch(self, text: str, *, opens: bool) -> TextTokens:
        processor = self.processor if opens else self.prefixless
        tokens = np.asarray(processor.encode(text, return_type="numpy"), dtype=np.int32)
        chars = self._piece_chars[tokens]
        if opens:
            chars[:1] -= 1  # the space that SentencePiece puts in front
        if (chars < 0).any():
            chars = _exact_chars(processor, text)
        return tokens, chars

    @cached_property
    def _piece_chars(self) -> Int32[np.ndarray, "ids"]:
        """Characters a piece stands for, its space mark counted; negative if only a text tells."""
        lengths = np.array([len(piece) for piece in self.pieces], dtype=np.int32)
        lengths[: len(SPECIAL_TOKENS)] = UNKNOWN_CHARS
        lengths[self.is_byte] = UNKNOWN_CHARS
        return lengths

    def _encode_words(self, words: str) -> WordTokens:
        if self.is_unigram:
            return self._unigram.encode(words)
        short = short_words(words)
        tokens, counts = self._merged(short)
        chars = self._piece_chars[tokens]
        starts = np.cumsum(counts) - counts
        for word in np.unique(np.searchsorted(starts, np.flatnonzero(chars < 0), "right") - 1):
            place = slice(starts[word], starts[word] + counts[word])
            chars[place] = _exact_chars(self.processor, short[int(word)])
            chars[starts[word]] += 1
        reach = np.full(len(short), np.inf)
        opens = np.append(~self.continues[tokens], False)[starts]
        reach[~opens | (counts == 0)] = ALONE
        return WordTokens(tokens, chars.astype(np.uint8), counts, np.zeros(len(short)), reach)

    def _merged(
        self, words: list[str]
    ) -> tuple[Int32[np.ndarray, "total"], Int64[np.ndarray, "words"]]:
        """The tokens that BPE gives each word, and their number; a row of words goes at once."""
        counts = np.zeros(len(words), dtype=np.int64)
        present = np.flatnonzero([bool(word) for word in words])
        made: list[np.ndarray] = [np.zeros(0, dtype=np.int32)]
        for first in range(0, len(present), JOINED_WORDS):
            chosen = present[first : first + JOINED_WORDS]
            row = [words[number] for number in chosen.tolist()]
            tokens = np.asarray(self.processor.encode(" ".join(row), return_type="numpy"))
            starts = np.flatnonzero(~self.continues[tokens])
            if len(starts) == len(row) and not starts[0]:
                counts[chosen] = np.diff(starts, append=len(tokens))
                made.append(tokens)
                continue
            rows = [self.processor.encode(word) for word in row]
            counts[chosen] = [len(each) for each in rows]
            made.append(np.fromiter(chain.from_iterable(rows), dtype=np.int32))
        return np.concatenate(made).astype(np.int32), counts

    @cached_property
    def _unigram(self) -> UnigramWords:
        """The model's pieces, ready to cut words."""
        bytes_ = None
        if self._model.trainer_spec.byte_fallback:
            byte_of = {piece: token for token, piece in enumerate(self.pieces)}
            bytes_ = np.array([byte_of[f"<0x{byte:02X}>"] for byte in range(256)], dtype=np.int32)
        ordinary = ~self.is_byte
        ordinary[: len(SPECIAL_TOKENS)] = False
        return UnigramWords(self.pieces, self.scores, ordinary, UNK_ID, bytes_)


def _exact_chars(
    processor: sentencepiece.SentencePieceProcessor, text: str
) -> Int32[np.ndarray, "tokens"]:
    """Characters a token, from SentencePiece's own offsets, which count bytes."""
    ends = [piece.end for piece in processor.encode(text, return_type="proto").pieces]
    starts_character = (np.frombuffer(text.encode(), dtype=np.uint8) & 0xC0) != 0x80
    chars_before = np.concatenate([[0], np.cumsum(starts_character)])
    return np.diff(chars_before[np.array(ends, dtype=np.int64)], prepend=0).astype(np.int32)
