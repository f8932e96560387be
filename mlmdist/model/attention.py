"""Self-attention over the unpadded stream (Vaswani et al. 2017, section 3.2)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from mlmdist.config.pretrain import Model
from mlmdist.model.layout import Group, Layout


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
        mixed = [self._attend(qkv[group.start : group.stop], group) for group in layout.groups]
        return self.out(mixed[0] if len(mixed) == 1 else torch.cat(mixed))

    def _attend(
        self, qkv: Float[Tensor, "tokens width_3"], group: Group
    ) -> Float[Tensor, "tokens width"]:
        """Attention in one group of rows.

        Plain matrix products and a softmax: three times as fast on CPU, at the lengths of
        pretraining, as torch's fused attention.
        """
        rows = pad(qkv, group).view(group.num_rows, group.length, 3, self.num_heads, -1)
        query, key, value = rows.permute(2, 0, 3, 1, 4)  # each [rows, heads, length, head_width]
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)
        if group.is_token is not None:
            scores = scores.masked_fill(~group.is_token, -math.inf)
        weights = functional.dropout(scores.softmax(-1), self.dropout, self.training)
        mixed = (weights @ value).transpose(1, 2).flatten(0, 1).flatten(1)  # [slots, width]
        return mixed if group.slots is None else mixed.index_select(0, group.slots)


def pad(tokens: Float[Tensor, "tokens width"], group: Group) -> Float[Tensor, "slots width"]:
    """The group's tokens in rows of equal length, zeros behind the shorter ones."""
    if group.slots is None:
        return tokens
    rows = tokens.new_zeros(group.num_rows * group.length, tokens.shape[-1])
    return rows.index_copy(0, group.slots, tokens)
