"""WordPiece vocabularies of BERT as Hugging Face keeps them, for continued pretraining.

Ids are those of transformers' fast BERT tokenizer for the same text, by the library that it stands
on, `tokenizers`. Its normaliser works on one character and the marks behind it, its pre-tokenizer
cuts at every space, and its model sees one word at a time: so words may be encoded alone, and
remembered.

The text that tokens refer to keeps its letters: capitals and accents that the vocabulary has not
are taken away inside, where each token still knows its place in the text.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Bool, Float64, Int32, Int64

from mlmdist.errors import DataError
from mlmdist.tokenizer.base import TextTokens, Tokenizer, has_words
from mlmdist.tokenizer.memo import ALONE, WordTokens, short_words
from mlmdist.tokenizer.vocabulary import SPECIAL_TOKENS, Vocabulary, make_vocabulary

TOKENIZER_JSON, VOCAB_TXT, TOKENIZER_CONFIG = "tokenizer.json", "vocab.txt", "tokenizer_config.json"
NEW_ROWS = "new_rows.json"
PREFIX = "##"  # of a piece that goes on inside a word
JOINED_WORDS = 512  # that `tokenizers` gets at once
UNUSED = re.compile(r"\[unused\d+\]")
_SPACES = re.compile("[ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df"
_UNITS = re.compile(f" ?[{_HAN}]| ?[^ {_HAN}]+")


class WordPieceTokenizer(Tokenizer):
    """A WordPiece vocabulary with BERT's way to cut words."""

    kind = "wordpiece"

    def __init__(
        self,
        definition: Mapping[str, Any],
        settings: Mapping[str, Any],
        new_rows: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """A tokenizer from the content of tokenizer.json and tokenizer_config.json.

        `new_rows` names, for each id that was given to a domain word, the ids that the word had
        before. Raises DataError for a tokenizer that is none of BERT's kind.
        """
        super().__init__()
        self.definition, self.settings = dict(definition), dict(settings)
        self.new_rows = {token: list(old) for token, old in (new_rows or {}).items()}
        self.pieces = _pieces(self.definition)
        self.special = _special_ids(self.pieces)
        self._check()
        bare = {**self.definition, "added_tokens": [], "post_processor": None}  # law W3
        bare |= {"truncation": None, "padding": None}
        self.inner: Any = tokenizers.Tokenizer.from_str(json.dumps(bare))

    def _check(self) -> None:
        """Refuse what is not BERT's."""
        kinds = {name: (self.definition.get(name) or {}).get("type") for name in _BERT_PARTS}
        for name, wanted in _BERT_PARTS.items():
            if kinds[name] != wanted:
                raise DataError(f"{TOKENIZER_JSON}: {name} is {kinds[name]}; must be {wanted}")
        if self.definition["model"].get("continuing_subword_prefix") != PREFIX:
            raise DataError(f"{TOKENIZER_JSON}: inner pieces must be marked by {PREFIX!r}")
        for token in self.definition.get("added_tokens") or ():
            name, number = token["content"], token["id"]
            if name not in self.special:
                raise DataError(
                    f"{TOKENIZER_JSON}: the added token {name!r} is not one of the five special "
                    "tokens; write it into the vocabulary instead"
                )
            if self.special[name] != number:
                raise DataError(f"{TOKENIZER_JSON}: {name} is {number}, and another in its vocab")

    @cached_property
    def hash(self) -> str:
        """SHA-256 over normaliser, pre-tokenizer, model and special ids."""
        parts = {name: self.definition[name] for name in _BERT_PARTS}
        text = json.dumps([self.kind, parts, self.special], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Size, special ids and the ids of ordinary pieces; unused rows are none."""
        unused = np.array(self.unused, dtype=np.int64)
        return make_vocabulary(len(self.pieces), self.special, unused)

    @cached_property
    def unused(self) -> list[int]:
        """The rows that the vocabulary holds free for other words, ascending."""
        return [token for token, piece in enumerate(self.pieces) if UNUSED.fullmatch(piece)]

    @cached_property
    def continues(self) -> Bool[np.ndarray, "ids"]:
        """The pieces that stand inside words."""
        return np.array([piece.startswith(PREFIX) for piece in self.pieces])

    @cached_property
    def surfaces(self) -> list[str]:
        """The pieces without the mark of inner ones."""
        hidden = {*self.special.values(), *self.unused}
        return [
            "" if token in hidden else piece.removeprefix(PREFIX)
            for token, piece in enumerate(self.pieces)
        ]

    @cached_property
    def scores(self) -> Float64[np.ndarray, "ids"]:
        """Minus the id, as SentencePiece's BPE has it: the vocabulary is in order of frequency."""
        return -np.arange(len(self.pieces), dtype=np.float64)

    def normalize(self, text: str) -> str:
        """Runs of what BERT takes for spaces as one space, none at the ends; letters stay."""
        return _SPACES.sub(" ", text).strip(" ")

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of ids; special tokens by their names."""
        return self.inner.decode([int(token) for token in tokens], skip_special_tokens=False)

    def words_of(self, texts: Sequence[str]) -> list[tuple[str, int]]:
        """Each word that the model gets to cut, and the number of the text that it stands in.

        The texts hold no space: they are what stands between two spaces.
        """
        joined = " ".join(texts)
        text = tokenizers.PreTokenizedString(joined)
        text.normalize(self.inner.normalizer.normalize)
        self.inner.pre_tokenizer.pre_tokenize(text)
        splits = text.get_splits(offset_referential="original", offset_type="char")
        text_of = np.repeat(np.arange(len(texts)), [len(each) + 1 for each in texts])
        return [(word, int(text_of[begin])) for word, (begin, _), _ in splits]

    def pieces_of(self, words: Sequence[str]) -> list[list[int]]:
        """The ids of words that stand alone, in the form the vocabulary knows them in."""
        return [[piece.id for piece in self.inner.model.tokenize(word)] for word in words]

    @cached_property
    def _splits_at_spaces(self) -> bool:
        return True

    def _encode_stretch(self, text: str, *, opens: bool) -> TextTokens:  # noqa: ARG002 (no mark)
        if self._spaces_han and not has_words(len(text), text.count(" ")):
            by_units = self._encode_units(text)
            if by_units is not None:
                return by_units
        tokens, _, ends = self._place(text)
        if not len(tokens) and text:  # nothing that the vocabulary can show: one unknown
            tokens, ends = np.array([self.vocabulary.unk_id], dtype=np.int32), np.array([len(text)])
        ends[-1:] = len(text)
        return tokens, np.diff(ends, prepend=0).astype(np.int32)

    @cached_property
    def _spaces_han(self) -> bool:
        """Whether each Han character is a word."""
        return bool(self.definition["normalizer"].get("handle_chinese_chars"))

    def _encode_units(self, text: str) -> TextTokens | None:
        """The tokens of Chinese text, its single characters and the stretches between remembered.

        None if one of these may have other tokens in the text than alone.
        """
        units = _UNITS.findall(text)
        words = " ".join([unit.removeprefix(" ") for unit in units])
        found = self.memo.find(self.memo.number(words, self._encode_words))
        if (found.reach < 0).any():
            return None
        chars = found.chars
        has_no_space = np.array([unit[0] != " " for unit in units], dtype=np.bool_)
        chars[(np.cumsum(found.counts) - found.counts)[has_no_space]] -= 1
        return found.tokens, chars

    def _place(
        self, text: str
    ) -> tuple[Int32[np.ndarray, "total"], Int64[np.ndarray, "total"], Int64[np.ndarray, "total"]]:
        """Tokens of a text and where they start and end.

        Of several tokens from one character, the last has it. A character that is taken away, such
        as an accent, belongs to the token before it, or else to the one behind it.
        """
        encoding = self.inner.encode(text, add_special_tokens=False)
        tokens = np.array(encoding.ids, dtype=np.int32)
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        starts, ends = offsets[:, 0], offsets[:, 1].copy()
        following = np.append(starts[1:], len(text))
        ends = np.minimum(ends, following)
        for token in np.flatnonzero(following > ends).tolist():
            if text[ends[token]] != " ":
                space = text.find(" ", ends[token], following[token])
                ends[token] = space if space > 0 else following[token]
        return tokens, starts, ends

    def _encode_words(self, words: str) -> WordTokens:
        short = short_words(words)
        rows = [short[first : first + JOINED_WORDS] for first in range(0, len(short), JOINED_WORDS)]
        made = [self._encode_row(row) for row in rows]
        tokens, chars, counts = (np.concatenate(column) for column in zip(*made, strict=True))
        reach = np.where(counts > 0, np.inf, ALONE)
        return WordTokens(tokens, chars.astype(np.uint8), counts, np.zeros(len(short)), reach)

    def _encode_row(
        self, words: list[str]
    ) -> tuple[Int32[np.ndarray, "total"], Int64[np.ndarray, "total"], Int64[np.ndarray, "words"]]:
        """Tokens, characters a token with the space before it, and tokens a word."""
        tokens, starts, ends = self._place(" ".join(words))
        lengths = np.array([len(word) + 1 for word in words])
        begins = np.cumsum(lengths) - lengths
        word_of = np.searchsorted(begins, starts, "right") - 1
        before = np.concatenate([np.array([-1]), ends[:-1]]) if len(ends) else ends
        chars = ends - np.maximum(before, begins[word_of] - 1)
        return tokens, chars, np.bincount(word_of, minlength=len(words))


_BERT_PARTS = {
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
    "model": "WordPiece",
}


def _pieces(definition: Mapping[str, Any]) -> list[str]:
    """The pieces by id; raises DataError unless ids go from 0 up without a gap."""
    try:
        vocab: dict[str, int] = definition["model"]["vocab"]
        pieces = sorted(vocab, key=vocab.__getitem__)
        ids = [vocab[piece] for piece in pieces]
    except (KeyError, TypeError, AttributeError):
        raise DataError(f"{TOKENIZER_JSON}: holds no vocabulary of WordPiece") from None
    for number, token in enumerate(ids):
        if number != token:
            raise DataError(
                f"{TOKENIZER_JSON}: {len(ids)} pieces must have the ids 0 to {len(ids) - 1}, each "
                f"once; {number} is not there once"
            )
    return pieces


def _special_ids(pieces: list[str]) -> dict[str, int]:
    """The special tokens' ids; raises DataError if the vocabulary lacks one."""
    missing = [name for name in SPECIAL_TOKENS if name not in set(pieces)]
    if missing:
        raise DataError(
            f"the vocabulary has no {', '.join(missing)}; BERT's needs {', '.join(SPECIAL_TOKENS)}"
        )
    return {name: pieces.index(name) for name in SPECIAL_TOKENS}
