"""The only door to DeepSpeed: a model trained by global batches, over all ranks and micro-batches.

Losses are sums over the global batch divided by global counts (law L1). DeepSpeed averages what the
ranks give it, so each gives its share times the world size, and divides by nothing else.
"""

import logging
import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# Read when DeepSpeed is imported: it need not look for an accelerator and warn that it found none,
# nor load a compiler (2 s) for an optimizer that nobody asked for (`compiler.allow` takes it back).
os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
import deepspeed
from deepspeed.utils import (
    safe_get_full_fp32_param,
    safe_set_full_fp32_param,
    safe_set_local_fp32_param,
)

from mlmdist import rng
from mlmdist.config.pretrain import Pretrain
from mlmdist.data.batch import MicroBatch, StepBatch
from mlmdist.dist import Place
from mlmdist.memory import keep_all
from mlmdist.model.bert import Bert
from mlmdist.model.loss import LossSums, loss_sums
from mlmdist.train import compiler, gloo, lean_zero
from mlmdist.train.deepspeed_config import deepspeed_config
from mlmdist.train.laps import BACKWARD, FORWARD, OPTIMIZER, OTHER, Laps
from mlmdist.train.loss_scale import LossScale
from mlmdist.train.memory import Memory
from mlmdist.train.micro_batch import as_vector, to_stream
from mlmdist.train.optimizer import WAITS, build_optimizer
from mlmdist.train.state import Counts

log = logging.getLogger(__name__)

LOSS_SCALE = "loss_scale"  # in a checkpoint's files
NUM_SUMS = len(LossSums._fields)
MAX_SEED = 1 << 63
RECOVERY_SCRIPTS = ("zero_to_fp32.py", "zero_to_torch.py")

Mark = Callable[[str], None]


@dataclass(frozen=True)
class StepResult:
    """One optimizer step: this rank's `LossSums`, the global gradient's norm, what came of it."""

    sums: Tensor
    """fp64 [6], in the order of LossSums; the losses of the batch are sums over all ranks."""

    grad_norm: float | Tensor
    """2-norm of the global gradient before clipping."""

    skipped: bool
    """True if the gradient was not finite and nothing was updated."""

    loss_scale: float | None = None
    """What the loss was multiplied by; None where it is not (fp16 alone)."""


