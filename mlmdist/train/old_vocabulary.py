"""From a new vocabulary to the rows of an old one: which old rows each new row starts from.

A piece that both have keeps its row; WordPiece's `x` and `##x` are SentencePiece's space-marked `x`
and `x`. In scripts without spaces the mark says nothing, so there the form that the old tokenizer
uses for text is taken. Special tokens are found by their role. A new piece starts at the mean of
the rows of the old pieces that it was cut to (as in Gee et al. 2022, "Fast Vocabulary Transfer"),
and what the old tokenizer does not know at all, at the mean of all rows (Hewitt 2021).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from mlmdist.errors import DataError
from mlmdist.tokenizer import SPACE, SPECIAL_TOKENS, Tokenizer, WordPieceTokenizer
from mlmdist.tokenizer.text import is_spaceless
from mlmdist.tokenizer.word_piece import (
    PREFIX,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    UNUSED,
    VOCAB_TXT,
)

SPECIAL_MAP = "special_tokens_map.json"
ROLES = {name: f"{name[1:-1].lower()}_token" for name in SPECIAL_TOKENS}
"""Where a Hugging Face tokenizer's settings name each special token."""

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
START, INSIDE, RAW, ROLE = "start", "inside", "raw", "role"

Key = tuple[str, str]
"""(where a piece may stand, what it spells)."""


@dataclass(frozen=True)
class Origins:
    """For each new row the old rows whose mean it starts from; none: the mean of `ordinary`."""

    rows: list[list[int]]
    ordinary: list[int]
    num_copied: int

    @property
    def num_means(self) -> int:
        """New rows that start from the pieces that they were cut to."""
        return sum(bool(row) for row in self.rows) - self.num_copied

    @property
    def num_unknown(self) -> int:
        """New rows of which the old tokenizer knew nothing."""
        return sum(not row for row in self.rows)

    def is_identity(self, num_rows: int) -> bool:
        """Whether all `num_rows` old rows stay where they are."""
        return self.rows == [[row] for row in range(num_rows)]


class OldVocabulary:
    """The pieces of the tokenizer that came with the weights."""

    def __init__(self, inner: Any, roles: Mapping[str, str], *, is_word_piece: bool) -> None:
        """`inner` is of the library tokenizers; `roles` are the special tokens' names by ours."""
        self.inner, self.is_word_piece = inner, is_word_piece
        vocab: dict[str, int] = inner.get_vocab(with_added_tokens=True)
        by_name = {name: role for role, name in roles.items()}
        self.keys = {
            token: key_of(piece, by_name.get(piece), is_word_piece=is_word_piece)
            for piece, token in vocab.items()
        }
        self.ids = {key: token for token, key in self.keys.items()}
        self.num_rows = max(vocab.values()) + 1

    @property
    def ordinary(self) -> list[int]:
        """The rows of pieces that stand for text."""
        return sorted(t for t, (place, _) in self.keys.items() if place in (START, INSIDE))

    def find(self, key: Key, *, same_kind: bool) -> int | None:
        """The row of a piece with this key; None if there is none."""
        place, text = key
        if not same_kind and place in (START, INSIDE) and _has_no_spaces(text):
            first = START if self.is_word_piece else INSIDE
            found = [self.ids.get((form, text)) for form in (first, START, INSIDE)]
            return next((token for token in found if token is not None), None)
        return self.ids.get(key)

    def cut(self, keys: Sequence[Key]) -> list[list[int]]:
        """The rows of the pieces that each new piece was before; none where only [UNK] was."""
        made = self.inner.encode_batch([text for _, text in keys], add_special_tokens=False)
        return [self._known(key, one.ids) for key, one in zip(keys, made, strict=True)]

    def _known(self, key: Key, ids: list[int]) -> list[int]:
        kept = [token for token in ids if self.keys[token][0] in (START, INSIDE)]
        kept = [token for token in kept if self.keys[token][1]] or kept  # a space alone says little
        if key[0] == INSIDE and kept and not _has_no_spaces(key[1]):
            kept[0] = self.ids.get((INSIDE, self.keys[kept[0]][1]), kept[0])
        return kept


def key_of(piece: str, role: str | None, *, is_word_piece: bool) -> Key:
    """What a piece is, whichever tokenizer it belongs to; `role` names a special token."""
    if role is not None:
        return ROLE, role
    if UNUSED.fullmatch(piece) or BYTE.fullmatch(piece):
        return RAW, piece
    if is_word_piece:
        return (INSIDE, piece.removeprefix(PREFIX)) if piece.startswith(PREFIX) else (START, piece)
    return (START, piece.removeprefix(SPACE)) if piece.startswith(SPACE) else (INSIDE, piece)


