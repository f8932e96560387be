"""A SentencePiece tokenizer as `tokenizer.json`: the same ids, with nothing of ours installed.

What `tokenizers` does differently is put right here. Its unigram model matches the names of special
and byte pieces in text, which SentencePiece never does, so they get scores that always lose. Its
BPE wants merges, which follow from the pieces and their ranks.
"""

import re
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from mlmdist.errors import DataError
from mlmdist.tokenizer import SPACE, SPECIAL_TOKENS, SentencePieceTokenizer
from mlmdist.tokenizer.sentence_piece import UNK_ID

proto: Any = sentencepiece_model_pb2  # its classes are made at run time
Piece = proto.ModelProto.SentencePiece
TrainerSpec = proto.TrainerSpec
WHITESPACE = "".join(map(chr, filter(lambda code: chr(code).isspace(), range(0x110000))))
"""What Python's `str.split` splits at: more than the regular expression \\s is elsewhere."""

LOSING_FACTOR = 8
"""A special piece's name has at most 6 characters: worse than 8 times the worst piece loses."""


def tokenizer_json(tokenizer: SentencePieceTokenizer) -> dict[str, Any]:
    """The content of tokenizer.json.

    Raises DataError for a SentencePiece model that `tokenizers` cannot follow.
    """
    model = proto.ModelProto.FromString(tokenizer.processor.serialized_model_proto())
    _check(model)
    is_unigram = model.trainer_spec.model_type == TrainerSpec.UNIGRAM
    has_bytes = any(piece.type == Piece.BYTE for piece in model.pieces)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(token) for token in range(len(SPECIAL_TOKENS))],
        "normalizer": _normalizer(),
        "pre_tokenizer": _pre_tokenizer(model.pieces, is_unigram=is_unigram),
        "post_processor": _post_processor(),
        "decoder": _decoder(has_bytes=has_bytes, is_unigram=is_unigram),
        "model": (_unigram if is_unigram else _bpe)(model.pieces, has_bytes=has_bytes),
    }


def _check(model: Any) -> None:
    """Refuse what the recipe does not cover."""
    normalizer, trainer = model.normalizer_spec, model.trainer_spec
    if trainer.model_type not in (TrainerSpec.UNIGRAM, TrainerSpec.BPE):
        raise DataError("the SentencePiece model is of kind word or char; must be unigram or bpe")
    rules = {
        "normalization_rule_name": (normalizer.name, "identity"),
        "add_dummy_prefix": (normalizer.add_dummy_prefix, True),
        "treat_whitespace_as_suffix": (trainer.treat_whitespace_as_suffix, False),
    }
    for name, (given, wanted) in rules.items():
        if given != wanted:
            raise DataError(f"the SentencePiece model has {name}={given!r}; must be {wanted!r}")
    for piece in model.pieces:
        if piece.type in (Piece.USER_DEFINED, Piece.UNUSED):
            raise DataError(f"the SentencePiece piece {piece.piece!r} is user-defined or unused")


def _unigram(pieces: Any, *, has_bytes: bool) -> dict[str, Any]:
    worst = min(piece.score for piece in pieces if piece.type == Piece.NORMAL)
    losing = LOSING_FACTOR * worst
    scores = [piece.score if piece.type == Piece.NORMAL else losing for piece in pieces]
    vocabulary = [[piece.piece, score] for piece, score in zip(pieces, scores, strict=True)]
    return {"type": "Unigram", "unk_id": UNK_ID, "vocab": vocabulary, "byte_fallback": has_bytes}


def _bpe(pieces: Any, *, has_bytes: bool) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": SPECIAL_TOKENS[UNK_ID],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": has_bytes,
        "ignore_merges": False,
        "vocab": {piece.piece: token for token, piece in enumerate(pieces)},
        "merges": _merges(pieces),
    }


def _merges(pieces: Any) -> list[list[str]]:
    """Every way to join two pieces into a third, best joined piece first, longer left part first.

    SentencePiece joins wherever the result is the best piece in sight, however it is made up.
    """
    ranks = {piece.piece: piece.score for piece in pieces if piece.type == Piece.NORMAL}
    return [
        [piece[:cut], piece[cut:]]
        for piece in sorted(ranks, key=lambda piece: -ranks[piece])
        for cut in range(len(piece) - 1, 0, -1)
        if piece[:cut] in ranks and piece[cut:] in ranks
    ]


