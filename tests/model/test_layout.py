"""The layout loses no token, and a group holds rows of similar length."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mlmdist.model.attention import pad
from mlmdist.model.layout import MIN_FILL, arrange

lengths = st.lists(st.integers(1, 200), min_size=1, max_size=40)


def starts(rows: list[int]) -> torch.Tensor:
    return torch.tensor([0, *rows]).cumsum(0).int()


@given(rows=lengths)
def test_order_and_place_are_inverse_permutations(rows):
    layout = arrange(starts(rows))
    total = torch.arange(sum(rows))
    assert torch.equal(layout.order.sort().values, total)
    assert torch.equal(layout.order[layout.place], total)
    assert layout.order[layout.first].tolist() == starts(rows)[:-1].tolist()


@given(rows=lengths)
def test_padded_rows_hold_whole_rows_and_little_padding(rows):
    layout = arrange(starts(rows))
    row_of = torch.arange(len(rows)).repeat_interleave(torch.tensor(rows))[layout.order]
    seen = []
    for group in layout.groups:
        numbered = torch.stack([row_of + 1, layout.order], 1)[group.start : group.stop]
        padded = pad(numbered.double(), group).view(group.num_rows, group.length, 2).long()
        for row, place in padded.transpose(1, 2):
            tokens = row.nonzero()[:, 0]
            (number,) = set((row[tokens] - 1).tolist())
            assert len(tokens) == rows[number] >= MIN_FILL * group.length
            assert place[tokens].diff().eq(1).all()
            seen.append(number)
        if group.is_token is not None:
            assert torch.equal(group.is_token[:, 0, 0], padded[:, :, 0] > 0)
    assert sorted(seen) == list(range(len(rows)))


def test_rows_of_one_length_are_one_group_without_padding():
    (group,) = arrange(starts([7, 7, 7])).groups
    assert (group.start, group.stop, group.num_rows, group.length) == (0, 21, 3, 7)
    assert group.slots is None
    assert group.is_token is None
