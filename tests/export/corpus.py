"""Small real tokenizers, trained on text that is made here."""

import functools
import io
import random
import re
from pathlib import Path

import sentencepiece

from mlmdist.config.model import Model
from mlmdist.model.bert import Bert
from mlmdist.tokenizer import SentencePieceTokenizer, Tokenizer, normalize, save_tokenizer

SYLLABLES = ["ba", "ki", "lo", "mu", "ren", "ta", "shi", "vor", "ess", "ung", "ция", "éa", "ñu"]
HAN = "南京市长江大桥建于年的一是在人有我"
MARKS = ".,;:!?()[]'\"-/%&"

HOUSE = {
    "vocab_size": 400,
    "normalization_rule_name": "identity",
    "split_digits": True,
    "pad_id": 0,
    "unk_id": 1,
    "bos_id": 2,
    "eos_id": 3,
    "pad_piece": "[PAD]",
    "unk_piece": "[UNK]",
    "bos_piece": "[CLS]",
    "eos_piece": "[SEP]",
    "control_symbols": "[MASK]",
    "num_threads": 1,
    "minloglevel": 2,
}


def text_lines(num_lines: int, seed: int) -> list[str]:
    """Sentences of made-up words with digits, marks, capitals and Han characters among them."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(300)]
    return [
        " ".join(_word(draw, words) for _ in range(draw.randint(1, 25))) for _ in range(num_lines)
    ]


def _word(draw: random.Random, words: list[str]) -> str:
    kind = draw.random()
    if kind < 0.05:
        return str(draw.randint(0, 9999))
    if kind < 0.1:
        return "".join(draw.choices(HAN, k=draw.randint(1, 6)))
    if kind < 0.2:
        return draw.choice(words).capitalize() + draw.choice(MARKS)
    if kind < 0.23:
        return draw.choice(["[", "]", "MASK", "SEP", "CLS", "PAD", "UNK", "aaaa", "----", "..."])
    return draw.choices(words, weights=range(len(words), 0, -1))[0]


@functools.cache
def train(
    kind: str, *, byte_fallback: bool = False, letters_only: bool = False
) -> SentencePieceTokenizer:
    """A tokenizer as `data_prep tokenizer` makes them, of 700 pieces and 256 bytes if asked.

    `letters_only` knows small letters and spaces alone: no character of a special token's name.
    """
    lines = text_lines(1500, 1)
    if letters_only:
        lines = [re.sub(r"[^a-z ]", "", line.lower()) for line in lines]
    size = (150 if letters_only else 700) + 256 * byte_fallback
    return train_with(lines, model_type=kind, vocab_size=size, byte_fallback=byte_fallback)


def train_with(lines: list[str] | None = None, **settings: object) -> SentencePieceTokenizer:
    """A tokenizer with other settings than the house's."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(map(normalize, lines or text_lines(1500, 1))),
        model_writer=model,
        **{**HOUSE, **settings},
    )
    return SentencePieceTokenizer(
        sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    )


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write a tokenizer folder."""
    save_tokenizer(tokenizer, folder)


SHAPE = Model(num_layers=2, width=32, num_heads=4, max_positions=96, initializer_range=0.3)


@functools.cache
def model(vocab_size: int) -> Bert:
    """A model with wide random weights, so that its answers differ."""
    return Bert(SHAPE, vocab_size, seed=3).eval()
