"""Text to ids and back: the one door to the tokenizers of both kinds."""

from mlmdist.tokenizer.base import Tokenizer
from mlmdist.tokenizer.folder import load_tokenizer, save_tokenizer, tokenizer_files
from mlmdist.tokenizer.sentence_piece import MODEL_NAME, SentencePieceTokenizer
from mlmdist.tokenizer.text import SPACE, normalize
from mlmdist.tokenizer.vocabulary import (
    META_NAME,
    NUM_SPECIAL_POSITIONS,
    SPECIAL_TOKENS,
    Encoded,
    Vocabulary,
)
from mlmdist.tokenizer.word_piece import WordPieceTokenizer

__all__ = [
    "META_NAME",
    "MODEL_NAME",
    "NUM_SPECIAL_POSITIONS",
    "SPACE",
    "SPECIAL_TOKENS",
    "Encoded",
    "SentencePieceTokenizer",
    "Tokenizer",
    "Vocabulary",
    "WordPieceTokenizer",
    "load_tokenizer",
    "normalize",
    "save_tokenizer",
    "tokenizer_files",
]