def _has_no_spaces(text: str) -> bool:
    return bool(text) and all(is_spaceless(ord(character)) for character in text)


def origins(tokenizer: Tokenizer, old: OldVocabulary) -> Origins:
    """Where the rows of `tokenizer` come from among those of `old`."""
    is_word_piece = tokenizer.kind == WordPieceTokenizer.kind
    names = {token: name for name, token in tokenizer.vocabulary.special_names.items()}
    keys = [
        key_of(piece, names.get(token), is_word_piece=is_word_piece)
        for token, piece in enumerate(tokenizer.pieces)
    ]
    same_kind = is_word_piece == old.is_word_piece
    found = [old.find(key, same_kind=same_kind) for key in keys]
    rows = [[] if token is None else [token] for token in found]
    num_copied = sum(bool(row) for row in rows)
    recorded = dict(_recorded(tokenizer, keys, old))
    new = [t for t, row in enumerate(rows) if not row and keys[t][0] in (START, INSIDE)]
    for token, cut in zip(new, old.cut([keys[t] for t in new]), strict=True):
        rows[token] = recorded.get(token) or cut
    return Origins(rows, old.ordinary, num_copied)


def _recorded(
    tokenizer: Tokenizer, keys: Sequence[Key], old: OldVocabulary
) -> Iterator[tuple[int, list[int]]]:
    """What new_rows.json says that domain words were made of, as far as `old` has those pieces."""
    for token, pieces in getattr(tokenizer, "new_rows", {}).items():
        rows = [old.ids.get(keys[piece]) for piece in pieces]
        known = [row for row in rows if row is not None]
        if known and len(known) == len(rows):
            yield token, known


def tokenizer_file(folder: Path) -> Path | None:
    """The file that holds the pieces of a Hugging Face directory; None if there is none."""
    paths = (folder / name for name in (TOKENIZER_JSON, VOCAB_TXT))
    return next((path for path in paths if path.is_file()), None)


def read_old_vocabulary(folder: Path) -> OldVocabulary:
    """The tokenizer in a Hugging Face directory; raises DataError if none can be read."""
    path = tokenizer_file(folder)
    if path is None:
        raise DataError(
            f"{folder}: no {TOKENIZER_JSON} and no {VOCAB_TXT}, so nothing says which row of its "
            "embedding is which piece; put the file that belongs to the weights there"
        )
    settings = _json(folder / SPECIAL_MAP) | _json(folder / TOKENIZER_CONFIG)
    roles = {role: _text(settings.get(key), role) for role, key in ROLES.items()}
    try:
        is_json = path.suffix == ".json"
        inner, is_word_piece = _from_json(path) if is_json else _listed(path, settings)
        return OldVocabulary(inner, roles, is_word_piece=is_word_piece)
    except Exception as error:  # `tokenizers` raises nothing more special
        raise DataError(f"{path}: not a tokenizer that can be read ({error})") from None


def _text(token: Any, default: str) -> str:
    """A special token's name, which is written as a word or with its properties."""
    return str(token.get("content", default)) if isinstance(token, dict) else str(token or default)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes()) if path.is_file() else {}
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error})") from None
    return value if isinstance(value, dict) else {}


def _from_json(path: Path) -> tuple[Any, bool]:
    """The tokenizer of a tokenizer.json; names of special tokens in text stay text (law W3)."""
    definition = json.loads(path.read_bytes())
    known = definition["model"]["vocab"]
    pieces = known if isinstance(known, dict) else [piece for piece, _ in known]
    extra = [t for t in definition.get("added_tokens") or [] if t["content"] not in pieces]
    bare = definition | {"added_tokens": extra, "post_processor": None}
    inner = tokenizers.Tokenizer.from_str(json.dumps(bare | {"truncation": None, "padding": None}))
    return inner, definition["model"]["type"] == "WordPiece"


def _listed(path: Path, settings: Mapping[str, Any]) -> tuple[Any, bool]:
    """The tokenizer of a vocab.txt; without a word on capitals, those of its pieces tell."""
    pieces = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    ordinary = [p for p in pieces if p not in SPECIAL_TOKENS and not UNUSED.fullmatch(p)]
    guess = not any(piece != piece.lower() for piece in ordinary)
    lowercase = settings.get("do_lower_case")
    vocab = {piece: token for token, piece in enumerate(pieces)}
    inner: Any = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=SPECIAL_TOKENS[1]))
    inner.normalizer = normalizers.BertNormalizer(
        lowercase=guess if lowercase is None else bool(lowercase)
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return inner, True
