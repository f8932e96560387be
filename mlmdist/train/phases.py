"""The phases of a run: the config, the shard sets and the length of each; no torch.

A phase is a run's config with values of its own in their places, so whatever makes something of a
config makes it of a phase. A run without `phases` is one phase.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from mlmdist.config.pretrain import Pretrain
from mlmdist.config.train import Phase as PhaseConfig
from mlmdist.data.batch_size import BatchSize, growing
from mlmdist.errors import ConfigError
from mlmdist.tokenizer import NUM_SPECIAL_POSITIONS, load_tokenizer
from mlmdist.train.identity import Identity
from mlmdist.train.sources import Sources, open_sources


@dataclass(frozen=True)
class Phase:
    """One part of a run."""

    number: int
    name: str
    config: Pretrain
    """The run's, with this phase's values."""

    sources: Sources
    batch_size: BatchSize
    num_batches: int | None
    """Optimizer steps; None where the clock ends it."""

    seconds: float | None
    """Time on the clock; None where it ends by steps."""

    own_schedule: bool
    """Whether the rate rises and falls anew, or one schedule goes through all phases."""

    schedule_steps: int | None = None
    """Steps of its schedule; None where the clock ends it."""


def open_phases(config: Pretrain) -> tuple[Phase, ...]:
    """Every phase of the run, its shard sets opened.

    Raises DataError and ConfigError as `open_sources`, and ConfigError for a schedule longer than
    its steps, which are known from here on.
    """
    tokenizer = load_tokenizer(config.data.tokenizer)
    phases = []
    for number in range(max(1, len(config.phases))):
        own = config_of(config, number)
        sources = open_sources(own, tokenizer)
        batch_size = _batch_size(own)
        name = config.phases[number].name if config.phases else ""
        steps = _num_batches(own, sources, batch_size)
        phases.append(
            Phase(
                number=number,
                name=name or str(number + 1),
                config=own,
                sources=sources,
                batch_size=batch_size,
                num_batches=steps,
                seconds=own.train.time,
                own_schedule=has_own_schedules(config),
            )
        )
    return tuple(_with_schedules(config, phases))


def config_of(config: Pretrain, number: int) -> Pretrain:
    """The run's config with the values of one of its phases."""
    if not config.phases:
        return config
    phase = config.phases[number]
    budget = {kind: getattr(phase, kind) for kind in phase.kinds}
    sections: dict[str, Any] = {
        "data": _given(phase, ("train", "held_out")),
        "train": budget | _given(phase, ("global_batch", "micro_batch")),
        "optimizer": _given(phase, ("learning_rate",)),
    }
    if number:
        sections["train"]["batch_warmup"] = None
    changed = {
        name: getattr(config, name).model_copy(update=values) for name, values in sections.items()
    }
    return config.model_copy(update=changed | {"phases": ()})


def has_own_schedules(config: Pretrain) -> bool:
    """Whether each phase has a schedule of its own."""
    return bool(config.phases) and config.phases[0].learning_rate is not None


def _given(phase: PhaseConfig, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(phase, name) for name in names if getattr(phase, name) is not None}


def _batch_size(config: Pretrain) -> BatchSize:
    warmup, rows = config.train.batch_warmup, config.train.global_batch
    if warmup is None:
        return BatchSize.of(rows)
    return growing(warmup.first, rows, warmup.steps, warmup.sizes)


def _num_batches(config: Pretrain, sources: Sources, batch_size: BatchSize) -> int | None:
    """Steps of the phase, whatever its budget is given in."""
    train = config.train
    if train.steps is not None:
        return train.steps
    if train.tokens is not None:
        return batch_size.batches_for(ceil(train.tokens / mean_length(sources)))
    if train.epochs is not None:
        windows = sum(one.manifest.num_windows for one in sources.train.values())
        return batch_size.batches_for(ceil(train.epochs * windows))
    return None


def mean_length(sources: Sources) -> float:
    """Tokens of a mean row of the mixture, specials counted."""
    manifests = [one.manifest for one in sources.train.values()]
    weighted = [
        part * manifest.num_tokens / manifest.num_windows
        for part, manifest in zip(sources.parts, manifests, strict=True)
    ]
    return sum(weighted) / sum(sources.parts) + NUM_SPECIAL_POSITIONS


def _with_schedules(config: Pretrain, phases: list[Phase]) -> Iterator[Phase]:
    """The phases, each with the steps of its schedule, which must fit them."""
    whole = sum(phase.num_batches or 0 for phase in phases)
    for phase in phases:
        if phase.num_batches is None:
            yield phase
            continue
        steps = phase.num_batches if phase.own_schedule else whole
        try:
            config.schedule.check(steps, "the budget's steps")
        except ValueError as error:
            raise ConfigError(str(error)) from None
        yield replace(phase, schedule_steps=steps)


def identity_of(phases: tuple[Phase, ...], current: int) -> Identity:
    """What the run is up to the phase `current` (law T2); what comes later is not fixed yet.

    The first phase has its fields without a prefix, so that phases may follow a run without.
    """
    whole = dict(phases[0].sources.identity(phases[0].config))
    *growing_ones, (full_from, _) = phases[0].batch_size.stages
    sizes = [f"{rows} rows from batch {first}" for first, rows in growing_ones]
    whole["train.batch_warmup"] = ", ".join([*sizes, f"whole from batch {full_from}"])
    for phase in phases[1 : current + 1]:
        own = phase.sources.identity(phase.config)
        changed = {path: value for path, value in own.items() if whole.get(path) != value}
        whole |= {f"phases.{phase.number}.{path}": value for path, value in changed.items()}
    for phase in phases[:current]:
        if phase.num_batches is not None:
            whole[f"phases.{phase.number}.steps"] = phase.num_batches
    return whole
