"""What a config comes to on so many ranks: every derived value, in one place; no torch.

A run is the sum of its phases; each has a plan.
"""

from dataclasses import dataclass
from math import ceil

from mlmdist.config import loading
from mlmdist.config.budget import time_text
from mlmdist.config.pretrain import Pretrain
from mlmdist.data.masks import mean_rate
from mlmdist.data.sequence import num_micro_batches
from mlmdist.logs import clock, quantity
from mlmdist.train import costs
from mlmdist.train.phases import Phase, mean_length


@dataclass(frozen=True)
class CorpusPlan:
    """What a run reads of one corpus."""

    name: str
    share: float
    """Of the rows."""

    num_windows: int
    epochs: float


@dataclass(frozen=True)
class Plan:
    """Derived values of a phase; none of them is ever written back to the config."""

    name: str
    world_size: int
    num_steps: int | None
    """None where the clock ends it and nothing was said of the speed."""

    batch_rows: int
    """Of a full batch."""

    rows_per_rank: int
    """Of the rank with the most rows."""

    accumulation: int
    """Micro-batches a step and rank."""

    corpora: tuple[CorpusPlan, ...]
    num_windows: int
    num_rows: int | None
    """Rows of all its batches."""

    tokens_per_step: float
    """With the special tokens; rows are not padded."""

    padding_share: float
    """Share of a padded batch that would be padding, which the model here never computes."""

    num_parameters: int
    flops_per_step: float
    memory_bytes: int
    checkpoint_bytes: int
    wire_bytes: int
    """Sent by a rank in a step."""

    @property
    def epochs(self) -> float:
        """Rows for each window there is."""
        return (self.num_rows or 0) / self.num_windows

    @property
    def flops(self) -> float:
        """Arithmetic of the phase."""
        return self.flops_per_step / self.batch_rows * (self.num_rows or 0)

    @property
    def tokens(self) -> float:
        """Tokens of the phase."""
        return self.tokens_per_step / self.batch_rows * (self.num_rows or 0)


@dataclass(frozen=True)
class Speed:
    """How fast a rank is taken to be, so that time can be told."""

    mfu: float
    """Share of the peak that counted arithmetic reaches."""

    peak_flops: float
    """Of a rank, in FLOP/s."""

    def seconds(self, flops: float, world_size: int) -> float:
        """Time for so much arithmetic on all ranks together."""
        return flops / (self.mfu * self.peak_flops * world_size)


