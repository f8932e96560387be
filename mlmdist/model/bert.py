"""BERT with its two pretraining heads (Devlin et al. 2019), on an unpadded stream of tokens."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from mlmdist.config.model import Model
from mlmdist.model.attention import Attention
from mlmdist.model.directory import NUM_SEGMENTS
from mlmdist.model.dropout import Dropout
from mlmdist.model.initial import initialize
from mlmdist.model.layout import Layout, arrange
from mlmdist.model.stream import Stream

NUM_PAIR_CLASSES = 2


class Heads(NamedTuple):
    """Logits of both heads; a tuple, so that whoever wraps the model finds the tensors in it."""

    mlm_logits: Float[Tensor, "masked vocab"]
    pair_logits: Float[Tensor, "rows 2"]


class Bert(nn.Module):
    """The encoder and its heads; the decoder's matrix is the token embedding itself.

    Weights are a function of (config, vocab_size, seed) alone, so every rank makes the same ones.
    """

    def __init__(self, config: Model, vocab_size: int, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.recomputes = False  # whether the backward pass computes each layer again
        self.embeddings = Embeddings(config, vocab_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))
        self.mlm_head = MlmHead(config, vocab_size)
        self.pair_head = PairHead(config)
        initialize(self, config.initializer_range, seed)

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return self.embeddings.tokens.num_embeddings

    def forward(self, stream: Stream) -> Heads:
        """Logits at the stream's `masked_index` and of each row's pair."""
        layout = arrange(stream.cu_lengths)
        hidden = self._encode(stream, layout)
        masked = hidden.index_select(0, layout.place[stream.masked_index])
        return Heads(
            mlm_logits=self.mlm_head(masked, self.embeddings.tokens.weight),
            pair_logits=self.pair_head(hidden.index_select(0, layout.first)),
        )

    def encode(self, stream: Stream) -> Float[Tensor, "total width"]:
        """The last layer's output for every token of the stream, in the stream's order."""
        layout = arrange(stream.cu_lengths)
        return self._encode(stream, layout).index_select(0, layout.place)

    def _encode(self, stream: Stream, layout: Layout) -> Float[Tensor, "total width"]:
        """The last layer's output in the layout's order: it is undone on what is asked for only."""
        order = layout.order
        hidden = self.embeddings(
            stream.tokens[order], stream.positions[order], stream.segments[order]
        )
        for layer in self.layers:
            hidden = self._through(layer, hidden, layout)
        return hidden

    def _through(
        self, layer: nn.Module, hidden: Float[Tensor, "total width"], layout: Layout
    ) -> Float[Tensor, "total width"]:
        """The layer's output; where it recomputes, its input alone is kept for the backward pass.

        Chen et al. 2016, section 3; dropout draws the same again.
        """
        if self.recomputes and torch.is_grad_enabled():
            output: Tensor = checkpoint(layer, hidden, layout, use_reentrant=False)
            return output
        return layer(hidden, layout)

    def compile_layers(self) -> None:
        """Let torch compile what the layers do, each time for any number of tokens."""
        for layer in self.layers:
            assert isinstance(layer, Layer)
            layer.compile_parts()


class Embeddings(nn.Module):
    """The sum of token, position and segment embeddings, normalised."""

    def __init__(self, config: Model, vocab_size: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, config.width)
        self.positions = nn.Embedding(config.max_positions, config.width)
        self.segments = nn.Embedding(NUM_SEGMENTS, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        tokens: Int64[Tensor, "total"],
        positions: Int64[Tensor, "total"],
        segments: Int64[Tensor, "total"],
    ) -> Float[Tensor, "total width"]:
        """The encoder's input."""
        total = self.tokens(tokens) + self.segments(segments) + self.positions(positions)
        return self.dropout(self.norm(total))


class Layer(nn.Module):
    """Attention, then two matrices with a GELU between, each with residual and LayerNorm behind."""

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.expand = nn.Linear(config.width, config.feed_forward_width)
        self.contract = nn.Linear(config.feed_forward_width, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, hidden: Float[Tensor, "total width"], layout: Layout
    ) -> Float[Tensor, "total width"]:
        """The next layer's input."""
        return self.transform(hidden, self.attention(hidden, layout))

    def transform(
        self, hidden: Float[Tensor, "total width"], attended: Float[Tensor, "total width"]
    ) -> Float[Tensor, "total width"]:
        """What follows attention, a token at a time."""
        hidden = self.attention_norm(hidden + self.dropout(attended))
        expanded = functional.gelu(self.expand(hidden))
        return self.norm(hidden + self.dropout(self.contract(expanded)))

    def compile_parts(self) -> None:
        """Compile attention within rows and what follows it; the loop over groups stays Python."""
        self.attention.mix = torch.compile(self.attention.mix, dynamic=True)
        self.transform = torch.compile(self.transform, dynamic=True)


class MlmHead(nn.Module):
    """Hidden states to a logit an id; the matrix is given by the caller, for it is tied."""

    def __init__(self, config: Model, vocab_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(
        self, hidden: Float[Tensor, "masked width"], decoder: Float[Tensor, "vocab width"]
    ) -> Float[Tensor, "masked vocab"]:
        """Logits over the vocabulary."""
        transformed = self.norm(functional.gelu(self.dense(hidden)))
        return functional.linear(transformed, decoder, self.bias)


class PairHead(nn.Module):
    """The hidden state at [CLS] to two logits: 0 true continuation, 1 not."""

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.pooler = nn.Linear(config.width, config.width)
        self.classifier = nn.Linear(config.width, NUM_PAIR_CLASSES)

    def forward(self, first: Float[Tensor, "rows width"]) -> Float[Tensor, "rows 2"]:
        """Logits of each row."""
        return self.classifier(torch.tanh(self.pooler(first)))
