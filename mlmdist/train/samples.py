"""What a step of a run saw, as text: every row with its mask, its labels and where it comes from.

Made anew from the run's config and its shards, so no checkpoint and no log is needed; no torch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlmdist.config.pretrain import Pretrain
from mlmdist.data.batch import MicroBatch
from mlmdist.data.loader import Loader
from mlmdist.data.mask_weights import word_keys
from mlmdist.data.pairs import Spans
from mlmdist.data.reader import Windows
from mlmdist.data.sequence import Position
from mlmdist.data.stand_in import NO_DOCUMENT
from mlmdist.errors import ConfigError, DataError
from mlmdist.tokenizer import SPACE, Tokenizer
from mlmdist.train import folder
from mlmdist.train.record import PREFIX, Record
from mlmdist.train.sources import Sources, open_sources

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
    if not 1 <= step <= config.train.steps:
        raise ConfigError(f"--step {step}: must be from 1 to {config.train.steps}, the run's steps")
    sources = open_sources(config)
    made = _make(config, sources, step - 1, _newest_position(run))
    num_rows = len(made.batch.weights)
    if row is not None and not 0 <= row < num_rows:
        raise ConfigError(f"--row {row}: must be from 0 to {num_rows - 1}, the rows of the step")
    yield _head(step, made)
    for number in range(num_rows) if row is None else [row]:
        yield ""
        yield from _row_lines(number, made, config, sources)


def _make(config: Pretrain, sources: Sources, number: int, position: Position) -> Step:
    loader = Loader(
        config.data,
        shards=tuple(sources.train.values()),
        vocabulary=sources.tokenizer.vocabulary,
        seed=config.seed,
        global_batch=config.train.global_batch,
        micro_batch=config.train.global_batch,
        rank=0,
        world_size=1,
        position=position,
        num_batches=config.train.steps,
        listed=word_keys(sources.listed),
        checked=True,
    )
    cells = loader.cells(number)
    windows, spans = loader.assembler.rows(cells)
    return Step(loader.batch(number).micro_batches[0], windows, spans)


def _newest_position(run: Path) -> Position:
    """Where the newest checkpoint stands: it knows whether weights were changed on the way."""
    for path in sorted((run / folder.CHECKPOINTS).glob(f"{PREFIX}*"), reverse=True):
        try:
            return Position.from_json(Record.read(path).position)
        except DataError:
            continue
    return Position()


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
