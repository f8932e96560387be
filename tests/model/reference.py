"""The published model to compare with: transformers' BertForPreTraining, with random weights."""

import functools
from typing import Any

import torch
from transformers import BertConfig, BertForPreTraining

from mlmdist.config.model import Model
from mlmdist.model.bert import Bert
from mlmdist.model.huggingface import from_huggingface
from mlmdist.model.stream import IGNORED, Stream

VOCAB_SIZE = 97
MAX_POSITIONS = 64
SHAPE = Model(
    num_layers=2,
    width=48,
    num_heads=4,
    intermediate=80,
    max_positions=MAX_POSITIONS,
    dropout=0.0,
    attention_dropout=0.0,
)


@functools.cache
def pair(dtype: torch.dtype) -> tuple[BertForPreTraining, Bert]:
    """(transformers' model, ours) with the same weights: wide ones, so that nothing is near 0."""
    theirs: Any = BertForPreTraining(their_config())
    theirs.to(dtype).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            center = 1.0 if name.endswith("LayerNorm.weight") else 0.0
            noise = torch.randn(parameter.shape, generator=generator, dtype=dtype)
            parameter.copy_(center + 0.2 * noise)
    ours = Bert(SHAPE, VOCAB_SIZE).eval().to(dtype)
    ours.load_state_dict(from_huggingface(theirs.state_dict(), list(ours.state_dict())))
    return theirs, ours


def their_config() -> BertConfig:
    return BertConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=SHAPE.width,
        num_hidden_layers=SHAPE.num_layers,
        num_attention_heads=SHAPE.num_heads,
        intermediate_size=SHAPE.feed_forward_width,
        max_position_embeddings=MAX_POSITIONS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def random_stream(lengths: list[int], seed: int, *, labelled: bool = True) -> Stream:
    """Rows of the given lengths, each in two segments, a fifth of their tokens to be predicted."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, size: int) -> torch.Tensor:
        return torch.randint(low, high, (size,), generator=generator)

    rows = []
    for length in lengths:
        cut = int(draw(1, length + 1, 1))
        ids = draw(5, VOCAB_SIZE, length).tolist()
        rows.append((ids, [0] * cut + [1] * (length - cut)))
    total = sum(lengths)
    masked = torch.randperm(total, generator=generator)[: max(1, total // 5)].sort().values
    stream = Stream.from_rows(rows, masked.tolist())
    if not labelled:
        return stream
    stream.labels.copy_(draw(5, VOCAB_SIZE, len(masked)))
    stream.pair_labels.copy_(draw(0, 2, len(lengths)))
    return stream


def padded(stream: Stream) -> dict[str, torch.Tensor]:
    """The stream as transformers' arguments: padded rows, labels in place, -100 elsewhere."""
    lengths = stream.cu_lengths.diff().tolist()
    labels = torch.full_like(stream.tokens, IGNORED)
    labels[stream.masked_index] = stream.labels

    def rows(values: torch.Tensor, fill: int) -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence(list(values.split(lengths)), True, fill)

    return {
        "input_ids": rows(stream.tokens, 0),
        "token_type_ids": rows(stream.segments, 0),
        "attention_mask": rows(torch.ones_like(stream.tokens), 0),
        "labels": rows(labels, IGNORED),
        "next_sentence_label": stream.pair_labels,
    }
