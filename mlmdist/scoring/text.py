"""Text in and out of a model, whichever tokenizer it came with."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import tokenizers

from mlmdist.errors import DataError
from mlmdist.tokenizer import SPACE, SentencePieceTokenizer, Tokenizer, WordPieceTokenizer

MASK = "[MASK]"


@runtime_checkable
class Text(Protocol):
    """What filling blanks needs of a tokenizer."""

    @property
    def mask(self) -> str:
        """How a blank is written in text."""
        ...

    @property
    def mask_id(self) -> int:
        """The id of a blank."""
        ...

    @property
    def pad_id(self) -> int:
        """The id of padding."""
        ...

    def row(self, text: str) -> tuple[list[int], list[int]]:
        """(ids, segments) of the text with its special tokens; blanks are read as such."""
        ...

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """The text of ids, special tokens by their names or left out."""
        ...


def text_of(tokenizer: Tokenizer) -> Text:
    """Text in and out of the model of a run, by its tokenizer."""
    if isinstance(tokenizer, SentencePieceTokenizer):
        return SentencePieceText(tokenizer)
    assert isinstance(tokenizer, WordPieceTokenizer)
    return WordPieceText(tokenizer)


class SentencePieceText:
    """The tokenizer of a run. [MASK] is a blank here; no other name in text is special (law W3)."""

    mask = MASK

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        self.tokenizer = tokenizer
        self.processor = tokenizer.prefixless
        self.vocabulary = tokenizer.vocabulary
        self.mask_id = self.vocabulary.mask_id
        self.pad_id = self.vocabulary.pad_id

    def row(self, text: str) -> tuple[list[int], list[int]]:
        """(ids, segments) of [CLS] text [SEP]; a blank takes the space before it with it."""
        before, *after = self.tokenizer.normalize(text).split(MASK)
        ids = [self.vocabulary.cls_id]
        ids += self._part(f" {before}" if before else "", blank_follows=bool(after))
        for number, part in enumerate(after, 1):
            ids += [self.mask_id, *self._part(part, blank_follows=number < len(after))]
        ids.append(self.vocabulary.sep_id)
        return ids, [0] * len(ids)

    def _part(self, part: str, *, blank_follows: bool) -> list[int]:
        return self.processor.encode(part.rstrip() if blank_follows else part)

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """The text of ids, as `tokenizer.json`'s decoder writes it."""
        special = self.vocabulary.special_ids
        kept = [int(token) for token in ids if not (skip_special and token in special)]
        pieces = [self.tokenizer.pieces[token] for token in kept]
        return "".join(_spell(pieces)).removeprefix(" ")


def _spell(pieces: Sequence[str]) -> list[str]:
    """Pieces as text; runs of byte pieces as the characters they spell."""
    spelled: list[str] = []
    pending = bytearray()
    for piece in [*pieces, ""]:
        if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            pending.append(int(piece[3:5], 16))
            continue
        if pending:
            spelled.append(_from_bytes(bytes(pending)))
            pending.clear()
        spelled.append(piece.replace(SPACE, " "))
    return spelled


def _from_bytes(data: bytes) -> str:
    """The bytes as UTF-8, or a replacement character a byte if they are not."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "\ufffd" * len(data)


class WordPieceText:
    """The WordPiece tokenizer of a run; blanks and law W3 as with `SentencePieceText`."""

    mask = MASK

    def __init__(self, tokenizer: WordPieceTokenizer) -> None:
        self.vocabulary = tokenizer.vocabulary
        self.mask_id = self.vocabulary.mask_id
        self.pad_id = self.vocabulary.pad_id
        definition = {**tokenizer.definition, "truncation": None, "padding": None}
        self.decoder: Any = tokenizers.Tokenizer.from_str(json.dumps(definition))
        given = definition.get("added_tokens") or []
        blank = [token for token in given if token["content"] == MASK]
        bare = definition | {"added_tokens": blank, "post_processor": None}
        self.encoder: Any = tokenizers.Tokenizer.from_str(json.dumps(bare))

    def row(self, text: str) -> tuple[list[int], list[int]]:
        """(ids, segments) of [CLS] text [SEP]."""
        inner = self.encoder.encode(text, add_special_tokens=False).ids
        ids = [self.vocabulary.cls_id, *inner, self.vocabulary.sep_id]
        return ids, [0] * len(ids)

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """The text of ids, as transformers writes it."""
        return self.decoder.decode([int(token) for token in ids], skip_special_tokens=skip_special)


class HuggingFaceText:
    """The tokenizer of a Hugging Face directory, by transformers."""

    def __init__(self, folder: Path) -> None:
        # transformers takes seconds to import, and a run has no need of it.
        from transformers import AutoTokenizer

        try:
            self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise DataError(
                f"{folder}: no tokenizer that transformers can read ({error})"
            ) from None
        if self.tokenizer.mask_token_id is None:
            raise DataError(f"{folder}: its tokenizer has no mask token, so there are no blanks")

    @property
    def mask(self) -> str:
        """How this tokenizer writes a blank."""
        return self.tokenizer.mask_token

    @property
    def mask_id(self) -> int:
        """The id of a blank."""
        return self.tokenizer.mask_token_id

    @property
    def pad_id(self) -> int:
        """The id of padding."""
        return self.tokenizer.pad_token_id

    def row(self, text: str) -> tuple[list[int], list[int]]:
        """(ids, segments) as the tokenizer makes them."""
        ids = self.tokenizer(text, verbose=False)["input_ids"]
        return ids, [0] * len(ids)

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """The text of ids, as the tokenizer writes it."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=skip_special)
