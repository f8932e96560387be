"""What a run reads: shard sets, their order, pairs and masks."""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

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