def make_plan(phase: Phase, world_size: int, speed: Speed | None = None) -> Plan:
    """The plan of a phase on `world_size` ranks."""
    config, sources = phase.config, phase.sources
    train, model, rows = config.train, config.model, config.train.global_batch
    vocab_size, length = sources.tokenizer.vocabulary.size, mean_length(sources)
    longest = max(one.manifest.max_seq_len for one in sources.train.values())
    parameters = costs.num_parameters(model, vocab_size)
    rate = mean_rate(config.data.mask, phase.num_batches or 1)
    flops = rows * costs.flops_per_row(model, vocab_size, length, rate)
    steps = phase.num_batches
    if phase.seconds is not None and speed is not None:
        steps = max(1, ceil(phase.seconds / speed.seconds(flops, world_size)))
    num_rows = None if steps is None else phase.batch_size.rows_before(steps)
    corpora = _corpora(phase, num_rows or 0)
    return Plan(
        name=phase.name,
        world_size=world_size,
        num_steps=steps,
        batch_rows=rows,
        rows_per_rank=-(-rows // world_size),
        accumulation=num_micro_batches(rows, train.micro_batch, world_size),
        corpora=corpora,
        num_windows=sum(corpus.num_windows for corpus in corpora),
        num_rows=num_rows,
        tokens_per_step=rows * length,
        padding_share=max(0.0, 1 - length / longest),
        num_parameters=parameters,
        flops_per_step=flops,
        memory_bytes=costs.memory_bytes(parameters, train.precision, train.zero_stage, world_size),
        checkpoint_bytes=costs.checkpoint_bytes(parameters, train.precision),
        wire_bytes=costs.wire_bytes(parameters, train.precision, train.zero_stage, world_size),
    )


def _corpora(phase: Phase, rows: int) -> tuple[CorpusPlan, ...]:
    """Each corpus, of which a phase of `rows` rows reads its share."""
    parts, sets = phase.sources.parts, phase.sources.train
    shares = [part / sum(parts) for part in parts]
    return tuple(
        CorpusPlan(name, share, n, rows * share / n)
        for (name, n), share in zip(
            ((name, one.manifest.num_windows) for name, one in sets.items()), shares, strict=True
        )
    )


def text(
    phases: tuple[Phase, ...], config: Pretrain, world_size: int, speed: Speed | None = None
) -> str:
    """The plan of a run for a person, and the whole config behind it."""
    plans = [make_plan(phase, world_size, speed) for phase in phases]
    rows = [f"{label:<14}{value}" for label, value in _lines(plans, phases, config, speed)]
    return "\n".join([*rows, "", loading.dump(config)])


Line = tuple[str, str]


def _lines(
    plans: list[Plan], phases: tuple[Phase, ...], config: Pretrain, speed: Speed | None
) -> list[Line]:
    train, plan = config.train, plans[0]
    lines = [
        ("run", f"{config.run}"),
        ("ranks", f"{plan.world_size}, ZeRO stage {train.zero_stage}, {train.precision}"),
        *_beginning(config),
    ]
    for number, (one, phase) in enumerate(zip(plans, phases, strict=True)):
        if len(plans) > 1:
            lines.append(("", ""))
            lines.append((f"phase {number + 1}", one.name if one.name != str(number + 1) else ""))
        lines += _phase_lines(one, phase)
    if len(plans) > 1:
        lines.append(("", ""))
    return lines + _whole_lines(plans, config, speed)


def _phase_lines(plan: Plan, phase: Phase) -> list[Line]:
    train = phase.config.train
    micro_batch = min(train.micro_batch, plan.rows_per_rank)
    cut = f"{plan.world_size} ranks x {plan.accumulation} micro-batches of up to {micro_batch}"
    growing = f", growing from {train.batch_warmup.first:,}" if train.batch_warmup else ""
    tokens = f"{quantity(plan.tokens_per_step)} tokens a step"
    seen = f"{plan.num_windows:,} windows, {plan.epochs:.2f} epochs"
    if plan.num_steps is None:
        seen = f"{plan.num_windows:,} windows"
    mixed = [
        ("", f"{one.name}: {one.share:.2%}, {one.num_windows:,} windows, {one.epochs:.2f} epochs")
        for one in plan.corpora
        if len(plan.corpora) > 1
    ]
    return [
        ("steps", _steps(plan, phase)),
        ("batch", f"{train.global_batch:,} rows{growing} = {cut}"),
        ("data", f"{seen}, {tokens}, {quantity(plan.tokens)} in all"),
        *mixed,
        ("padding", f"none computed ({plan.padding_share:.0%} of padded rows would be padding)"),
    ]


def _steps(plan: Plan, phase: Phase) -> str:
    """The steps of a phase, and those of its schedule that warm up."""
    schedule, steps = phase.config.schedule, plan.num_steps
    if phase.seconds is not None:
        told = "as many as" if steps is None else f"about {steps:,} in"
        share = f"of which {schedule.warmup:.0%} warm up"
        return f"{told} {time_text(phase.seconds)} take, {share}"
    assert steps is not None, "no clock, so the steps are known"
    if phase.number and not phase.own_schedule:
        return f"{steps:,}"
    return (
        f"{steps:,}, of which {schedule.num_warmup_steps(phase.schedule_steps or steps):,} warm up"
    )


def _whole_lines(plans: list[Plan], config: Pretrain, speed: Speed | None) -> list[Line]:
    plan, flops = plans[0], sum(one.flops for one in plans)
    steps = [one.num_steps for one in plans]
    known = sum(step for step in steps if step is not None) if None not in steps else None
    arithmetic = f"{quantity(plan.flops_per_step)}FLOP a step, {quantity(flops)}FLOP in all"
    lines = [
        ("model", f"{quantity(plan.num_parameters)} parameters, {arithmetic}"),
        ("memory", f"{quantity(plan.memory_bytes)}B a rank, and activations on top"),
        ("network", f"{quantity(plan.wire_bytes)}B sent by a rank in a step"),
        ("checkpoints", _checkpoints(plan, config, known)),
        ("evaluations", _times(known, config.every.evaluate) if _has_held_out(config) else "none"),
    ]
    if speed is not None and known is not None:
        taken = clock(speed.seconds(flops, plan.world_size))
        peak = f"{quantity(speed.peak_flops)}FLOP/s a rank"
        lines.append(("time", f"{taken} of steps, at {speed.mfu:.0%} of {peak}"))
    return lines


def _has_held_out(config: Pretrain) -> bool:
    return bool(config.data.held_out_sets) or any(phase.held_out for phase in config.phases)


def _checkpoints(plan: Plan, config: Pretrain, steps: int | None) -> str:
    size, keep = quantity(plan.checkpoint_bytes), config.every.keep
    if steps is None:
        return f"{_times(None, config.every.save)}, of {size}B each, {keep} kept"
    number = -(-steps // config.every.save)
    return f"{number} of {size}B, {min(keep, number)} kept"


def _times(steps: int | None, every: int) -> str:
    """How often something is done that is also done after the last step."""
    return f"one in {every:,} steps" if steps is None else f"{-(-steps // every)}"


def _beginning(config: Pretrain) -> list[Line]:
    """The weights that the run begins from, if they are there already."""
    if config.init_from is None:
        return []
    steps = config.init_from.embeddings_only_steps
    first = f"; only embeddings move for {steps:,} steps" if steps else ""
    return [("begins from", f"{config.init_from.path}{first}")]
