"""What a finished run came to, on one screen: data, loss against what is trivial, speed, blanks."""

import json
import math
import os
import shlex
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlmdist.data.unigram import cross_entropy
from mlmdist.errors import DataError
from mlmdist.logs import quantity
from mlmdist.scoring.blanks import Blank, find_blanks
from mlmdist.scoring.run import Trained, open_run
from mlmdist.shards import ShardSet
from mlmdist.tracking.opening import last_opening, tracking_uri


def summary(run: Path) -> str:
    """The run's summary, for a person; raises DataError if it has not logged anything yet."""
    trained = open_run(run)
    history = _history(run)
    data = trained.config.data
    train = ShardSet.open(data.corpora[0].path)
    held_out = ShardSet.open(data.held_out_sets[0].path) if data.held_out_sets else None
    rows = [*_data_rows(train, held_out), *_loss_rows(trained, history, train, held_out)]
    lines = [f"{run.resolve().name}: {trained.step:,} steps", ""]
    lines += [f"  {name:<14}{text}" for name, text in rows]
    text = "The capital of France is [MASK]."
    if held_out:
        blanks = find_blanks(trained.model, trained.tokenizer, train, held_out)
        lines += ["", *_blank_lines(blanks)]
        text = blanks[0].sentence if blanks else text
    return "\n".join([*lines, "", *_next_lines(run, text)])


def _data_rows(train: ShardSet, held_out: ShardSet | None) -> Iterator[tuple[str, str]]:
    manifest = train.manifest
    documents = f"{manifest.num_documents:,} to train on"
    tokens = f"{manifest.num_tokens - manifest.num_repeated:,} to train on"
    if held_out:
        documents += f", {held_out.manifest.num_documents:,} held out"
        tokens += f", {held_out.manifest.num_tokens - held_out.manifest.num_repeated:,} held out"
    dropped = manifest.balance.get("documents", {}).get("dropped", {})
    if dropped:
        documents += f" (dropped: {_listed(dropped)})"
    yield "documents", documents
    yield "tokens", f"{tokens}; vocabulary {manifest.vocab_size:,}"


def _loss_rows(
    trained: Trained, history: dict[str, list[float]], train: ShardSet, held_out: ShardSet | None
) -> Iterator[tuple[str, str]]:
    first, last = history["train/mlm_loss"][0], history["train/mlm_loss"][-1]
    chance = math.log(train.manifest.vocab_size)
    yield "training loss", f"{first:.2f} -> {last:.2f} nats a masked token; ln(V) is {chance:.2f}"
    if held_out and "held_out/mlm_loss" in history:
        loss = history["held_out/mlm_loss"][-1]
        unigram = cross_entropy(train.read_unigram(), held_out.read_unigram())
        yield "held-out loss", f"{loss:.2f} nats; {_against(unigram - loss)} word frequency alone"
        yield "", f"({unigram:.2f}, the training unigram on the held-out text)"
        yield "accuracy", f"{history['held_out/mlm_accuracy'][-1]:.1%} of the masked tokens"
        pair = trained.config.data.pair
        pairs = history.get(f"held_out/{pair}_accuracy", [])
        if pairs and not math.isnan(pairs[-1]):
            task = "next sentence" if pair == "nsp" else "sentence order"
            yield task, f"{pairs[-1]:.1%} right; chance is 50 %"
    speed = sorted(history.get("train/tokens_per_second", [0.0]))
    yield "speed", f"{quantity(speed[len(speed) // 2])} tokens/s (median)"


def _against(gain: float) -> str:
    return f"{gain:.2f} under" if gain > 0 else f"{-gain:.2f} OVER"


def _blank_lines(blanks: list[Blank]) -> Iterator[str]:
    if not blanks:
        yield "  No held-out word was found where frequency does not find it: train longer."
        return
    yield "  Held-out words that the model finds better than their frequency does:"
    for blank in blanks:
        guess = "its first answer" if blank.rank == 1 else f"answer {blank.rank}"
        yield ""
        yield from (f"    {line}" for line in textwrap.wrap(blank.sentence, 88))
        yield (
            f"      [MASK] = {blank.word}: {blank.probability:.2%} ({guess}); "
            f"by frequency {blank.unigram_probability:.2%}"
        )


def _next_lines(run: Path, text: str) -> Iterator[str]:
    opening = last_opening(run)
    uri = tracking_uri(opening) if opening else ""
    if uri.startswith("sqlite"):
        yield f"  See the run:  {_command('mlflow')} ui --backend-store-uri {uri}"
        yield "                then http://127.0.0.1:5000, Model training at the top left"
    elif uri:
        yield f"  See the run:  {uri}"
    yield f"  Ask it:       {_command('mlmdist')} fill {run} {shlex.quote(text)}"


def _command(name: str) -> str:
    """How a command of this environment is called from here."""
    path = Path(sys.executable).with_name(name)
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _history(run: Path) -> dict[str, list[float]]:
    """Every metric's values in the order of steps."""
    path = run / "metrics.jsonl"
    if not path.is_file():
        raise DataError(f"{run}: no metrics.jsonl, so nothing was trained in it yet")
    history: dict[str, list[float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record: dict[str, Any] = json.loads(line)
        for name, value in record.items():
            history.setdefault(name, []).append(float(value))
    if "train/mlm_loss" not in history:
        raise DataError(f"{run}: metrics.jsonl holds no train/mlm_loss; let it train on")
    return history


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
