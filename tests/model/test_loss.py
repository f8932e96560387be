"""Losses as sums: what an empty micro-batch gives, and that sums add up (law L1)."""

import pytest
import torch

from mlmdist.model.loss import loss_sums
from mlmdist.model.stream import IGNORED, Stream
from tests.model.reference import pair, random_stream


def sums_of(model, stream):
    return loss_sums(model(stream), stream.labels, stream.pair_labels)


def test_l1_a_micro_batch_without_labels_gives_zero_and_zero_gradients():
    _, model = pair(torch.float32)
    model.zero_grad()
    stream = Stream.from_rows([([2, 3], [0, 0])])
    sums = sums_of(model, stream)
    (sums.mlm_sum + sums.pair_sum).backward()
    assert [float(value.detach()) for value in sums] == [0] * 6
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


def test_l1_masked_places_without_label_count_nothing():
    _, model = pair(torch.float32)
    stream = random_stream([12, 30], 1, labelled=False)
    sums = sums_of(model, stream)
    assert len(stream.masked_index)
    assert [float(value.detach()) for value in sums] == [0] * 6


def test_l1_sums_and_gradients_of_two_halves_are_those_of_the_whole():
    _, model = pair(torch.float64)
    whole = random_stream([12, 30, 7, 44], 1)
    lengths = whole.cu_lengths.diff().tolist()
    tokens, segments = whole.tokens.split(lengths), whole.segments.split(lengths)
    model.zero_grad()
    expected = sums_of(model, whole)
    (expected.mlm_sum + expected.pair_sum).backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad(set_to_none=True)
    added = [0.0] * 6
    for first, stop in ((0, 1), (1, 4)):
        start, end = whole.cu_lengths[first], whole.cu_lengths[stop]
        inside = (whole.masked_index >= start) & (whole.masked_index < end)
        rows = [(tokens[row].tolist(), segments[row].tolist()) for row in range(first, stop)]
        part = Stream.from_rows(rows, (whole.masked_index[inside] - start).tolist())
        part.labels.copy_(whole.labels[inside])
        part.pair_labels.copy_(whole.pair_labels[first:stop])
        sums = sums_of(model, part)
        (sums.mlm_sum + sums.pair_sum).backward()
        added = [total + float(value.detach()) for total, value in zip(added, sums, strict=True)]
    assert added == pytest.approx([float(value.detach()) for value in expected], rel=1e-12)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-10, atol=1e-12)


def test_counts_and_hits_are_those_of_a_plain_loop():
    _, model = pair(torch.float32)
    stream = random_stream([25, 18, 9], 6)
    stream.labels[::3] = IGNORED
    stream.pair_labels[1] = IGNORED
    heads = model(stream)
    stream.labels[1] = heads.mlm_logits[1].argmax()
    sums = loss_sums(heads, stream.labels, stream.pair_labels)
    guesses = heads.mlm_logits.argmax(-1).tolist()
    labels = stream.labels.tolist()
    assert int(sums.mlm_count) == sum(label != IGNORED for label in labels)
    assert int(sums.mlm_correct) == sum(a == b for a, b in zip(guesses, labels, strict=True)) >= 1
    assert int(sums.pair_count) == 2
    loss = -sum(
        float(heads.mlm_logits[place].detach().log_softmax(-1)[label])
        for place, label in enumerate(labels)
        if label != IGNORED
    )
    assert float(sums.mlm_sum.detach()) == pytest.approx(loss, rel=1e-5)
