"""How a run trains: optimizer, schedule, batches, engine, phases, and when it ends early."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from mlmdist.config.budget import Budget
from mlmdist.config.data import Corpus, HeldOutSet, Name, OneOrSeveral, Place, Share
from mlmdist.config.loading import Section


class Optimizer(Section):
    """How weights move; biases and LayerNorm without decay, as BERT."""

    kind: Literal["adamw", "lamb", "sgd"] = "adamw"
    """`adamw` (Loshchilov and Hutter 2019); `lamb` (You et al. 2020) for batches of thousands of
    rows; `sgd`, without momentum, is there to compare gradients between set-ups (law L1)."""

    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    betas: tuple[Share, Share] = (0.9, 0.999)
    eps: Annotated[float, Field(gt=0)] = 1e-6
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    clip: Annotated[float, Field(ge=0)] = 1.0
    """Largest norm of the global gradient; 0 does not clip."""


class Schedule(Section):
    """Learning rate by step: linear from 0 to the peak, then down (mlmdist/train/schedule.py)."""

    kind: Literal["linear", "cosine", "polynomial", "wsd"] = "linear"
    """How it falls: `wsd` stays at the peak and falls at the end alone (Hu et al. 2024), so that a
    run can be made longer, or be branched off, before its fall begins."""

    warmup: Share = 0.1
    """Share of the steps that warm up."""

    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    """Steps that warm up, in place of `warmup`."""

    final: Share = 0.0
    """Share of the peak that is left at the last step: the lowest rate behind the warm-up."""

    power: Annotated[float, Field(gt=0)] = 2.0
    """Of `polynomial`; 1 is `linear`."""

    decay: Share = 0.1
    """Share of the steps in which `wsd` falls, at the end."""

    def num_warmup_steps(self, num_steps: float) -> int:
        """Steps of a run of `num_steps` in which the rate rises."""
        return round(self.warmup * num_steps) if self.warmup_steps is None else self.warmup_steps

    def num_decay_steps(self, num_steps: float) -> int:
        """Steps at the end of a run of `num_steps` in which `wsd` falls."""
        return round(self.decay * num_steps)

    def check(self, num_steps: int, where: str) -> None:
        """Raise ValueError if it does not fit so many steps, which stand at `where`."""
        warmup, decay = self.num_warmup_steps(num_steps), self.num_decay_steps(num_steps)
        if warmup > num_steps:
            raise ValueError(f"schedule.warmup_steps={warmup} must be at most {where}={num_steps}")
        is_given = self.warmup_steps is not None  # shares are looked at below
        if self.kind == "wsd" and is_given and warmup + decay > num_steps:
            raise ValueError(
                f"schedule: {warmup} steps up and {decay} down must be at most {where}={num_steps} "
                "together; lower schedule.warmup_steps or schedule.decay"
            )

    @model_validator(mode="after")
    def _shares_fit(self) -> "Schedule":
        if self.kind == "wsd" and self.warmup_steps is None and self.warmup + self.decay > 1:
            raise ValueError(
                f"warmup={self.warmup:g} and decay={self.decay:g} are shares of one run: at most 1 "
                "together; lower one"
            )
        return self


class BatchWarmup(Section):
    """Batches that begin small and grow to `train.global_batch` (Smith et al. 2018)."""

    first: PositiveInt
    """Rows of the first batches."""

    steps: PositiveInt
    """Steps until batches have their full size."""

    sizes: PositiveInt = 8
    """Different sizes on the way, the first counted."""


class Train(Budget):
    """How much is trained, and how the work is cut."""

    global_batch: PositiveInt
    """Rows an optimizer step sees, over all ranks and micro-batches."""

    batch_warmup: BatchWarmup | None = None
    """How batches grow at the beginning of the run; default: all have their full size."""

    micro_batch: PositiveInt
    """Rows a rank computes at once; gradients accumulate over as many as it takes."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Number format of matrix work; weights and optimizer state are kept in fp32. `auto` takes bf16
    where the machine that begins the run multiplies it, else fp32, and stays with that. `fp16` is
    for GPUs without bf16: the loss is scaled (mlmdist/train/loss_scale.py)."""

    zero_stage: Literal[0, 1, 2, 3] = 1
    """DeepSpeed's ZeRO stage: 1 shards optimizer state, 2 gradients too, 3 weights too."""

    peak_tflops: Annotated[float, Field(gt=0)] | None = None
    """What a rank's device does at best by its data sheet, in 10^12 operations a second, for the
    metric `speed/mfu_of_data_sheet`; known of some GPUs. `speed/mfu` is of the peak measured."""

    activation_checkpointing: bool = False
    """Keep of each layer its input alone, and compute the rest again in the backward pass: less
    memory for about a third more arithmetic, the same numbers to the bit."""

    offload: Literal["none", "optimizer"] = "none"
    """`optimizer` keeps fp32 weights and optimizer state in the CPU's memory, and updates there: a
    GPU then holds weights, gradients and activations alone. For `adamw` at ZeRO stages 1 to 3."""

    compile: bool = False
    """Let torch compile the encoder's layers: faster on GPUs behind some slow first steps; equal to
    rounding. Not at ZeRO stage 3; a resume is no longer to the bit."""

    threads: Annotated[int, Field(ge=0)] = 0
    """CPU threads a rank; 0 shares the machine's cores among its ranks. A resume to the bit on CPU
    needs the same number, so the number is kept with the run."""

    @model_validator(mode="after")
    def _stage_fits(self) -> "Train":
        if self.offload != "none" and self.zero_stage == 0:
            raise ValueError(
                f"offload={self.offload} with zero_stage=0: there is no sharded state to move; "
                "choose zero_stage 1, 2 or 3, or offload=none"
            )
        if self.compile and self.zero_stage == 3:
            raise ValueError(
                "compile=true with zero_stage=3: its weights come and go between a layer's "
                "operations; choose zero_stage 0, 1 or 2, or compile=false"
            )
        return self


class Phase(Budget):
    """A part of a run with shards, batch and rate of its own; what is left out is the run's."""

    name: Name = ""
    """What it is called; default its number, from 1."""

    train: OneOrSeveral[Place, tuple[Corpus, ...]] | None = None
    """In place of `data.train`."""

    held_out: OneOrSeveral[Place, tuple[HeldOutSet, ...]] | None = None
    """In place of `data.held_out`."""

    global_batch: PositiveInt | None = None
    micro_batch: PositiveInt | None = None

    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """The peak of a schedule of its own, warm-up and end included. Where no phase has one, one
    schedule goes through all of them (Devlin et al. 2019, A.2)."""


class Ending(Section):
    """When a run ends before its budget does."""

    patience: PositiveInt | None = None
    """Evaluations in a row without a better held-out MLM loss after which it is done; the best
    checkpoint is kept. Default: it never ends so."""

    improvement: Annotated[float, Field(ge=0)] = 0.0
    """Nats by which a loss must be lower to be better."""

    hopeless_after: Share | None = None
    """Share of the budget by which the training loss must be under that of a guess by word
    frequency (the training unigram); a run that is not ends with exit code 13. Default: never."""