class Engine:
    """The model under DeepSpeed; every method is called by all ranks together."""

    def __init__(
        self, config: Pretrain, model: Bert, here: Place, *, accumulation: int, mark: Mark
    ) -> None:
        self.config, self.here, self.mark = config, here, mark
        self.device = torch.device("cuda", here.local_rank) if _has_gpu() else torch.device("cpu")
        self.loss_scale = LossScale() if config.train.precision == "fp16" else None
        vocab_size = model.vocab_size  # at ZeRO stage 3 the model no longer has it afterwards
        model.recomputes = config.train.activation_checkpointing
        if config.train.compile:
            compiler.allow(self.device)
            model.compile_layers()
        self.laps = Laps(self.device)
        self.deepspeed = _initialize(config, model, accumulation)
        self.zero_stage = config.train.zero_stage
        self.averages = True  # whether DeepSpeed divides gradients by the number of ranks
        if self.device.type == "cpu":
            self._take_short_ways()
        self.memory = Memory(self.device, config, vocab_size=vocab_size, world_size=here.world_size)

    def step(self, batch: StepBatch, counts: Counts, learning_rate: float) -> StepResult:
        """Forward, backward and one update by a global batch that holds `counts`."""
        self.deepspeed.train()
        if self.loss_scale is not None:
            self.deepspeed.optimizer.loss_scale = self.loss_scale.scale
        sums = torch.zeros(NUM_SUMS, dtype=torch.float64, device=self.device)
        with self.memory.explained(batch):
            for number in range(len(batch.micro_batches)):
                sums += self._learn(batch, number, counts)
            self.mark(f"batch {batch.number}, update")
            self.laps.to(OPTIMIZER)
            result = self._update(sums, learning_rate, batch.number)
            self.laps.to(OTHER)
            return result

    def _learn(self, batch: StepBatch, number: int, counts: Counts) -> Tensor:
        """Forward and backward of micro-batch `number`; its six sums."""
        self._seed_dropout(batch.number, number)
        last = number == len(batch.micro_batches) - 1
        self.deepspeed.set_gradient_accumulation_boundary(last)
        self.mark(f"batch {batch.number}, forward of micro-batch {number}")
        self.laps.to(FORWARD)
        losses = self._losses(batch.micro_batches[number])
        self.mark(f"batch {batch.number}, backward of micro-batch {number}")
        self.laps.to(BACKWARD)
        self._backward(losses, counts)
        return as_vector(losses)

    def _take_short_ways(self) -> None:
        """What a CPU gains most by."""
        keep_all()
        gloo.install(deepspeed.comm.comm.cdb, self.laps)
        if self.zero_stage in (1, 2):
            lean_zero.install(self.deepspeed.optimizer)
            self.averages = False

    def follow(self, config: Pretrain) -> None:
        """Take the config of the phase that comes next."""
        self.config = self.memory.config = config

    @torch.no_grad()
    def evaluate(self, batch: StepBatch) -> Tensor:
        """Six sums of this rank over a batch, fp64, without dropout and without a trace."""
        self.deepspeed.eval()
        sums = torch.zeros(NUM_SUMS, dtype=torch.float64, device=self.device)
        with self.memory.explained(batch):
            for number, micro_batch in enumerate(batch.micro_batches):
                self.mark(f"evaluation batch {batch.number}, micro-batch {number}")
                sums += as_vector(self._losses(micro_batch))
        return sums

    def unmoved(self, batch: StepBatch, counts: Counts, learning_rate: float) -> list[str]:
        """The names of parameters that a step without weight decay leaves as they were.

        No gradient reaches them. Holds a copy of all weights while it looks.
        """
        before = {name: self._weights(parameter) for name, parameter in self.parameters()}
        groups = self.deepspeed.optimizer.param_groups
        decays = [group.get("weight_decay", 0.0) for group in groups]
        for group in groups:
            group["weight_decay"] = 0.0
        result = self.step(batch, counts, learning_rate)
        while result.skipped and self.loss_scale is not None:  # until the scale has come down
            result = self.step(batch, counts, learning_rate)
        for group, decay in zip(groups, decays, strict=True):
            group["weight_decay"] = decay
        return [n for n, p in self.parameters() if torch.equal(self._weights(p), before[n])]

    def _weights(self, parameter: nn.Parameter) -> Tensor:
        """A copy of a parameter's fp32 weights, gathered from the ranks that hold them."""
        full = None if self._is_plain() else safe_get_full_fp32_param(parameter)
        return (parameter.detach() if full is None else full).clone()

    def save(self, folder: Path, tag: str) -> None:
        """Write weights and optimizer state to `folder`/`tag`; on an optimizer step's boundary."""
        state = {LOSS_SCALE: asdict(self.loss_scale)} if self.loss_scale else {}
        self.deepspeed.save_checkpoint(str(folder), tag=tag, client_state=state, save_latest=False)
        if self.here.rank == 0:
            for name in RECOVERY_SCRIPTS:  # beside the folder, where nothing else is but folders
                (folder / name).unlink(missing_ok=True)

    def load(self, folder: Path, tag: str) -> None:
        """Read what `save` wrote at this world size; raises RuntimeError if it is not all there."""
        loaded, state = self.deepspeed.load_checkpoint(str(folder), tag=tag)
        if loaded is None:
            raise RuntimeError(f"{folder / tag}: DeepSpeed found no checkpoint there")
        if self.loss_scale is not None:
            self.loss_scale = LossScale(**state[LOSS_SCALE])

    def constants(self) -> dict[str, Any]:
        """What a ZeRO state must hold besides tensors: the loss scaler."""
        return {"loss_scaler": getattr(self.deepspeed.optimizer, "loss_scaler", None)}

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The model's parameters by our names, as DeepSpeed holds them."""
        return self.deepspeed.module.named_parameters()

    def _losses(self, micro_batch: MicroBatch) -> LossSums:
        stream = to_stream(micro_batch).to(self.device)
        return loss_sums(self.deepspeed(stream), stream.labels, stream.pair_labels)

    def _backward(self, losses: LossSums, counts: Counts) -> None:
        """Add this micro-batch's share of the global batch's gradient."""
        share = losses.mlm_sum / max(1, counts.num_labels)
        share = share + losses.pair_sum / max(1, counts.num_pairs)
        if self.loss_scale is not None and self.zero_stage == 0:
            share = share * self.loss_scale.scale  # there DeepSpeed divides by it alone
        share = share * self.here.world_size if self.averages else share
        self.deepspeed.backward(share, scale_wrt_gas=False)

    def _update(self, sums: Tensor, learning_rate: float, number: int) -> StepResult:
        for group in self.deepspeed.optimizer.param_groups:
            group["lr"] = learning_rate if number >= group[WAITS] else 0.0
        norm = self._plain_norm() if self._is_plain() else None
        if norm is not None and not math.isfinite(norm):
            self.deepspeed.zero_grad()  # torch's optimizer alone would take the NaN in
            return StepResult(sums, math.inf, skipped=True)
        self.deepspeed.step()
        norm = self.deepspeed.get_global_grad_norm() if norm is None else norm
        is_finite = self.deepspeed.was_step_applied()
        if self.loss_scale is None:
            return StepResult(sums, norm, skipped=not is_finite)
        scale = self.loss_scale.scale
        self.loss_scale.advance(is_finite=is_finite)
        norm = norm / scale if self.zero_stage == 0 else norm  # there it is the scaled one's
        return StepResult(sums, norm, skipped=not is_finite, loss_scale=scale)

    def _is_plain(self) -> bool:
        """Whether DeepSpeed steps torch's optimizer as it is: no norm, no check of its own."""
        return self.zero_stage == 0 and self.config.train.precision == "fp32"

    def _plain_norm(self) -> float:
        gradients = [p.grad for _, p in self.parameters() if p.grad is not None]
        return float(nn.utils.get_total_norm(gradients))

    def _seed_dropout(self, batch: int, micro_batch: int) -> None:
        """Dropout as a function of where we are: evaluation and restarts move nothing."""
        seed = rng.hash64("dropout", self.config.seed, batch, micro_batch, self.here.rank)
        torch.manual_seed(seed % MAX_SEED)


