"""SentencePiece models, unigram and BPE, with the ids of BERT's special tokens in front.

The model is trained with `identity` normalisation: text is normalised here, so that a
`tokenizer.json` can do exactly the same.

**Why words may be encoded alone.** No piece holds a space anywhere but at its front, so none goes
across a word's end. BPE joins the best neighbours first, and neighbours in different words are
never joined: its result is the words' results end to end. Unigram takes the way with the highest
sum of scores, which is the words' best ways end to end too; but SentencePiece adds up from the
text's start in 32 bits, so a word with two ways of nearly the same sum may be cut otherwise after a
long text than alone. With u = 2**-24, n additions in the word and every sum below M, the sum of a
way is off by at most n u M, and rounding keeps the order of sums, so that the way chosen is one of
the highest rounded sum. So a word is safe in texts of total score up to S while the gap between its
two best ways is over 2 n u (S + n max|score|); twice that is asked here, and four times of the part
that does not grow with the text, for the sums of the two best ways are rounded too.
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
from mlmdist.tokenizer.base import MAX_MEAN_WORD, TextTokens, Tokenizer
from mlmdist.tokenizer.memo import ALONE, MAX_WORD_CHARS, WordTokens
from mlmdist.tokenizer.text import SPACE, normalize
from mlmdist.tokenizer.vocabulary import SPECIAL_TOKENS, Vocabulary, make_vocabulary

PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID = range(5)
NORMALISATION = "nfkc, space mark as space, whitespace collapsed, stripped"
MODEL_NAME = "tokenizer.model"
UNKNOWN_CHARS = -(1 << 30)  # of a piece that only a text tells the length of
ROUNDING = 2.0**-24  # of one addition in 32 bits, relative
UNKNOWN_PENALTY = 10.0  # SentencePiece's, for an unknown character, below the worst piece
JOINED_WORDS = 512  # that SentencePiece gets at once

_Ways = tuple[Int32[np.ndarray, "total"], Int64[np.ndarray, "words"], Float64[np.ndarray, "words"]]
"""The words' tokens, tokens a word, and by how much the best way to cut it leads."""


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model with the ids of BERT's special tokens in front."""

    kind = "sentencepiece"

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        super().__init__()
        self.processor = processor
        size = processor.get_piece_size()
        self.pieces = [processor.id_to_piece(token) for token in range(size)]
        if tuple(self.pieces[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
            raise DataError(
                f"the tokenizer's first pieces are {self.pieces[: len(SPECIAL_TOKENS)]}; must be "
                f"{list(SPECIAL_TOKENS)}: train it with `python -m data_prep tokenizer`"
            )
        self.is_byte = np.array([processor.is_byte(token) for token in range(size)])

    def normalize(self, text: str) -> str:
        """NFKC, runs of whitespace as one space, none at the ends."""
        return normalize(text)

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
        return np.array([self.processor.get_score(token) for token in range(len(self.pieces))])

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

    def _in_words(self, text: str) -> bool:
        return self._splits_at_spaces and len(text) <= MAX_MEAN_WORD * (text.count(" ") + 1)

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

    def _encode_words(self, words: list[str]) -> WordTokens:
        short = [word if len(word) <= MAX_WORD_CHARS else "" for word in words]
        tokens, counts, gap = self._two_best(short) if self.is_unigram else self._best(short)
        chars = self._piece_chars[tokens]
        starts = np.cumsum(counts) - counts
        for word in np.unique(np.searchsorted(starts, np.flatnonzero(chars < 0), "right") - 1):
            place = slice(starts[word], starts[word] + counts[word])
            chars[place] = _exact_chars(self.processor, short[int(word)])
            chars[starts[word]] += 1
        reach = self._reach(np.array([len(word) for word in short]), gap)
        opens = np.append(~self.continues[tokens], False)[starts]
        reach[~opens | (counts == 0)] = ALONE
        word_of = np.repeat(np.arange(len(words)), counts)
        costs = self._costs[tokens] * np.where(tokens == UNK_ID, chars, 1)
        weight = _sums(word_of, costs, len(words))
        return WordTokens(tokens, chars.astype(np.uint8), counts, weight, reach)

    def _best(self, words: list[str]) -> _Ways:
        """Each word's tokens; there is no second way. A row of words is encoded at once."""
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
        return np.concatenate(made).astype(np.int32), counts, np.full(len(words), np.inf)

    def _two_best(self, words: list[str]) -> _Ways:
        """Each word's tokens and how far behind the second way to cut it is; infinite if none."""
        ways = [way if word else [[]] for word, way in zip(words, self._nbest(words), strict=True)]
        best = [way[0] for way in ways]
        second = [way[1] if len(way) > 1 else [] for way in ways]
        gap = self._scores(best) - self._scores(second)
        for number in np.flatnonzero(np.isnan(gap)).tolist():
            made = self.processor.nbest_encode(words[number], nbest_size=2, return_type="proto")
            scores = [each.score for each in made.nbests]
            gap[number] = scores[0] - scores[1] if len(scores) > 1 else np.inf
        gap[[len(way) < 2 for way in ways]] = np.inf
        counts = np.array([len(row) for row in best], dtype=np.int64)
        return np.fromiter(chain.from_iterable(best), dtype=np.int32), counts, gap

    def _nbest(self, words: list[str]) -> list[list[list[int]]]:
        return self.processor.nbest_encode(words, nbest_size=2)

    def _scores(self, rows: list[list[int]]) -> Float64[np.ndarray, "rows"]:
        """The sum of scores of each row; not a number if it holds unknown characters or bytes."""
        tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int32)
        row_of = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        return _sums(row_of, self._known_scores[tokens], len(rows))

    @cached_property
    def _known_scores(self) -> Float64[np.ndarray, "ids"]:
        scores = self.scores.copy()
        scores[: len(SPECIAL_TOKENS)] = np.nan
        scores[self.is_byte] = np.nan
        return scores

    @cached_property
    def _costs(self) -> Float64[np.ndarray, "ids"]:
        """The size of each piece's score; of an unknown character's, where it has none."""
        known = self._known_scores
        sizes = np.abs(known)
        sizes[np.isnan(known)] = abs(np.nanmin(known)) + UNKNOWN_PENALTY
        return sizes

    def _reach(
        self, num_chars: Int64[np.ndarray, "words"], gap: Float64[np.ndarray, "words"]
    ) -> Float64[np.ndarray, "words"]:
        """The heaviest text in which rounding cannot bring the second way in front of the best."""
        additions = num_chars + 1
        return gap / (4 * additions * ROUNDING) - 4 * additions * self._costs.max()


def _sums(
    row_of: Int64[np.ndarray, "total"], values: Float64[np.ndarray, "total"], num_rows: int
) -> Float64[np.ndarray, "rows"]:
    """The sum of the values of each row."""
    return np.bincount(row_of, values, minlength=num_rows).astype(np.float64)


def _exact_chars(
    processor: sentencepiece.SentencePieceProcessor, text: str
) -> Int32[np.ndarray, "tokens"]:
    """Characters a token, from SentencePiece's own offsets, which count bytes."""
    ends = [piece.end for piece in processor.encode(text, return_type="proto").pieces]
    starts_character = (np.frombuffer(text.encode(), dtype=np.uint8) & 0xC0) != 0x80
    chars_before = np.concatenate([[0], np.cumsum(starts_character)])
    return np.diff(chars_before[np.array(ends, dtype=np.int64)], prepend=0).astype(np.int32)
