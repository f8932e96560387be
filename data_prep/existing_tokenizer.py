"""Taking a tokenizer that is there, instead of training one."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from data_prep.config import TokenizerTraining
from mlmdist.errors import ConfigError, DataError
from mlmdist.files import AnyPath, place
from mlmdist.tokenizer import META_NAME, MODEL_NAME, SPECIAL_TOKENS, Tokenizer, load_tokenizer
from mlmdist.tokenizer.word_piece import (
    PREFIX,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    UNUSED,
    VOCAB_TXT,
    WordPieceTokenizer,
)

log = logging.getLogger(__name__)


def take_tokenizer(config: TokenizerTraining) -> Tokenizer:
    """The tokenizer at `config.path`, checked.

    `unigram` and `bpe` take a folder that this program wrote; `wordpiece` takes one too, or a
    Hugging Face directory, or a vocab.txt. Raises ConfigError if there is nothing there or the kind
    does not fit, DataError if the tokenizer cannot be BERT's.
    """
    if config.path is None:
        raise ConfigError(
            "tokenizer.kind=wordpiece trains nothing: set tokenizer.path to a Hugging Face "
            "directory or a vocab.txt"
        )
    path = place(config.path)
    if not path.exists():
        raise ConfigError(f"tokenizer.path={config.path}: there is no such file or folder")
    is_ours = path.is_dir() and (path / META_NAME).is_file()
    if config.kind == "wordpiece":
        if path.is_dir() and (path / MODEL_NAME).is_file():
            raise ConfigError(
                f"tokenizer.path={config.path}: a SentencePiece tokenizer; set tokenizer.kind to "
                "unigram or bpe to take it"
            )
        tokenizer = load_tokenizer(path) if is_ours else _read_word_piece(path)
    elif not is_ours or not (path / MODEL_NAME).is_file():
        raise ConfigError(
            f"tokenizer.path={config.path}: no SentencePiece tokenizer of this program "
            f"({MODEL_NAME}, {META_NAME}); for a Hugging Face BERT set tokenizer.kind=wordpiece"
        )
    else:
        tokenizer = load_tokenizer(path)
    log.info("tokenizer taken from %s: %d pieces", config.path, len(tokenizer.pieces))
    return tokenizer


def _read_word_piece(path: AnyPath) -> WordPieceTokenizer:
    """A WordPiece tokenizer from a Hugging Face directory or a vocab.txt."""
    folder, listed = (path, path / VOCAB_TXT) if path.is_dir() else (path.parent, path)
    settings = _read_json(folder / TOKENIZER_CONFIG) if path.is_dir() else {}
    pieces = _read_vocabulary(listed) if listed.is_file() else None
    if path.is_dir() and (folder / TOKENIZER_JSON).is_file():
        definition = _read_json(folder / TOKENIZER_JSON)
    elif pieces is not None:
        definition = _definition(pieces, settings, str(path))
    else:
        raise DataError(
            f"{path}: neither {TOKENIZER_JSON} nor {VOCAB_TXT} is there; give a Hugging Face "
            "directory with one of them"
        )
    try:
        tokenizer = WordPieceTokenizer(
            definition | {"truncation": None, "padding": None}, _settings(definition, settings)
        )
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:  # `tokenizers` raises nothing more special
        raise DataError(f"{path}: `tokenizers` cannot read it ({error})") from None
    if pieces is not None and pieces != tokenizer.pieces:
        raise DataError(
            f"{path}: {VOCAB_TXT} and {TOKENIZER_JSON} hold different vocabularies; remove the "
            "wrong one"
        )
    return tokenizer


def _read_json(path: AnyPath) -> dict[str, Any]:
    """The JSON object in a file; nothing if there is none. Raises DataError if it is damaged."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: must be a JSON object")
    return value


def _read_vocabulary(path: AnyPath) -> list[str]:
    """The pieces of a vocab.txt, a line each; raises DataError naming the line that is wrong."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from None
    if text.startswith("\ufeff"):
        raise DataError(f"{path}: starts with a byte-order mark; save it as UTF-8 without one")
    if "\r" in text:
        line = text[: text.index("\r")].count("\n") + 1
        raise DataError(
            f"{path}, line {line}: a carriage return; save the file with Unix line ends (LF)"
        )
    pieces = text.removesuffix("\n").split("\n")
    seen: dict[str, int] = {}
    for number, piece in enumerate(pieces, 1):
        if not piece:
            raise DataError(f"{path}, line {number}: empty; each line must hold a piece")
        if piece in seen:
            raise DataError(f"{path}, line {number}: {piece!r} stands in line {seen[piece]} too")
        seen[piece] = number
    return pieces


def _definition(pieces: list[str], settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The tokenizer.json of a vocabulary that came without one."""
    lowercase = settings.get("do_lower_case")
    if lowercase is None:
        shown = [piece for piece in pieces if piece not in SPECIAL_TOKENS]
        lowercase = not any(p != p.lower() for p in shown if not UNUSED.fullmatch(p))
        log.info(
            "%s does not say whether it keeps capitals; by its pieces it is %s",
            where,
            "uncased" if lowercase else "cased",
        )
    ids = {piece: token for token, piece in enumerate(pieces)}
    special = [name for name in SPECIAL_TOKENS if name in ids]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(name, ids[name]) for name in special],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": settings.get("tokenize_chinese_chars", True),
            "strip_accents": settings.get("strip_accents"),
            "lowercase": lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": _post_processor(ids),
        "decoder": {"type": "WordPiece", "prefix": PREFIX, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": PREFIX,
            "max_input_chars_per_word": 100,
            "vocab": ids,
        },
    }


def _added_token(name: str, token: int) -> dict[str, Any]:
    marks = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token, "content": name, **marks, "special": True}


def _post_processor(ids: Mapping[str, int]) -> dict[str, Any]:
    """[CLS] A [SEP] in segment 0, B [SEP] in segment 1."""

    def step(kind: str, name: str, segment: int) -> dict[str, Any]:
        return {kind: {"id": name, "type_id": segment}}

    first = [
        step("SpecialToken", "[CLS]", 0),
        step("Sequence", "A", 0),
        step("SpecialToken", "[SEP]", 0),
    ]
    second = [step("Sequence", "B", 1), step("SpecialToken", "[SEP]", 1)]
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": first + second,
        "special_tokens": {
            name: {"id": name, "ids": [ids.get(name, 0)], "tokens": [name]}
            for name in ("[CLS]", "[SEP]")
        },
    }


def _settings(definition: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The tokenizer_config.json: as given, but saying what the definition does."""
    normalizer = definition.get("normalizer") or {}
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    defaults = {"tokenizer_class": "BertTokenizer", "model_max_length": 512}
    return {
        **defaults,
        **settings,
        **dict(zip(names, SPECIAL_TOKENS, strict=True)),
        "do_lower_case": normalizer.get("lowercase", True),
        "strip_accents": normalizer.get("strip_accents"),
        "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
    }
