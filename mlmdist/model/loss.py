"""The two losses as sums and counts; who knows the whole batch divides."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from mlmdist.model.bert import Heads
from mlmdist.model.stream import IGNORED


class LossSums(NamedTuple):
    """Sums over a micro-batch. A tuple, so that whoever wraps the model finds the tensors in it."""

    mlm_sum: Float[Tensor, ""]
    """Cross entropy in nats of the masked tokens."""

    mlm_count: Int64[Tensor, ""]
    mlm_correct: Int64[Tensor, ""]
    pair_sum: Float[Tensor, ""]
    """Cross entropy in nats of the rows that have a pair label."""

    pair_count: Int64[Tensor, ""]
    pair_correct: Int64[Tensor, ""]


def loss_sums(
    heads: Heads, labels: Int64[Tensor, "masked"], pair_labels: Int64[Tensor, "rows"]
) -> LossSums:
    """Both losses over the places whose label is not -100.

    Sums are taken in fp32 (fp64 for an fp64 model). Without a label a sum is 0, never NaN, and
    still has a path to every weight, which then gets a gradient of 0 (law L1).
    """
    return LossSums(*_sums(heads.mlm_logits, labels), *_sums(heads.pair_logits, pair_labels))


def _sums(
    logits: Float[Tensor, "places classes"], labels: Int64[Tensor, "places"]
) -> tuple[Tensor, Tensor, Tensor]:
    """(cross entropy sum, how many places count, at how many the highest logit is the label's)."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    total = functional.cross_entropy(wide, labels, ignore_index=IGNORED, reduction="sum")
    correct = (wide.detach().argmax(-1) == labels).sum()  # of bf16 it takes five times as long
    return total, (labels != IGNORED).sum(), correct