def _added_token(token: int) -> dict[str, Any]:
    """A special token; [MASK] is sought in the normalised text and takes the space before it."""
    is_mask = SPECIAL_TOKENS[token] == "[MASK]"
    return {
        "id": token,
        "content": SPECIAL_TOKENS[token],
        "single_word": False,
        "lstrip": is_mask,
        "rstrip": False,
        "normalized": is_mask,
        "special": True,
    }


def _normalizer() -> dict[str, Any]:
    """What `mlmdist.tokenizer.normalize` does.

    A leading space stays: `_metaspace` puts a mark in front only where the text's first character
    still is the first, and takes this space for the mark otherwise.
    """
    replacements = {
        f"[{WHITESPACE}{SPACE}]+": " ",
        " \\z": "",
    }
    steps = [
        {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}
        for pattern, content in replacements.items()
    ]
    return {"type": "Sequence", "normalizers": [{"type": "NFKC"}, *steps]}


def _pre_tokenizer(pieces: Any, *, is_unigram: bool) -> dict[str, Any]:
    """Spaces to marks, and no special name left whole that unknown characters would lose to."""
    metaspace = _metaspace(split=is_unigram)
    steps = _breaks(pieces) if is_unigram else []
    if not steps:
        return metaspace
    return {"type": "Sequence", "pretokenizers": [metaspace, *steps]}


def _breaks(pieces: Any) -> list[dict[str, Any]]:
    """Splits of special names that hold unknown characters, changing no other id.

    As a piece, such a name would beat its own unknown characters at any score. Between an unknown
    and a known character every segmentation has a boundary, so there the text may be split. A name
    unknown throughout has none: bytes may be split anywhere, and of an unknown stretch, which is
    one [UNK] however long, the first character is enough.
    """
    known = {piece.piece for piece in pieces if piece.type == Piece.NORMAL}
    has_bytes = any(piece.type == Piece.BYTE for piece in pieces)
    split, removed = [], []
    for name in (piece.piece for piece in pieces if piece.type != Piece.NORMAL):
        cut = _boundary(name, known)
        if cut is None and known.isdisjoint(name):
            (split if has_bytes else removed).append((name[:1], name[1:]))
        elif cut is not None:
            split.append((name[:cut], name[cut:]))
    steps = []
    if split:
        names = [f"{re.escape(head)}(?={re.escape(tail)})" for head, tail in split]
        steps.append(_split("|".join(names), "MergedWithPrevious"))
    if removed:
        stretch = f"[^{_character_class(known | {SPACE})}]*"
        names = [f"(?<={re.escape(head)}){re.escape(tail)}{stretch}" for head, tail in removed]
        steps.append(_split("|".join(names), "Removed"))
    return steps


def _boundary(name: str, known: set[str]) -> int | None:
    """The first place in `name` between an unknown and a known character."""
    places = range(1, len(name))
    return next((cut for cut in places if (name[cut - 1] in known) != (name[cut] in known)), None)


def _character_class(pieces: set[str]) -> str:
    """The pieces of one character, as the inside of a regular expression's brackets."""
    return "".join(f"\\x{{{ord(piece):x}}}" for piece in sorted(pieces) if len(piece) == 1)


def _split(pattern: str, behavior: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": behavior,
        "invert": False,
    }


def _metaspace(*, split: bool) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": split}


def _decoder(*, has_bytes: bool, is_unigram: bool) -> dict[str, Any]:
    if not has_bytes:
        return _metaspace(split=is_unigram)
    steps = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    return {"type": "Sequence", "decoders": steps}


def _post_processor() -> dict[str, Any]:
    """[CLS] A [SEP] in segment 0, B [SEP] in segment 1."""

    def special(name: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": segment}}

    def text(name: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    single = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)]
    ids = {name: SPECIAL_TOKENS.index(name) for name in ("[CLS]", "[SEP]")}
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, text("B", 1), special("[SEP]", 1)],
        "special_tokens": {
            name: {"id": name, "ids": [token], "tokens": [name]} for name, token in ids.items()
        },
    }
