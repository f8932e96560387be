"""Training a SentencePiece tokenizer whose ids 0 to 4 are BERT's special tokens."""

import io
import re
from collections.abc import Iterable, Iterator

import sentencepiece

from data_prep.config import TokenizerTraining
from data_prep.documents import Document
from mlmdist.errors import ConfigError, DataError
from mlmdist.files import AnyPath
from mlmdist.rng import hash64
from mlmdist.tokenizer import SPECIAL_TOKENS, SentencePieceTokenizer, normalize, save_tokenizer

MAX_LINE_BYTES = 4192  # SentencePiece leaves out longer lines without a word
SHARE_UNIT = 1 << 32


def train_tokenizer(
    documents: Iterable[Document], num_chars: int, config: TokenizerTraining, folder: AnyPath
) -> SentencePieceTokenizer:
    """A tokenizer trained on `documents` (`num_chars` characters in all), written to `folder`.

    One thread: with more, the order of equal pieces depends on their number. Raises ConfigError if
    the text cannot give so many pieces, DataError if there is no text.
    """
    pad, unk, cls, sep, mask = SPECIAL_TOKENS
    model = io.BytesIO()  # a file's name would become part of the model's bytes
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_lines(documents, num_chars, config),
            model_writer=model,
            model_type=config.kind,
            vocab_size=config.vocab_size,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization_rule_name="identity",
            split_digits=True,
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            pad_piece=pad,
            unk_piece=unk,
            bos_piece=cls,
            eos_piece=sep,
            control_symbols=[mask],
            max_sentence_length=MAX_LINE_BYTES,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _explained(error, config) from None
    tokenizer = SentencePieceTokenizer(
        sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    )
    save_tokenizer(tokenizer, folder)
    return tokenizer


def _explained(error: RuntimeError, config: TokenizerTraining) -> Exception:
    """SentencePiece's error as one that says what to do."""
    reason = str(error)
    if most := re.search(r"value <= (\d+)", reason):
        return ConfigError(
            f"tokenizer.vocab_size={config.vocab_size}: the text gives at most {most[1]} pieces; "
            "ask for less, or give more text"
        )
    if "smaller than required" in reason:
        least = re.search(r"vs (\d+)", reason)
        return ConfigError(
            f"tokenizer.vocab_size={config.vocab_size}: too few for the characters of the text"
            f"{f', which need {least[1]}' if least else ''}; ask for more, or for a smaller "
            "tokenizer.character_coverage"
        )
    return DataError(f"SentencePiece cannot be trained: {' '.join(reason.split())}")


def _lines(
    documents: Iterable[Document], num_chars: int, config: TokenizerTraining
) -> Iterator[str]:
    """The paragraphs of the sample, in pieces that SentencePiece takes."""
    given = 0
    for document in sample(documents, num_chars, config):
        for paragraph in document.paragraphs:
            for piece in _pieces(normalize(paragraph)):
                given += 1
                yield piece
    if not given:
        raise DataError("the cleaned documents hold no text: nothing to train a tokenizer on")


def sample(
    documents: Iterable[Document], num_chars: int, config: TokenizerTraining
) -> Iterator[Document]:
    """The documents chosen by hash, of about `config.sample_chars` of the `num_chars` in all."""
    chosen_below = SHARE_UNIT * min(config.sample_chars, num_chars) // max(num_chars, 1)
    for document in documents:
        if hash64("tokenizer.sample", config.seed, document.id) % SHARE_UNIT < chosen_below:
            yield document


def _pieces(text: str) -> Iterator[str]:
    """The text in runs of at most MAX_LINE_BYTES, cut at spaces where there are some."""
    limit = MAX_LINE_BYTES // 4  # a character is at most four bytes
    while len(text) > limit:
        space = text.rfind(" ", 1, limit)
        end = space if space > 0 else limit
        yield text[:end]
        text = text[end:].lstrip(" ")
    if text:
        yield text
