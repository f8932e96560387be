"""What a model costs: parameters, arithmetic and memory, as functions of its shape."""

from collections.abc import Sequence

from mlmdist.config.model import Model

BYTES_OF = {"fp32": 4, "bf16": 2, "fp16": 2}
STATE_BYTES = 12  # fp32 weight and Adam's two moments
PEAK_TFLOPS = {"H200": 989.0, "H100": 989.0, "A100": 312.0}  # dense bf16, NVIDIA's data sheets


def num_parameters(model: Model, vocab_size: int) -> int:
    """Parameters of the encoder and both heads, the tied decoder counted once."""
    width, inner = model.width, model.feed_forward_width
    embeddings = (vocab_size + model.max_positions + 2) * width + 2 * width
    attention = 4 * (width * width + width)
    feed_forward = 2 * width * inner + inner + width
    heads = 2 * (width * width + width) + 2 * width + vocab_size + 2 * width + 2
    return embeddings + model.num_layers * (attention + feed_forward + 4 * width) + heads


def flops_per_row(model: Model, vocab_size: int, length: float, mask_rate: float) -> float:
    """Floating-point operations of forward and backward on a row of `length` tokens.

    As `train_flops`, for means of many rows.
    """
    return train_flops(model, vocab_size, [length], mask_rate * length)


def train_flops(
    model: Model, vocab_size: int, lengths: Sequence[float], num_masked: float
) -> float:
    """Floating-point operations of forward and backward on rows of these lengths, in tokens.

    Two a multiplication, and the backward pass counts twice the forward; softmax, LayerNorm and
    GELU are left out. Attention is counted inside rows and the language model head on masked tokens
    only, so padding earns nothing (Chowdhery et al. 2022, appendix B, without its causal half).
    """
    squares = sum(length * length for length in lengths)
    return flops_of_sums(model, vocab_size, sum(lengths), squares, num_masked, len(lengths))


def flops_of_sums(
    model: Model,
    vocab_size: int,
    num_tokens: float,
    sum_squares: float,
    num_masked: float,
    num_rows: float,
) -> float:
    """As `train_flops`, of rows with so many tokens; `sum_squares` are those of their lengths."""
    width, inner = model.width, model.feed_forward_width
    linear = num_tokens * model.num_layers * (8 * width * width + 4 * width * inner)
    attention = 4 * model.num_layers * width * sum_squares
    mlm_head = num_masked * (2 * width * width + 2 * width * vocab_size)
    pair_head = num_rows * (2 * width * width + 4 * width)
    return 3 * (linear + attention + mlm_head + pair_head)


def memory_bytes(
    parameters: int, precision: str, zero_stage: int, world_size: int, *, offloads: bool = False
) -> int:
    """Weights, gradients and optimizer state on a rank's GPU; activations come on top.

    Rajbhandari et al. 2020, figure 1, with Adam; in fp32 the weights are their own master copy.
    Where it `offloads`, the optimizer's state is in the CPU's memory and does not count here.
    """
    number = BYTES_OF[precision]
    state = STATE_BYTES if precision != "fp32" or zero_stage > 0 else STATE_BYTES - 4
    state = 0 if offloads else state
    shares = {0: (1, 1, 1), 1: (1, 1, world_size), 2: (1, world_size, world_size)}
    weights, gradients, optimizer = shares.get(zero_stage, (world_size,) * 3)
    return (
        parameters * number // weights
        + parameters * number // gradients
        + (parameters * state // optimizer)
    )


def wire_bytes(parameters: int, precision: str, zero_stage: int, world_size: int) -> int:
    """Bytes that a rank sends in an optimizer step, by ring algorithms.

    Gradients and weights once at stages 0 to 2, weights twice at stage 3 (Rajbhandari et al. 2020,
    section 7).
    """
    share = (world_size - 1) / world_size
    passes = 3 if zero_stage == 3 else 2
    return round(passes * share * parameters * BYTES_OF[precision])


def activation_bytes(
    model: Model,
    vocab_size: int,
    lengths: Sequence[float],
    num_masked: float,
    precision: str,
    *,
    recomputes: bool = False,
) -> int:
    """What forward and backward hold on rows of these lengths, in tokens; about.

    Korthikanti et al. 2022, section 4.1, for any width between the feed-forward matrices, and what
    two layers keep for what backward makes on its way; attention by lengths keeps no table of
    scores and so takes less. Of a layer that is computed again the input alone is kept.
    """
    size, tokens = BYTES_OF[precision], sum(lengths)
    scores = model.num_heads * sum(length * length for length in lengths)
    of_tokens = (9 * model.width + 2 * model.feed_forward_width) * size + 2 * model.width
    layer = tokens * of_tokens + scores * (2 * size + 1)
    inputs = model.num_layers * tokens * model.width * size
    kept = inputs + layer if recomputes else model.num_layers * layer
    logits = num_masked * vocab_size * (size + 8)  # as they are, in fp32, and their softmax
    return round(kept + 2 * layer + logits)


def checkpoint_bytes(parameters: int, precision: str) -> int:
    """A checkpoint's size over all its files."""
    return parameters * (STATE_BYTES + BYTES_OF[precision])
