"""What a phase reads: its loader at a position, its held-out sets, where it goes on; no torch."""

from collections.abc import Callable, Iterable, Mapping

from mlmdist.data.held_out import HeldOut
from mlmdist.data.loader import Loader
from mlmdist.data.mask_weights import word_keys
from mlmdist.data.sequence import Position
from mlmdist.dist import Place
from mlmdist.shards import ShardSet
from mlmdist.train.phases import Phase

RowsRead = Mapping[str, int]
"""Rows read of each shard set, by `keys_of`."""


def loader_of(
    phase: Phase,
    here: Place,
    position: Position,
    num_batches: int,
    alive: Callable[[], None],
    *,
    micro_batch: int | None = None,
    checked: bool = False,
) -> Loader:
    """The batches of a phase from `position` on, up to number `num_batches` of the run.

    In rows of `micro_batch`, if not of the recipe's; data that is `checked` is not looked through.
    """
    config, sources = phase.config, phase.sources
    return Loader(
        config.data,
        shards=tuple(sources.train.values()),
        vocabulary=sources.tokenizer.vocabulary,
        seed=config.seed,
        global_batch=phase.batch_size,
        micro_batch=micro_batch or config.train.micro_batch,
        rank=here.rank,
        world_size=here.world_size,
        position=position,
        num_batches=num_batches,
        listed=word_keys(sources.listed),
        alive=alive,
        checked=checked,
    )


def held_out_of(phase: Phase, here: Place) -> dict[str, HeldOut]:
    """The held-out sets of a phase, by name."""
    config, sources = phase.config, phase.sources
    return {
        name: HeldOut(
            config.data,
            shards=shards,
            vocabulary=sources.tokenizer.vocabulary,
            global_batch=config.train.global_batch,
            micro_batch=config.train.micro_batch,
            rank=here.rank,
            world_size=here.world_size,
        )
        for name, shards in sources.held_out.items()
    }


def keys_of(sets: Iterable[ShardSet]) -> list[str]:
    """Names of shard sets by content, so that a phase goes on where another has read the same."""
    keys: list[str] = []
    for one in sets:
        content = one.manifest.content_fingerprint
        keys.append(f"{content}#{sum(key.startswith(content) for key in keys)}")
    return keys


def entry(phase: Phase, batch: int, rows: RowsRead) -> Position:
    """Where a phase begins whose first batch has number `batch`, after these rows were read."""
    cursors = tuple(rows.get(key, 0) for key in keys_of(phase.sources.train.values()))
    return Position(phase=phase.number, batch=batch, cursors=cursors, begun=cursors)


def rows_behind(phase: Phase, loader: Loader, batch: int, rows: RowsRead) -> dict[str, int]:
    """The rows read when `phase` ends in front of batch number `batch`."""
    cursors = loader.position_after(batch - 1).cursors
    return {**rows, **dict(zip(keys_of(phase.sources.train.values()), cursors, strict=True))}
