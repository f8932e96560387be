"""Self-attention over the unpadded stream (Vaswani et al. 2017, section 3.2), in one of two ways.

By lengths, where a GPU has torch's flash attention for rows of any length: nothing is padded and no
table of scores is kept (Dao 2023). By groups of rows of like length, by matrix products, elsewhere.
"""

import math
from functools import cache
from importlib.util import find_spec

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mlmdist.config.model import Model
from mlmdist.model.dropout import drop
from mlmdist.model.layout import Group, Layout

FLASH_CAPABILITY = (8, 0)  # NVIDIA's compute capability from which there is flash attention
FLASH_TYPES = (torch.bfloat16, torch.float16)
MAX_FLASH_WIDTH, FLASH_ALIGNMENT = 256, 8  # of a head


class Attention(nn.Module):
    """Each token's mix of its row's tokens; queries, keys and values come from one matrix."""

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.dropout = config.attention_dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(
        self, hidden: Float[Tensor, "total width"], layout: Layout
    ) -> Float[Tensor, "total width"]:
        """What each token takes from its row, before the residual."""
        qkv = self.qkv(hidden)
        if self._goes_by_lengths(qkv):
            return self.out(self._attend_by_lengths(qkv, layout))
        mixed = [self._attend(qkv[group.start : group.stop], group) for group in layout.groups]
        return self.out(mixed[0] if len(mixed) == 1 else torch.cat(mixed))

    def _goes_by_lengths(self, qkv: Float[Tensor, "total width_3"]) -> bool:
        """Whether this device computes this by lengths."""
        return suits_lengths(
            dtype=qkv.dtype,
            head_width=qkv.shape[-1] // (3 * self.num_heads),
            dropout=self.dropout if self.training else 0.0,
        ) and _has_flash(qkv.device)

    def _attend_by_lengths(
        self, qkv: Float[Tensor, "total width_3"], layout: Layout
    ) -> Float[Tensor, "total width"]:
        """Attention in all rows at once."""
        query, key, value = qkv.unflatten(-1, (3, self.num_heads, -1)).unbind(1)
        cu_lengths, longest = layout.cu_lengths, layout.max_length
        mixed = attend_by_lengths(query, key, value, cu_lengths, longest)
        return mixed.flatten(1)

    def _attend(
        self, qkv: Float[Tensor, "tokens width_3"], group: Group
    ) -> Float[Tensor, "tokens width"]:
        """Attention in one group of rows."""
        rows = pad(qkv, group).view(group.num_rows, group.length, 3, self.num_heads, -1)
        mixed = self.mix(rows, group.is_token)
        return mixed if group.slots is None else mixed.index_select(0, group.slots)

    def mix(
        self,
        rows: Float[Tensor, "rows length 3 heads head_width"],
        is_token: Bool[Tensor, "rows 1 1 length"] | None,
    ) -> Float[Tensor, "slots width"]:
        """Attention in rows of one length.

        Plain matrix products and a softmax: three times as fast on CPU, at the lengths of
        pretraining, as torch's fused attention.
        """
        query, key, value = rows.permute(2, 0, 3, 1, 4)  # each [rows, heads, length, head_width]
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)
        if is_token is not None:
            scores = scores.masked_fill(~is_token, -math.inf)
        weights = scores.softmax(-1)
        if self.training and self.dropout:
            weights = drop(weights, self.dropout)
        return (weights @ value).transpose(1, 2).flatten(0, 1).flatten(1)


def suits_lengths(*, dtype: torch.dtype, head_width: int, dropout: float) -> bool:
    """Whether attention by lengths computes this: it takes no fp32 and drops nothing."""
    fits = head_width <= MAX_FLASH_WIDTH and head_width % FLASH_ALIGNMENT == 0
    return dtype in FLASH_TYPES and fits and dropout == 0


@cache
def _has_flash(device: torch.device) -> bool:
    """Whether a device, and this version of torch, have flash attention for rows of any length."""
    if device.type != "cuda" or torch.version.cuda is None:
        return False
    is_new = torch.cuda.get_device_capability(device) >= FLASH_CAPABILITY
    return is_new and find_spec("torch.nn.attention.varlen") is not None


def attend_by_lengths(
    query: Float[Tensor, "total heads head_width"],
    key: Float[Tensor, "total heads head_width"],
    value: Float[Tensor, "total heads head_width"],
    cu_lengths: Tensor,
    longest: int,
) -> Float[Tensor, "total heads head_width"]:
    """Each token's mix of its row's values; rows start at `cu_lengths` (int32 [rows + 1])."""
    from torch.nn.attention.varlen import varlen_attn

    mixed = varlen_attn(query, key, value, cu_lengths, cu_lengths, longest, longest)
    assert isinstance(mixed, Tensor), "no second answer was asked for"
    return mixed


def pad(tokens: Float[Tensor, "tokens width"], group: Group) -> Float[Tensor, "slots width"]:
    """The group's tokens in rows of equal length, zeros behind the shorter ones."""
    if group.slots is None:
        return tokens
    rows = tokens.new_zeros(group.num_rows * group.length, tokens.shape[-1])
    return rows.index_copy(0, group.slots, tokens)
