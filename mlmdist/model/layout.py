"""Where attention finds its rows: the stream sorted by length, in groups of similar rows.

Linear layers work on the stream itself and see no padding. Attention multiplies rows with
themselves, so it takes a group of rows at a time, padded to the group's longest; a group's shortest
row has at least `MIN_FILL` of that length, so that little is computed in vain.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int32, Int64
from torch import Tensor
from torch.nn import functional

MIN_FILL = 0.75


@dataclass(frozen=True)
class Group:
    """Rows next to one another in the sorted stream: its tokens from `start` to `stop`."""

    start: int
    stop: int
    num_rows: int
    length: int
    """Tokens of the group's longest row."""

    slots: Int64[Tensor, "tokens"] | None
    """Place of each token in the padded rows; None if all rows have the same length."""

    is_token: Bool[Tensor, "rows 1 1 length"] | None
    """False at padding; None if there is none."""


@dataclass(frozen=True)
class Layout:
    """A permutation of the stream that brings rows of similar length together."""

    order: Int64[Tensor, "total"]
    """Place in the caller's stream of each token of the sorted stream."""

    place: Int64[Tensor, "total"]
    """The inverse: place in the sorted stream of each of the caller's tokens."""

    first: Int64[Tensor, "rows"]
    """Place in the sorted stream of each of the caller's rows' first token, [CLS]."""

    groups: tuple[Group, ...]

    cu_lengths: Int32[Tensor, "rows_plus_1"]
    """Where the sorted stream's rows start, and its end."""

    max_length: int
    """Tokens of the longest row."""


def arrange(cu_lengths: Int32[Tensor, "rows_plus_1"]) -> Layout:
    """The layout of rows that start at `cu_lengths`; the same for the same lengths."""
    device = cu_lengths.device
    starts = cu_lengths.long().cpu()
    lengths = starts.diff()
    rows = lengths.argsort(descending=True, stable=True)
    sorted_lengths = lengths[rows]
    sorted_starts = sorted_lengths.cumsum(0) - sorted_lengths
    within = torch.arange(int(starts[-1])) - sorted_starts.repeat_interleave(sorted_lengths)
    order = starts[:-1][rows].repeat_interleave(sorted_lengths) + within
    place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
    return Layout(
        order=order.to(device),
        place=place.to(device),
        first=place[starts[:-1]].to(device),
        groups=tuple(_groups(sorted_lengths, within, device)),
        cu_lengths=functional.pad(sorted_lengths.cumsum(0), (1, 0)).int().to(device),
        max_length=int(sorted_lengths[0]),
    )


def _groups(
    lengths: Int64[Tensor, "rows"], within: Int64[Tensor, "total"], device: torch.device
) -> Iterator[Group]:
    """Cut rows of descending length where they fall under `MIN_FILL` of their group's longest."""
    values = lengths.tolist()
    row = start = 0
    while row < len(values):
        end = row
        while end < len(values) and values[end] >= MIN_FILL * values[row]:
            end += 1
        stop = start + sum(values[row:end])
        yield _group(lengths[row:end], within[start:stop], start, device)
        row, start = end, stop


def _group(
    lengths: Int64[Tensor, "rows"],
    within: Int64[Tensor, "tokens"],
    start: int,
    device: torch.device,
) -> Group:
    longest, stop = int(lengths[0]), start + len(within)
    if len(within) == longest * len(lengths):
        return Group(start, stop, len(lengths), longest, None, None)
    rows = torch.arange(len(lengths)).repeat_interleave(lengths)
    is_token = torch.arange(longest) < lengths[:, None]  # [rows, length]
    return Group(
        start=start,
        stop=stop,
        num_rows=len(lengths),
        length=longest,
        slots=(rows * longest + within).to(device),
        is_token=is_token[:, None, None, :].to(device),
    )