def _initialize(config: Pretrain, model: Bert, accumulation: int) -> Any:
    if not _has_gpu():
        leave_out_shared_memory_op()
    _keep_quiet()
    steps = config.init_from.embeddings_only_steps if config.init_from else 0
    stage = config.train.zero_stage
    optimizer = build_optimizer(
        model, config.optimizer, zero_stage=stage, embeddings_only_steps=steps
    )
    is_rounded = config.train.precision != "fp32"
    exact = [one.detach().clone() for one in model.parameters()] if is_rounded else []
    size = sum(parameter.numel() for parameter in model.parameters())
    settings = deepspeed_config(config, accumulation, num_parameters=size, has_gpu=_has_gpu())
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    if is_rounded:
        _restore_masters(engine, dict(zip(model.parameters(), exact, strict=True)), stage)
    return engine


def _restore_masters(engine: Any, weights: dict[nn.Parameter, Tensor], stage: int) -> None:
    """Let the fp32 weights begin as they were given: DeepSpeed makes them from roundings.

    At stage 0 it has also stepped once, by a gradient of 0: weights decayed, moments counted.
    """
    optimizer = engine.optimizer
    if stage == 0:
        for low, high in zip(optimizer.fp16_groups, optimizer.fp32_groups, strict=True):
            for parameter, master in zip(low, high, strict=True):
                master.data.copy_(weights[parameter])
        optimizer.optimizer.state.clear()
    for parameter, weight in weights.items():
        if stage == 3:
            safe_set_local_fp32_param(parameter, _own_share(parameter, weight))
        elif stage > 0:
            safe_set_full_fp32_param(parameter, weight)


def _own_share(parameter: Any, weight: Tensor) -> Tensor:
    """The part of a weight that this rank has at stage 3, padded like the others."""
    size = parameter.ds_tensor.numel()
    begin = size * torch.distributed.get_rank()
    share = weight.flatten()[begin : begin + size]
    return nn.functional.pad(share, (0, size - len(share)))


def _keep_quiet() -> None:
    """Show of DeepSpeed what a user can act on: its errors."""
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed")


def leave_out_shared_memory_op() -> None:
    """Use gloo alone on the CPU: DeepSpeed's op needs a compiler and leaks shared memory.

    The table is private to DeepSpeed, and probing it would run the compiler for every op.
    """
    table = {"deepspeed_shm_comm": False}
    deepspeed.ops.__compatible_ops__ = table  # pyright: ignore[reportAttributeAccessIssue]


def _has_gpu() -> bool:
    return torch.cuda.is_available()
