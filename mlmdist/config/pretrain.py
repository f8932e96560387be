"""What a pretraining run is: every value a user sets, with its default and its meaning."""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    PositiveInt,
    Tag,
    model_validator,
)

from mlmdist.config.budget import Budget
from mlmdist.config.loading import HIDDEN_MARK, Section
from mlmdist.errors import ConfigError
from mlmdist.files import AnyPath, place

Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, lt=1)]
Weight = Annotated[float, Field(ge=0, le=1000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]*$")]
One = TypeVar("One")
Several = TypeVar("Several")


def _form(value: Any) -> str:
    return f"{HIDDEN_MARK}several" if isinstance(value, list | tuple) else f"{HIDDEN_MARK}one"


OneOrSeveral: TypeAlias = Annotated[
    Annotated[One, Tag(f"{HIDDEN_MARK}one")] | Annotated[Several, Tag(f"{HIDDEN_MARK}several")],
    Discriminator(_form),
]
"""A value or a list, told apart by its form, so that a mistake is told of that form alone."""
FILE_SCHEMES = ("", "file", "sqlite")  # their paths may hold an @


def _place(value: Any) -> AnyPath:
    if not isinstance(value, str | AnyPath) or not str(value).strip():
        raise ValueError("must be a folder, or a URL such as s3://bucket/folder")
    try:
        return place(value)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _here(value: Any) -> Any:
    if "://" in str(value):
        raise ValueError("must be a folder on this machine; copy what is behind the URL")
    return value


Place: TypeAlias = Annotated[AnyPath, PlainValidator(_place), PlainSerializer(str)]
"""A folder on this machine, or a URL such as `s3://bucket/folder`."""


class Order(Section):
    """In which order the windows of an epoch are read (mlmdist/data/order.py)."""

    kind: Literal["windowed", "global"] = "windowed"
    """`windowed` reads whole blocks; `global` permutes all windows, needs the set local, and beyond
    256 blocks reads a whole block for nearly every row (docs/data.md)."""

    lanes: PositiveInt = 1
    """Parts of the set read side by side; for shared storage choose it so that 16 * lanes divides
    the global batch, and each block is read by one node."""

    group_blocks: PositiveInt = 16
    """Blocks whose windows are mixed with one another."""


class TagWeight(Section):
    """How often tokens with a tag are predicted."""

    tag: Annotated[int, Field(ge=0, le=255)]
    weight: Weight


class Mask(Section):
    """Which tokens are predicted, and what stands in their place (mlmdist/data/masks.py)."""

    rate: Rate = 0.15
    """Share of a row's tokens, specials counted, that is predicted; at first, if it changes."""

    final_rate: Rate | None = None
    """Share in the end, for a rate that changes (0.3 to 0.15: Ankner et al. 2024)."""

    final_rate_at: PositiveInt | None = None
    """Number of the batch from which `final_rate` holds."""

    rate_change: Literal["linear", "step"] = "linear"
    """How the rate gets there: batch by batch, or all at once."""

    unit: Literal["token", "word", "span", "ngram"] = "token"
    """What is chosen as a whole: a span is 1 to 10 words, an n-gram 1 to 3."""

    mask_share: Share = 0.8
    """Share of the chosen tokens that becomes [MASK]."""

    random_share: Share = 0.1
    """Share that becomes a random ordinary token; the rest is left as it is."""

    exact: bool = True
    """True: the same count in every row of a length. False: each token by its own coin."""

    static: bool = False
    """True: the mask of epoch 0 in every epoch, for comparison."""

    tag_weights: tuple[TagWeight, ...] = ()
    """How often tokens of a tag are predicted, beside 1 for the others (mask_weights.py)."""

    word_list: Path | None = None
    """A text file, a word a line, for `word_weight`."""

    word_weight: Weight = 1.0
    """How often the listed words are predicted, beside 1 for the others."""

    @model_validator(mode="after")
    def _shares_fit(self) -> "Mask":
        if self.mask_share + self.random_share > 1:
            raise ValueError("mask_share + random_share must be at most 1")
        return self

    @model_validator(mode="after")
    def _change_is_whole(self) -> "Mask":
        if (self.final_rate is None) != (self.final_rate_at is None):
            raise ValueError("final_rate and final_rate_at go together; give both or neither")
        return self


class HeldOutSet(Section):
    """A shard set evaluated on, among several."""

    path: Place
    """Its folder, or URL."""

    name: Name = ""
    """What its losses are called; default the folder's name."""


class Corpus(HeldOutSet):
    """A shard set trained on, among several."""

    weight: Annotated[float, Field(gt=0)] = 1.0
    """Its share of the rows, in proportion to the other weights (mlmdist/data/mixture.py)."""


class Cache(Section):
    """Blocks of remote shard sets, kept on this machine (mlmdist/block_cache.py)."""

    folder: Path | None = None
    """A folder of a local disk, shared by whatever trains on this machine; default `mlmdist` in
    XDG_CACHE_HOME or ~/.cache."""

    gigabytes: Annotated[float, Field(ge=0)] = 20.0
    """The most it holds; 0 keeps nothing. The last gigabyte of its disk stays free."""

    threads: Annotated[int, Field(ge=0)] = 4
    """Threads a rank that fetch the blocks of coming batches into it; 0: none are fetched ahead."""


class Data(Section):
    """The shard sets and how rows are made of them."""

    train: OneOrSeveral[Place, tuple[Corpus, ...]]
    """Shard set trained on: a folder or URL with manifest.json, written by `data_prep shards`; or a
    list of corpora, each with `path`, `weight` and `name`."""

    held_out: OneOrSeveral[Place, tuple[HeldOutSet, ...]] | None = None
    """Shard set evaluated on; or a list, each with `path` and `name`: losses for each by name."""

    tokenizer: Annotated[Path, BeforeValidator(_here)]
    """Tokenizer folder, written by `data_prep tokenizer`; must be the one the shards name."""

    pair: Literal["nsp", "sop", "none"] = "nsp"
    """Second task: next sentence, sentence order, or none."""

    order: Order = Order()
    mask: Mask = Mask()

    prefetch_batches: PositiveInt = 4
    """Batches made ahead while the model computes."""

    workers: Annotated[int, Field(ge=0)] = 0
    """Processes a rank that make batches; 0: a thread of the trainer does. The same batches."""

    cache: Cache = Cache()

    bad_blocks: Literal["refuse", "skip"] = "refuse"
    """What a block does that does not match its CRC in the shard, or whose shard is missing, cut or
    without a good index: end the run, or leave out its rows, which are logged and counted
    (mlmdist/data/stand_in.py)."""

    bad_blocks_share: Share = 0.01
    """With `skip`, the most of a shard set's windows that may be left out: more end the run."""

    @model_validator(mode="after")
    def _names_differ(self) -> "Data":
        for field, listed in (("train", self.corpora), ("held_out", self.held_out_sets)):
            names = [one.name for one in listed]
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise ValueError(
                    f"{field}: two are named {twice[0]!r}; give each a name of its own"
                )
            if not names and getattr(self, field) is not None:
                raise ValueError(f"{field}: an empty list; give at least one shard set")
        return self

    @property
    def corpora(self) -> tuple[Corpus, ...]:
        """The shard sets trained on, each with a name."""
        if not isinstance(self.train, tuple):
            return (Corpus(path=self.train, name=_named(self.train)),)
        return tuple(
            one.model_copy(update={"name": one.name or _named(one.path)}) for one in self.train
        )

    @property
    def held_out_sets(self) -> tuple[HeldOutSet, ...]:
        """The shard sets evaluated on, each with a name."""
        if not isinstance(self.held_out, tuple):
            folders = [] if self.held_out is None else [self.held_out]
            return tuple(HeldOutSet(path=path, name=_named(path)) for path in folders)
        return tuple(
            one.model_copy(update={"name": one.name or _named(one.path)}) for one in self.held_out
        )


def _named(folder: AnyPath) -> str:
    """A folder's name, as the name of a corpus."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in folder.name) or "corpus"


class Model(Section):
    """The encoder's shape; defaults are BERT-base's (Devlin et al. 2019, section 3)."""

    num_layers: PositiveInt = 12
    width: PositiveInt = 768
    num_heads: PositiveInt = 12
    intermediate: PositiveInt | None = None
    """Width of the feed-forward layer; default 4 * width."""

    max_positions: PositiveInt = 512
    """Longest row, [CLS] and [SEP] counted."""

    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    attention_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    initializer_range: Annotated[float, Field(gt=0)] = 0.02
    """Standard deviation of the normal distribution new weights are drawn from."""

    layer_norm_eps: Annotated[float, Field(gt=0)] = 1e-12

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "Model":
        if self.width % self.num_heads:
            raise ValueError(
                f"num_heads={self.num_heads} must divide width={self.width}; "
                f"width {self.width // self.num_heads * self.num_heads} or "
                f"{(self.width // self.num_heads + 1) * self.num_heads} would do"
            )
        return self

    @property
    def feed_forward_width(self) -> int:
        """Width between the two matrices of a feed-forward layer."""
        return self.intermediate or 4 * self.width


class InitFrom(Section):
    """The weights that a run begins from, instead of new ones; a path alone is enough."""

    path: Path
    """A Hugging Face BERT directory, with or without heads. The encoder's shape comes from there;
    a larger `model.max_positions` lets its position embeddings grow."""

    embeddings_only_steps: Annotated[int, Field(ge=0)] = 0
    """Steps at the beginning in which only the embeddings and the decoder's bias move, to get used
    to another vocabulary (Artetxe et al. 2020, section 2.2)."""

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str | Path) else value


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


class Every(Section):
    """What the loop does between steps."""

    log: PositiveInt = 10
    evaluate: PositiveInt = 500
    save: PositiveInt = 500
    keep: PositiveInt = 3
    """Checkpoints kept, newest first."""


class Limits(Section):
    """After how long a wait becomes an error (law T3)."""

    peer_seconds: Annotated[float, Field(gt=0)] = 60.0
    """A rank not heard of for so long is lost (exit code 11)."""

    hang_seconds: Annotated[float, Field(gt=0)] = 600.0
    """A rank that lives without progress for so long hangs (exit code 12)."""

    start_seconds: Annotated[float, Field(gt=0)] = 600.0
    """How long ranks wait for one another at the start; longer than a pod's restart back-off."""


class Tracking(Section):
    """Where the run is shown besides its own metrics.jsonl."""

    enabled: bool = True
    uri: str | None = None
    """MLflow tracking URI; default MLFLOW_TRACKING_URI, then sqlite:///mlruns.db."""

    experiment: str = "mlmdist"
    name: str | None = None
    """Name of the MLflow run; default the run folder's name."""

    timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
    """The longest that the end of training waits for the tracking server."""

    @model_validator(mode="after")
    def _uri_holds_no_password(self) -> "Tracking":
        """The config is printed, logged and stored. Said of the section: the URI is not shown."""
        try:
            parts = urlsplit(self.uri or "")
        except ValueError:
            raise ValueError("uri is none; must be like http://host:5000, sqlite:///f.db") from None
        if "@" in parts.netloc or ("@" in parts.geturl() and parts.scheme not in FILE_SCHEMES):
            raise ValueError(
                "uri must hold no user and no password: use MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_URI"
            )
        return self


class Pretrain(Section):
    """A pretraining recipe: `deepspeed launch/pretrain.py --config FILE [key=value ...]`."""

    run: Path
    """Run folder: config.yaml, metrics.jsonl, checkpoints/, latest, DONE."""

    seed: int = 0
    """Seed of weights, order, pairs, masks and dropout; 0 is a seed like any other."""

    data: Data
    init_from: InitFrom | None = None
    model: Model = Model()
    train: Train
    phases: tuple[Phase, ...] = ()
    """Parts of the run, one after the other: first rows of 128, then of 512, for example."""

    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    ending: Ending = Ending()
    every: Every = Every()
    limits: Limits = Limits()
    tracking: Tracking = Tracking()

    @model_validator(mode="after")
    def _optimizer_can_be_offloaded(self) -> "Pretrain":
        if self.train.offload != "none" and self.optimizer.kind != "adamw":
            raise ValueError(
                f"optimizer.kind={self.optimizer.kind} with train.offload={self.train.offload}: "
                "only adamw is updated on the CPU; choose optimizer.kind=adamw, or "
                "train.offload=none"
            )
        return self

    @model_validator(mode="after")
    def _budgets_are_one(self) -> "Pretrain":
        listed = "steps, tokens, epochs or time"
        if not self.phases:
            _only_one("train", self.train.given, f"give one of {listed}")
        elif self.train.given:
            raise ValueError(
                f"train.{self.train.given[0]}: each of the phases has its own; leave it out"
            )
        for number, phase in enumerate(self.phases):
            _only_one(f"phases.{number}", phase.given, f"give one of {listed}")
        if len({phase.time is None for phase in self.phases}) > 1:
            raise ValueError("phases: all of them must go by time, or none")
        return self

    @model_validator(mode="after")
    def _phases_fit(self) -> "Pretrain":
        if len({phase.learning_rate is None for phase in self.phases}) > 1:
            raise ValueError("phases: all of them must have a learning_rate, or none")
        names = [phase.name for phase in self.phases if phase.name]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"phases: two are named {twice[0]!r}; give each a name of its own")
        if self.train.batch_warmup and self.train.batch_warmup.first > self.first_batch:
            raise ValueError(
                f"train.batch_warmup.first={self.train.batch_warmup.first} must be at most the "
                f"batch it grows to, {self.first_batch}"
            )
        return self

    @model_validator(mode="after")
    def _schedule_fits(self) -> "Pretrain":
        """As far as that is known before the data is."""
        for where, steps in self._known_steps():
            _refuse_a_schedule_longer_than(steps, self.schedule, where)
        if self.schedule.warmup_steps is not None and self._by_clock:
            raise ValueError("schedule.warmup_steps goes with steps, the run by time: use warmup")
        return self

    @property
    def first_batch(self) -> int:
        """Rows of a full batch in the first phase."""
        first = self.phases[0].global_batch if self.phases else None
        return first or self.train.global_batch

    @property
    def _by_clock(self) -> bool:
        return (self.phases[0] if self.phases else self.train).time is not None

    def _known_steps(self) -> list[tuple[str, int]]:
        """The steps of each schedule of the run, by where they stand."""
        if not self.phases:
            known = {"train.steps": self.train.steps}
        elif self.phases[0].learning_rate is not None:
            known = {f"phases.{n}.steps": phase.steps for n, phase in enumerate(self.phases)}
        else:
            steps = [phase.steps or 0 for phase in self.phases]
            known = {"the phases' steps": sum(steps) if all(steps) else None}
        return [(where, steps) for where, steps in known.items() if steps is not None]


def _only_one(where: str, given: list[str], rule: str) -> None:
    if len(given) != 1:
        found = f"{' and '.join(given)} are given" if given else "no budget"
        raise ValueError(f"{where}: {found}; {rule}")


def _refuse_a_schedule_longer_than(steps: int, schedule: Schedule, where: str) -> None:
    warmup = schedule.num_warmup_steps(steps)
    if warmup > steps:
        raise ValueError(f"schedule.warmup_steps={warmup} must be at most {where}={steps}")
    if schedule.kind == "wsd" and warmup + schedule.num_decay_steps(steps) > steps:
        raise ValueError(
            f"schedule: {warmup} steps up and {schedule.num_decay_steps(steps)} down must be "
            f"at most {where}={steps} together; lower schedule.warmup or schedule.decay"
        )
