"""Text in and out of a model, whichever tokenizer it came with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from mlmdist.errors import DataError
from mlmdist.tokenizer import (
    CLS_ID,
    MASK_ID,
    PAD_ID,
    SEP_ID,
    SPACE,
    SPECIAL_TOKENS,
    Tokenizer,
    normalize,
)

MASK = SPECIAL_TOKENS[MASK_ID]


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


class SentencePieceText:
    """The tokenizer of a run. [MASK] is a blank here; no other name in text is special (law W3)."""

    mask = MASK
    mask_id = MASK_ID
    pad_id = PAD_ID

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.processor = _as_it_stands(tokenizer.processor)
        self.specials = dict(enumerate(SPECIAL_TOKENS))

    def row(self, text: str) -> tuple[list[int], list[int]]:
        """(ids, segments) of [CLS] text [SEP]; a blank takes the space before it with it."""
        before, *after = normalize(text).split(MASK)
        ids = [CLS_ID, *self._part(f" {before}" if before else "", blank_follows=bool(after))]
        for number, part in enumerate(after, 1):
            ids += [MASK_ID, *self._part(part, blank_follows=number < len(after))]
        ids.append(SEP_ID)
        return ids, [0] * len(ids)

    def _part(self, part: str, *, blank_follows: bool) -> list[int]:
        return self.processor.encode(part.rstrip() if blank_follows else part)

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """The text of ids, as `tokenizer.json`'s decoder writes it."""
        kept = [int(token) for token in ids if not (skip_special and token in self.specials)]
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


def _as_it_stands(
    processor: sentencepiece.SentencePieceProcessor,
) -> sentencepiece.SentencePieceProcessor:
    """The same model without the space that it puts before a text: parts of a text have none."""
    proto: Any = sentencepiece_model_pb2  # its classes are made at run time
    model = proto.ModelProto.FromString(processor.serialized_model_proto())
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())


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
