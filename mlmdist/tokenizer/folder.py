"""The tokenizer folder: what is in it, how it is read and written.

- meta.json: kind, hash, number of pieces, special ids
- tokenizer.model: SentencePiece's model (kind sentencepiece)
- tokenizer.json, vocab.txt, tokenizer_config.json: as Hugging Face has them (kind wordpiece)
- new_rows.json: {id: [ids the word had before]} of domain words, if there are some (wordpiece)
"""

import json
from functools import lru_cache
from typing import Any

import sentencepiece

from mlmdist.errors import DataError
from mlmdist.files import AnyPath, write_bytes, write_json
from mlmdist.tokenizer.base import Tokenizer
from mlmdist.tokenizer.sentence_piece import MODEL_NAME, SentencePieceTokenizer
from mlmdist.tokenizer.vocabulary import META_NAME
from mlmdist.tokenizer.word_piece import (
    NEW_ROWS,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    VOCAB_TXT,
    WordPieceTokenizer,
)


def load_tokenizer(folder: AnyPath) -> Tokenizer:
    """The tokenizer in `folder`; raises DataError if it is missing, damaged or another.

    A process that loads the same tokenizer again gets the same object, with the words that it
    remembers.
    """
    path = folder / MODEL_NAME
    is_wordpiece = not path.is_file() and (folder / TOKENIZER_JSON).is_file()
    path = folder / TOKENIZER_JSON if is_wordpiece else path
    if not path.is_file():
        raise DataError(
            f"{folder}: no {MODEL_NAME}; `python -m data_prep tokenizer --config F` makes one"
        )
    try:
        recorded = json.loads((folder / META_NAME).read_bytes())["hash"]
        if is_wordpiece:
            rows = folder / NEW_ROWS
            tokenizer = _word_piece(
                path.read_bytes(),
                (folder / TOKENIZER_CONFIG).read_bytes(),
                rows.read_bytes() if rows.is_file() else b"{}",
            )
        else:
            tokenizer = _sentence_piece(path.read_bytes())
    except (RuntimeError, OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a tokenizer that can be read ({error})") from None
    if tokenizer.hash != recorded:
        raise DataError(
            f"{path}: its pieces hash to {tokenizer.hash[:12]}, {META_NAME} says "
            f"{recorded[:12]}; copy both files from the place where they were made"
        )
    return tokenizer


@lru_cache(maxsize=1)
def _sentence_piece(model: bytes) -> Tokenizer:
    return SentencePieceTokenizer(sentencepiece.SentencePieceProcessor(model_proto=model))


@lru_cache(maxsize=1)
def _word_piece(definition: bytes, settings: bytes, new_rows: bytes) -> Tokenizer:
    rows = {int(token): old for token, old in json.loads(new_rows).items()}
    return WordPieceTokenizer(json.loads(definition), json.loads(settings), rows)


def save_tokenizer(tokenizer: Tokenizer, folder: AnyPath) -> None:
    """Write the tokenizer's folder; the same tokenizer gives the same bytes. meta.json is last."""
    for name, data in tokenizer_files(tokenizer).items():
        write_bytes(folder / name, data)
    meta = {
        "kind": tokenizer.kind,
        "hash": tokenizer.hash,
        "vocab_size": tokenizer.vocabulary.size,
        "special_ids": tokenizer.vocabulary.special_names,
    }
    write_json(folder / META_NAME, meta)


def tokenizer_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """The files that hold the tokenizer itself, by name."""
    if isinstance(tokenizer, SentencePieceTokenizer):
        return {MODEL_NAME: tokenizer.processor.serialized_model_proto()}
    assert isinstance(tokenizer, WordPieceTokenizer)
    files = {
        TOKENIZER_JSON: _json(tokenizer.definition),
        VOCAB_TXT: "".join(f"{piece}\n" for piece in tokenizer.pieces).encode(),
        TOKENIZER_CONFIG: _json(tokenizer.settings),
    }
    if tokenizer.new_rows:
        files[NEW_ROWS] = _json({str(token): old for token, old in tokenizer.new_rows.items()})
    return files


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()
