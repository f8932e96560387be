"""The model's input: the rows of a micro-batch as one stream of tokens, without padding."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Int32, Int64
from torch import Tensor

IGNORED = -100  # the label of what is not predicted, as in torch's cross entropy


@dataclass(frozen=True)
class Stream:
    """Rows end to end; row r has the tokens from `cu_lengths[r]` to `cu_lengths[r + 1]`."""

    tokens: Int64[Tensor, "total"]
    segments: Int64[Tensor, "total"]
    """0 over [CLS] A [SEP], 1 over B [SEP]."""

    positions: Int64[Tensor, "total"]
    """Place of each token in its row."""

    cu_lengths: Int32[Tensor, "rows_plus_1"]
    max_length: int
    """Tokens of the longest row."""

    masked_index: Int64[Tensor, "masked"]
    """Places in the stream where the language model head is asked."""

    labels: Int64[Tensor, "masked"]
    """Ids that stood there, -100 where there is nothing to learn."""

    pair_labels: Int64[Tensor, "rows"]
    """0 true continuation or in order, 1 not, -100 none."""

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[tuple[Sequence[int], Sequence[int]]],
        masked_index: Sequence[int] = (),
    ) -> "Stream":
        """The stream of (ids, segments) rows, asked at `masked_index` (places in the stream).

        Every label is -100: this is the way in for inference.
        """
        lengths = torch.tensor([len(ids) for ids, _ in rows], dtype=torch.int64)
        flat = [token for ids, _ in rows for token in ids]
        segments = [segment for _, row in rows for segment in row]
        return cls(
            tokens=torch.tensor(flat, dtype=torch.int64),
            segments=torch.tensor(segments, dtype=torch.int64),
            positions=torch.cat([torch.arange(n) for n in lengths.tolist()]),
            cu_lengths=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int(),
            max_length=int(lengths.max()),
            masked_index=torch.tensor(masked_index, dtype=torch.int64),
            labels=torch.full((len(masked_index),), IGNORED),
            pair_labels=torch.full((len(rows),), IGNORED),
        )

    def to(self, device: torch.device | str) -> "Stream":
        """The same stream with its tensors on `device`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True)
            for name, value in values.items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)
