"""Attention by lengths: when it is taken, and that it is the attention by groups."""

import math

import pytest
import torch
from torch import Tensor

from mlmdist.config.model import Model
from mlmdist.model import attention
from mlmdist.model.attention import suits_lengths
from mlmdist.model.bert import Bert
from mlmdist.model.loss import loss_sums
from tests.model.reference import VOCAB_SIZE, random_stream

LENGTHS = [31, 7, 60, 60, 2, 18, 45]
SHAPE = Model(
    num_layers=2, width=64, num_heads=4, max_positions=64, dropout=0.0, attention_dropout=0.0
)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("head_width", [8, 64, 256])
def test_bf16_and_fp16_without_dropout_go_by_lengths(dtype: torch.dtype, head_width: int) -> None:
    assert suits_lengths(dtype=dtype, head_width=head_width, dropout=0.0)


@pytest.mark.parametrize(
    ("dtype", "head_width", "dropout"),
    [
        (torch.float32, 64, 0.0),
        (torch.float64, 64, 0.0),
        (torch.bfloat16, 64, 0.1),
        (torch.bfloat16, 12, 0.0),
        (torch.bfloat16, 264, 0.0),
    ],
)
def test_all_else_goes_by_groups(dtype: torch.dtype, head_width: int, dropout: float) -> None:
    assert not suits_lengths(dtype=dtype, head_width=head_width, dropout=dropout)


def test_a_processor_goes_by_groups() -> None:
    assert not attention._has_flash(torch.device("cpu"))


def a_row_at_a_time(
    query: Tensor, key: Tensor, value: Tensor, cu_lengths: Tensor, longest: int
) -> Tensor:
    """What torch's varlen_attn is told to compute, written out."""
    assert cu_lengths.dtype == torch.int32
    assert longest == int(cu_lengths.diff().max())
    mixed = []
    for start, stop in zip(cu_lengths[:-1].tolist(), cu_lengths[1:].tolist(), strict=True):
        q, k, v = (part[start:stop].transpose(0, 1) for part in (query, key, value))
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])  # [heads, length, length]
        mixed.append((scores.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(mixed)


def gradients(model: Bert, device: str = "cpu") -> dict[str, Tensor]:
    """Every gradient of the loss over rows of many lengths, and the loss."""
    model.zero_grad()
    stream = random_stream(LENGTHS, 3).to(device)
    sums = loss_sums(model(stream), stream.labels, stream.pair_labels)
    (sums.mlm_sum + sums.pair_sum).backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {name: g.detach().float() for name, g in found.items()} | {"loss": sums.mlm_sum.detach()}


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    longest = max(float(tensor.norm()) for name, tensor in other.items() if name != "loss")
    return max(float((one[n] - other[n]).norm()) / longest for n in one if n != "loss")


def test_by_lengths_is_told_the_rows_that_groups_have(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Bert(SHAPE, VOCAB_SIZE).double()
    expected = gradients(model)
    monkeypatch.setattr(attention, "suits_lengths", lambda **_: True)
    monkeypatch.setattr(attention, "_has_flash", lambda _: True)
    monkeypatch.setattr(attention, "attend_by_lengths", a_row_at_a_time)
    assert distance(gradients(model), expected) < 1e-6


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_on_a_gpu_both_ways_are_near_the_exact_one(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = gradients(Bert(SHAPE, VOCAB_SIZE).cuda(), "cuda")
    model = Bert(SHAPE, VOCAB_SIZE).cuda().to(dtype)
    assert attention._has_flash(torch.device("cuda:0"))
    by_lengths = distance(gradients(model, "cuda"), exact)
    monkeypatch.setattr(attention, "suits_lengths", lambda **_: False)
    by_groups = distance(gradients(model, "cuda"), exact)
    assert by_lengths < 2 * by_groups + 1e-3
