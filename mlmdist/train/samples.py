"""What a step of a run saw, as text: every row with its mask, its labels and where it comes from.

Made anew from the run's config and its shards, so no checkpoint and no log is needed; no torch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from mlmdist.config.pretrain import Pretrain
from mlmdist.data.batch import MicroBatch
from mlmdist.data.loader import Loader
from mlmdist.data.pairs import Spans
from mlmdist.data.reader import Windows
from mlmdist.data.sequence import Position
from mlmdist.data.stand_in import NO_DOCUMENT
from mlmdist.dist import Place
from mlmdist.errors import ConfigError, DataError
from mlmdist.tokenizer import SPACE, Tokenizer
from mlmdist.train import folder
from mlmdist.train.budget import ENDLESS
from mlmdist.train.phase_data import entry, loader_of, rows_behind
from mlmdist.train.phases import Phase, open_phases
from mlmdist.train.record import PREFIX, Record
from mlmdist.train.sources import Sources
from mlmdist.train.state import TrainState

ORDINAL_BITS = 40
PAIR_LABELS = {
    "nsp": {0: "B follows A", 1: "B is from elsewhere", -100: "no label"},
    "sop": {0: "in order", 1: "swapped", -100: "no label"},
    "none": {-100: "no label"},
}


@dataclass(frozen=True)
class Step:
    """The rows of one step, whole, whatever ranks it was cut for."""

    batch: MicroBatch
    windows: Windows
    spans: Spans


def show(run: Path, step: int, row: int | None = None) -> Iterator[str]:
    """Lines that say what step number `step`, from 1 on as in the metrics, saw; or one row of it.

    A masked place stands as {what the model sees|what it is to say}. Raises ConfigError for a step
    or row that the run does not have, and DataError if config or shards are not there.
    """
    config = folder.saved_config(run)
    if config is None:
        raise DataError(f"{run}: no {folder.CONFIG}, so no run began here")
    phases, record = open_phases(config), _newest_record(run)
    phase, position = _place(phases, step - 1, record)
    made = _make(phase, position, step - 1)
    num_rows = len(made.batch.weights)
    if row is not None and not 0 <= row < num_rows:
        raise ConfigError(f"--row {row}: must be from 0 to {num_rows - 1}, the rows of the step")
    yield _head(step, made)
    for number in range(num_rows) if row is None else [row]:
        yield ""
        yield from _row_lines(number, made, phase.config, phase.sources)


def _make(phase: Phase, position: Position, number: int) -> Step:
    loader = _loader(phase, position)
    windows, spans = loader.assembler.rows(loader.cells(number))
    return Step(loader.batch(number).micro_batches[0], windows, spans)


def _loader(phase: Phase, position: Position) -> Loader:
    """The loader of a phase, which makes whole batches."""
    rows = phase.config.train.global_batch
    return loader_of(
        phase, Place(), position, ENDLESS, lambda: None, micro_batch=rows, checked=True
    )


def _place(phases: tuple[Phase, ...], number: int, record: Record | None) -> tuple[Phase, Position]:
    """The phase of batch `number`, and a position in it: where it begins, or the newest known.

    The newest checkpoint knows whether weights were changed on the way, and when phases by the
    clock ended. Raises ConfigError for a batch that the run does not have.
    """
    state = TrainState.from_json(record.counters) if record else TrainState()
    newest = Position.from_json(record.position) if record else None
    rows: dict[str, int] = {}
    first = 0
    for phase, behind in zip(phases, _ends(phases, state), strict=False):
        if 0 <= number < behind:
            at_hand = newest is not None and newest.phase == phase.number
            position = newest if at_hand and newest else entry(phase, first, rows)
            return phase, position
        rows = rows_behind(phase, _loader(phase, entry(phase, first, rows)), behind, rows)
        first = behind
    raise ConfigError(f"--step {number + 1}: must be from 1 to {first}, the run's steps")


def _ends(phases: tuple[Phase, ...], state: TrainState) -> list[int]:
    """The number behind the last batch of each phase, as far as that is known."""
    if phases[0].seconds is not None:
        return [*state.begins[1:], max(1, state.batch)]
    return list(accumulate(phase.num_batches or 0 for phase in phases))


def _newest_record(run: Path) -> Record | None:
    """That of the newest checkpoint which has one."""
    for path in sorted((run / folder.CHECKPOINTS).glob(f"{PREFIX}*"), reverse=True):
        try:
            return Record.read(path)
        except DataError:
            continue
    return None


def _head(step: int, made: Step) -> str:
    batch = made.batch
    labels, counts = np.unique(batch.pair_labels, return_counts=True)
    pairs = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    return (
        f"step {step:,}: {len(batch.weights):,} rows, {len(batch.tokens):,} tokens, "
        f"{len(batch.labels):,} masked; pair labels: {pairs.get(0, 0):,} of 0, "
        f"{pairs.get(1, 0):,} of 1, {pairs.get(-100, 0):,} without"
    )


def _row_lines(number: int, made: Step, config: Pretrain, sources: Sources) -> Iterator[str]:
    batch, spans, names = made.batch, made.spans, list(sources.train)
    label = int(batch.pair_labels[number])
    first, stop = batch.cu_lengths[number : number + 2].tolist()
    masked = np.count_nonzero((batch.masked_index >= first) & (batch.masked_index < stop))
    meaning = PAIR_LABELS[config.data.pair].get(label, "no label")
    yield f"row {number}: {stop - first} tokens, {masked} masked, pair label {label} ({meaning})"
    yield f"  A  {_origin(int(spans.first_window[number]), made.windows, names)}"
    if spans.second_window[number] >= 0:
        yield f"  B  {_origin(int(spans.second_window[number]), made.windows, names)}"
    yield f"  {_text(batch, first, stop, sources.tokenizer)}"


def _origin(window: int, windows: Windows, names: list[str]) -> str:
    """Where a window comes from."""
    document = int(windows.document_id[window])
    if document == NO_DOCUMENT:
        return "left out: its block is damaged"
    source, ordinal = document >> ORDINAL_BITS, document & ((1 << ORDINAL_BITS) - 1)
    return (
        f"corpus {names[int(windows.corpus[window])]}, source {source}, document {ordinal}, "
        f"window {windows.window_number[window]}, epoch {windows.epoch[window]}"
    )


def _text(batch: MicroBatch, first: int, stop: int, tokenizer: Tokenizer) -> str:
    """The tokens [first, stop) as text, masked ones as {seen|wanted}."""
    wanted = dict(zip(batch.masked_index.tolist(), batch.labels.tolist(), strict=True))
    runs: list[str] = []
    for place in range(first, stop):
        seen = tokenizer.pieces[batch.tokens[place]]
        if place in wanted:
            original = tokenizer.pieces[wanted[place]]
            space = " " * original.startswith(SPACE)
            runs.append(f"{space}{{{seen.lstrip(SPACE)}|{original.lstrip(SPACE)}}}")
        elif tokenizer.vocabulary.sep_id == batch.tokens[place]:
            runs.append(f" {seen} ")
        else:
            runs.append(seen.replace(SPACE, " "))
    return " ".join("".join(runs).split())
