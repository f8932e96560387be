"""Our BERT is the published one, and law L2: padding and neighbours change no logit."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from mlmdist.config.model import Model
from mlmdist.model.bert import Bert
from mlmdist.model.huggingface import from_huggingface
from mlmdist.model.loss import loss_sums
from mlmdist.model.stream import IGNORED, Stream
from tests.model.reference import SHAPE, VOCAB_SIZE, padded, pair, random_stream

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}
lengths = st.lists(st.integers(2, 60), min_size=1, max_size=9)
dtypes = pytest.mark.parametrize("dtype", TOLERANCES)


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Largest difference over the largest value."""
    return float(((ours - theirs).abs().max() / theirs.abs().max()).detach())


@dtypes
@settings(max_examples=25, deadline=None)
@given(lengths=lengths, seed=st.integers(0, 1000))
def test_logits_of_ragged_rows_equal_transformers(dtype, lengths, seed):
    theirs, ours = pair(dtype)
    stream = random_stream(lengths, seed)
    with torch.no_grad():
        expected = theirs(**padded(stream))
        heads = ours(stream)
        hidden = ours.encode(stream)
    is_token = padded(stream)["attention_mask"].bool()
    their_logits = expected.prediction_logits[is_token][stream.masked_index]
    assert relative(heads.mlm_logits, their_logits) < TOLERANCES[dtype]
    assert relative(heads.pair_logits, expected.seq_relationship_logits) < TOLERANCES[dtype]
    their_hidden = theirs.bert(**encoder_arguments(stream)).last_hidden_state[is_token]
    assert relative(hidden, their_hidden) < TOLERANCES[dtype]


def encoder_arguments(stream: Stream) -> dict[str, torch.Tensor]:
    arguments = padded(stream)
    return {name: arguments[name] for name in ("input_ids", "token_type_ids", "attention_mask")}


@dtypes
@settings(max_examples=15, deadline=None)
@given(lengths=lengths, seed=st.integers(0, 1000))
def test_losses_and_every_gradient_equal_transformers(dtype, lengths, seed):
    theirs, ours = pair(dtype)
    theirs.zero_grad()
    ours.zero_grad()
    stream = random_stream(lengths, seed)
    expected = theirs(**padded(stream))
    expected.loss.backward()
    sums = loss_sums(ours(stream), stream.labels, stream.pair_labels)
    mlm, pairs = sums.mlm_sum / sums.mlm_count, sums.pair_sum / sums.pair_count
    (mlm + pairs).backward()
    tolerance = TOLERANCES[dtype]
    flat = padded(stream)["labels"].flatten()
    their_mlm = functional.cross_entropy(expected.prediction_logits.flatten(0, 1), flat)
    assert relative(mlm, their_mlm) < tolerance
    assert relative(pairs, expected.loss - their_mlm) < 10 * tolerance
    assert_gradients_equal(theirs, ours, tolerance)


def assert_gradients_equal(theirs, ours, tolerance):
    """Each gradient to within the tolerance of the model's whole gradient (keys' biases have 0)."""
    named = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    converted = from_huggingface(named, list(ours.state_dict()))
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    assert converted.keys() == gradients.keys()
    for name, gradient in gradients.items():
        scale = converted[name].abs().max().clamp_min(1e-3)
        assert float((gradient - converted[name]).abs().max() / scale) < tolerance, name


@dtypes
@settings(max_examples=25, deadline=None)
@given(lengths=lengths, row=st.integers(2, 60), seed=st.integers(0, 1000))
def test_l2_padding_and_neighbours_change_no_logit(dtype, lengths, row, seed):
    _, ours = pair(dtype)
    alone = random_stream([row], seed)
    others = random_stream(lengths, seed + 1)
    with torch.no_grad():
        expected = ours(alone)
        for before in (0, len(lengths) // 2, len(lengths)):
            heads = ours(among(alone, others, before))
            tolerance = TOLERANCES[dtype]
            assert relative(heads.mlm_logits, expected.mlm_logits) < tolerance
            assert relative(heads.pair_logits[before], expected.pair_logits[0]) < tolerance


def among(alone: Stream, others: Stream, before: int) -> Stream:
    """The row of `alone` between `others`, asked where it was asked before."""
    rows = [*rows_of(others)[:before], *rows_of(alone), *rows_of(others)[before:]]
    start = int(others.cu_lengths[before])
    return Stream.from_rows(rows, (alone.masked_index + start).tolist())


def rows_of(stream: Stream) -> list[tuple[list[int], list[int]]]:
    lengths = stream.cu_lengths.diff().tolist()
    tokens, segments = stream.tokens.split(lengths), stream.segments.split(lengths)
    return [(a.tolist(), b.tolist()) for a, b in zip(tokens, segments, strict=True)]


def test_logits_in_bf16_are_near_those_in_fp32():
    _, ours = pair(torch.float32)
    half = Bert(SHAPE, VOCAB_SIZE).eval()
    half.load_state_dict(ours.state_dict())
    half.to(torch.bfloat16)
    stream = random_stream([40, 31, 7, 2], 3)
    with torch.no_grad():
        assert relative(half(stream).mlm_logits.float(), ours(stream).mlm_logits) < 5e-2
    sums = loss_sums(half(stream), stream.labels, stream.pair_labels)
    assert sums.mlm_sum.dtype == torch.float32


def test_dropout_changes_training_and_not_evaluation():
    shape = Model(num_layers=1, width=16, num_heads=2, max_positions=64)
    model = Bert(shape, VOCAB_SIZE)
    stream = random_stream([20, 9], 1)
    torch.manual_seed(0)
    first, second = model(stream).mlm_logits, model(stream).mlm_logits
    torch.manual_seed(0)
    again = model(stream).mlm_logits
    model.eval()
    assert not torch.equal(first, second)
    assert torch.equal(first, again)
    assert torch.equal(model(stream).mlm_logits, model(stream).mlm_logits)


def test_initial_weights_depend_on_seed_and_name_alone():
    first, same, other = (Bert(SHAPE, VOCAB_SIZE, seed).state_dict() for seed in (7, 7, 8))
    deeper = Bert(SHAPE.model_copy(update={"num_layers": 3}), VOCAB_SIZE, 7).state_dict()
    matrices = [name for name, value in first.items() if value.ndim == 2]
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert all(torch.equal(first[name], deeper[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in matrices)


def test_initial_weights_are_berts():
    for name, value in Bert(SHAPE, VOCAB_SIZE).state_dict().items():
        if value.ndim == 2 and value.numel() > 1000:
            assert float(value.std()) == pytest.approx(0.02, rel=0.1), name
            assert abs(float(value.mean())) < 0.002, name
        elif value.ndim == 1:
            assert value.unique().tolist() == [float(name.endswith("norm.weight"))], name


def test_from_rows_asks_for_nothing_to_learn():
    stream = Stream.from_rows([([2, 9, 3], [0, 0, 0]), ([2, 3], [0, 1])], [1])
    assert stream.cu_lengths.tolist() == [0, 3, 5]
    assert stream.positions.tolist() == [0, 1, 2, 0, 1]
    assert stream.max_length == 3
    assert stream.labels.tolist() == [IGNORED]
    assert stream.pair_labels.tolist() == [IGNORED, IGNORED]
