"""An optimizer step of BERT, ours and transformers': same weights, rows, dropout, optimizer."""

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForPreTraining

from mlmdist import dist
from mlmdist.config.data import Data
from mlmdist.config.model import Model
from mlmdist.config.pretrain import Pretrain
from mlmdist.config.train import Optimizer, Train
from mlmdist.data.batch import MicroBatch, StepBatch
from mlmdist.model.bert import Bert
from mlmdist.model.huggingface import from_huggingface
from mlmdist.train import costs
from mlmdist.train.engine import Engine
from mlmdist.train.state import Counts
from tests.benchmarks.duel import seconds

CLS, SEP, MASK, FIRST_WORD = 2, 3, 4, 5
IGNORED = -100
MASK_RATE = 0.15
LEARNING_RATE = 1e-4
SHAPES = {
    "tiny": (Model(num_layers=2, width=128, num_heads=2, max_positions=512), 8_000),
    "base": (Model(), 30_522),
    "large": (Model(num_layers=24, width=1024, num_heads=16), 30_522),
}


@dataclass(frozen=True)
class Work:
    """What a step does: rows of these lengths through this shape."""

    size: str
    lengths: tuple[int, ...]
    precision: str
    dropout: float = 0.1
    drops_attention: bool = True

    @property
    def shape(self) -> Model:
        """The model's shape with this work's dropout."""
        attention = self.dropout if self.drops_attention else 0.0
        update = {"dropout": self.dropout, "attention_dropout": attention}
        return SHAPES[self.size][0].model_copy(update=update)

    @property
    def vocab_size(self) -> int:
        """Ids of the model."""
        return SHAPES[self.size][1]

    @property
    def tokens(self) -> int:
        """Real tokens of a step."""
        return sum(self.lengths)

    def flops(self, batch: StepBatch) -> float:
        """Arithmetic of a step that counts, forward and backward."""
        return costs.train_flops(self.shape, self.vocab_size, self.lengths, batch.num_labels)


