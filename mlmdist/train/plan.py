"""What a config comes to on so many ranks: every derived value, in one place; no torch."""

from dataclasses import dataclass

from mlmdist.config import loading
from mlmdist.config.pretrain import Pretrain
from mlmdist.data.masks import mean_rate
from mlmdist.data.mixture import ROUND_UNITS
from mlmdist.data.sequence import num_micro_batches
from mlmdist.logs import quantity
from mlmdist.tokenizer import NUM_SPECIAL_POSITIONS
from mlmdist.train import costs
from mlmdist.train.sources import Sources


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
    """Derived values of a run; none of them is ever written back to the config."""

    world_size: int
    num_steps: int
    num_warmup_steps: int
    rows_per_rank: int
    """Of the rank with the most rows."""

    accumulation: int
    """Micro-batches a step and rank."""

    corpora: tuple[CorpusPlan, ...]
    num_windows: int
    epochs: float
    """Rows of the run for each window there is."""

    tokens_per_step: float
    """With the special tokens; rows are not padded."""

    padding_share: float
    """Share of a padded batch that would be padding, which the model here never computes."""

    num_parameters: int
    flops_per_step: float
    memory_bytes: int
    checkpoint_bytes: int
    num_evaluations: int
    num_checkpoints: int


def make_plan(config: Pretrain, sources: Sources, world_size: int) -> Plan:
    """The plan of `config` on `world_size` ranks."""
    train, model = config.train, config.model
    rows = train.steps * train.global_batch
    corpora = _corpora(sources, rows)
    num_windows = sum(corpus.num_windows for corpus in corpora)
    vocab_size = sources.tokenizer.vocabulary.size
    length, longest = _lengths(sources, corpora)
    parameters = costs.num_parameters(model, vocab_size)
    flops = costs.flops_per_row(model, vocab_size, length, mean_rate(config.data.mask, train.steps))
    return Plan(
        world_size=world_size,
        num_steps=train.steps,
        num_warmup_steps=config.schedule.num_warmup_steps(train.steps),
        rows_per_rank=-(-train.global_batch // world_size),
        accumulation=num_micro_batches(train.global_batch, train.micro_batch, world_size),
        corpora=corpora,
        num_windows=num_windows,
        epochs=rows / num_windows,
        tokens_per_step=train.global_batch * length,
        padding_share=max(0.0, 1 - length / longest),
        num_parameters=parameters,
        flops_per_step=train.global_batch * flops,
        memory_bytes=costs.memory_bytes(parameters, train.precision, train.zero_stage, world_size),
        checkpoint_bytes=costs.checkpoint_bytes(parameters, train.precision),
        num_evaluations=_times(train.steps, config.every.evaluate, bool(sources.held_out)),
        num_checkpoints=_times(train.steps, config.every.save, due=True),
    )


def _corpora(sources: Sources, rows: int) -> tuple[CorpusPlan, ...]:
    """Each corpus, of which a run of `rows` rows reads its share."""
    listed = zip(sources.train.items(), sources.parts, strict=True)
    found = [(name, part / ROUND_UNITS, one.manifest.num_windows) for (name, one), part in listed]
    return tuple(CorpusPlan(name, share, n, rows * share / n) for name, share, n in found)


def _lengths(sources: Sources, corpora: tuple[CorpusPlan, ...]) -> tuple[float, int]:
    """Tokens of a mean row, specials counted, and of the longest that could be."""
    manifests = [one.manifest for one in sources.train.values()]
    mean = sum(
        corpus.share * manifest.num_tokens / manifest.num_windows
        for corpus, manifest in zip(corpora, manifests, strict=True)
    )
    return mean + NUM_SPECIAL_POSITIONS, max(manifest.max_seq_len for manifest in manifests)


def _beginning(config: Pretrain) -> list[tuple[str, str]]:
    """The weights that the run begins from, if they are there already."""
    if config.init_from is None:
        return []
    steps = config.init_from.embeddings_only_steps
    first = f"; only embeddings move for {steps:,} steps" if steps else ""
    return [("begins from", f"{config.init_from.path}{first}")]


def _times(steps: int, every: int, due: bool) -> int:
    """How often something is done that is also done after the last step."""
    return -(-steps // every) if due else 0


def text(plan: Plan, config: Pretrain) -> str:
    """The plan for a person, and the whole config behind it."""
    rows = [f"{label:<14}{value}" for label, value in _lines(plan, config)]
    return "\n".join([*rows, "", loading.dump(config)])


def _lines(plan: Plan, config: Pretrain) -> list[tuple[str, str]]:
    train = config.train
    tokens, flops = plan.tokens_per_step, plan.flops_per_step
    kept = min(config.every.keep, plan.num_checkpoints)
    micro_batch = min(train.micro_batch, plan.rows_per_rank)
    cut = f"{plan.world_size} ranks x {plan.accumulation} micro-batches of up to {micro_batch}"
    seen = f"{plan.num_windows:,} windows, {plan.epochs:.2f} epochs"
    mixed = [
        ("", f"{one.name}: {one.share:.2%}, {one.num_windows:,} windows, {one.epochs:.2f} epochs")
        for one in plan.corpora
        if len(plan.corpora) > 1
    ]
    all_tokens = f"{quantity(tokens)} tokens a step, {quantity(tokens * plan.num_steps)} in all"
    all_flops = f"{quantity(flops)}FLOP a step, {quantity(flops * plan.num_steps)}FLOP in all"
    return [
        ("run", f"{config.run}"),
        ("ranks", f"{plan.world_size}, ZeRO stage {train.zero_stage}, {train.precision}"),
        ("steps", f"{plan.num_steps:,}, of which {plan.num_warmup_steps:,} warm up"),
        ("batch", f"{train.global_batch:,} rows = {cut}"),
        *_beginning(config),
        ("data", f"{seen}, {all_tokens}"),
        *mixed,
        ("padding", f"none computed ({plan.padding_share:.0%} of padded rows would be padding)"),
        ("model", f"{quantity(plan.num_parameters)} parameters, {all_flops}"),
        ("memory", f"{quantity(plan.memory_bytes)}B a rank, and activations on top"),
        (
            "checkpoints",
            f"{plan.num_checkpoints} of {quantity(plan.checkpoint_bytes)}B, {kept} kept",
        ),
        ("evaluations", f"{plan.num_evaluations}"),
    ]