def rows(work: Work, number: int) -> StepBatch:
    """Batch `number` of random ids, a share of MASK_RATE of them to be predicted, all in pairs."""
    draw = np.random.default_rng(number)
    bounds = np.cumsum([0, *work.lengths])
    tokens = draw.integers(FIRST_WORD, work.vocab_size, work.tokens)
    positions = np.arange(work.tokens) - np.repeat(bounds[:-1], work.lengths)
    halves = np.repeat(np.array(work.lengths) // 2, work.lengths)
    tokens[bounds[:-1]], tokens[bounds[1:] - 1] = CLS, SEP
    ordinary = np.flatnonzero(tokens >= FIRST_WORD)
    masked = np.sort(draw.choice(ordinary, round(MASK_RATE * work.tokens), replace=False))
    labels = tokens[masked]
    tokens[masked] = MASK
    micro = MicroBatch(
        tokens=tokens,
        segments=(positions > halves).astype(np.int64),
        positions=positions,
        cu_lengths=bounds.astype(np.int32),
        masked_index=masked,
        labels=labels,
        pair_labels=draw.integers(0, 2, len(work.lengths)),
        weights=np.ones(len(work.lengths), np.int64),
        sample_ids=np.zeros((len(work.lengths), 4), np.uint64),
    )
    return StepBatch(number, [micro], len(masked), len(work.lengths), work.tokens)


def padded(batch: StepBatch, device: torch.device) -> dict[str, Tensor]:
    """A batch as transformers' arguments: padded rows, labels in place, -100 elsewhere."""
    (micro,) = batch.micro_batches
    labels = np.full(len(micro.tokens), IGNORED)
    labels[micro.masked_index] = micro.labels
    lengths = np.diff(micro.cu_lengths).tolist()

    def table(values: np.ndarray, fill: int) -> Tensor:
        parts = torch.from_numpy(values).split(lengths)
        return nn.utils.rnn.pad_sequence(list(parts), True, fill).to(device)

    arguments = {
        "input_ids": table(micro.tokens, 0),
        "token_type_ids": table(micro.segments, 0),
        "labels": table(labels, IGNORED),
        "next_sentence_label": torch.from_numpy(micro.pair_labels).to(device),
    }
    if len(set(lengths)) > 1:
        arguments["attention_mask"] = table(np.ones_like(micro.tokens), 0)
    return arguments


def published_weights(work: Work) -> dict[str, Tensor]:
    """Weights that both sides begin with."""
    torch.manual_seed(1)
    return BertForPreTraining(their_config(work)).state_dict()


def their_config(work: Work) -> BertConfig:
    """The shape in transformers' words."""
    shape = work.shape
    return BertConfig(
        vocab_size=work.vocab_size,
        hidden_size=shape.width,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        intermediate_size=shape.feed_forward_width,
        max_position_embeddings=shape.max_positions,
        hidden_dropout_prob=work.dropout,
        attention_probs_dropout_prob=work.dropout,
    )


class Ours:
    """Our engine, DeepSpeed and all, as a rank of a run has it."""

    def __init__(
        self,
        work: Work,
        weights: dict[str, Tensor],
        here: dist.Place,
        zero_stage: int = 1,
        **choices: Any,
    ) -> None:
        """`choices` are those of `train`, as `compile=True`."""
        num_rows = len(work.lengths) * here.world_size
        config = Pretrain.model_validate(
            {
                "run": "nowhere",
                "data": Data.model_validate({"train": "nowhere", "tokenizer": "nowhere"}),
                "model": work.shape,
                "train": Train(
                    steps=1000,
                    global_batch=num_rows,
                    micro_batch=len(work.lengths),
                    precision=cast("Any", work.precision),
                    zero_stage=cast("Any", zero_stage),
                    **choices,
                ),
                "optimizer": Optimizer(learning_rate=LEARNING_RATE),
            }
        )
        model = Bert(work.shape, work.vocab_size)
        model.load_state_dict(from_huggingface(weights, list(model.state_dict())))
        self.engine = Engine(config, model, here, accumulation=1, mark=lambda _: None)
        self.world_size = here.world_size

    def step(self, batch: StepBatch) -> float:
        """One update; the loss of this rank."""
        world = self.world_size
        counts = Counts(batch.num_labels * world, batch.num_pairs * world, batch.num_tokens * world)
        sums = self.engine.step(batch, counts, LEARNING_RATE).sums
        return float(sums[0] / batch.num_labels + sums[3] / batch.num_pairs)


class Theirs:
    """transformers' model under torch's fused AdamW, as its Trainer steps it, without its loop.

    `mode` is `fp32`; `autocast`, fp32 weights under bf16 as its Trainer's `bf16`; or `bf16`, all.
    """

    def __init__(
        self,
        work: Work,
        weights: dict[str, Tensor],
        *,
        attention: str,
        mode: str,
        compiled: bool = False,
        wrap: Callable[[nn.Module], nn.Module] = lambda model: model,
    ) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model: Any = BertForPreTraining._from_config(
            their_config(work), attn_implementation=attention
        )
        model.load_state_dict(weights)
        model.to(self.device, torch.bfloat16 if mode == "bf16" else torch.float32).train()
        self.mode, self.name = mode, f"{mode}, {attention}{', compiled' if compiled else ''}"
        decayed = [p for p in model.parameters() if p.ndim > 1]
        plain = [p for p in model.parameters() if p.ndim == 1]
        groups = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, fused=True)
        model = wrap(model)
        self.model: Any = torch.compile(model) if compiled else model

    def _precision(self) -> AbstractContextManager[object]:
        if self.mode != "autocast":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def step(self, batch: StepBatch) -> float:
        """One update; its loss."""
        with self._precision():
            loss = self.model(**padded(batch, self.device)).loss
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())


def check_equal(work: Work, weights: dict[str, Tensor], here: dist.Place) -> tuple[float, float]:
    """The first losses of both sides without dropout; raises AssertionError if they differ."""
    still = replace(work, dropout=0.0)
    batch = rows(still, 0)
    mode = "autocast" if work.precision == "bf16" else "fp32"
    theirs = Theirs(still, weights, attention="eager", mode=mode).step(batch)
    ours = Ours(still, weights, here).step(batch)
    bound = 3e-2 if work.precision == "bf16" else 1e-4
    assert abs(ours - theirs) < bound * theirs, f"{ours} against {theirs}"
    return ours, theirs


def fastest(contestants: list[Callable[[], Theirs]], batch: StepBatch, tries: int = 2) -> Theirs:
    """The one whose step is fastest, after a first one that does not count; one at a time."""
    times: list[float] = []
    for make in contestants:
        one = make()
        one.step(batch)
        times.append(median(seconds(lambda one=one: one.step(batch)) for _ in range(tries)))
        del one
        gc.collect()
    return contestants[int(np.argmin(times))]()


def peak_flops(dtype: torch.dtype, size: int = 2048, tries: int = 7) -> float:
    """FLOP/s of a large product of square matrices on this device, the best of some tries."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = 8192 if device.type == "cuda" else size
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))

    def multiply() -> None:
        torch.matmul(left, right)
        if device.type == "cuda":
            torch.cuda.synchronize()

    multiply()
    return 2 * size**3 / min(seconds(multiply) for _ in range(tries))


def here_alone() -> dist.Place:
    """This process as the only rank of a job."""
    here = dist.Place()
    dist.start(here, timeout_seconds=60)
    return here
