"""What a pretraining run left: its config, its newest or a named checkpoint, its tokenizer."""

from dataclasses import dataclass
from pathlib import Path

from mlmdist.config.loading import load
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import DataError
from mlmdist.model.bert import Bert
from mlmdist.tokenizer import Tokenizer, load_tokenizer
from mlmdist.train.checkpoint import Record, load_weights, newest
from mlmdist.train.folder import CHECKPOINTS, CONFIG, LATEST
from mlmdist.train.phases import config_of


@dataclass(frozen=True)
class Trained:
    """The model of one checkpoint, ready to answer, with what it was trained with."""

    checkpoint: Path
    step: int
    config: Pretrain
    """That of the checkpoint's phase."""

    model: Bert
    tokenizer: Tokenizer


def is_run(path: Path) -> bool:
    """Whether `path` is a run folder or a checkpoint in one."""
    return _run_of(path) is not None


def open_run(path: Path) -> Trained:
    """The model of a checkpoint, or of the newest one of a run folder, in evaluation mode.

    Raises DataError if there is none, or its tokenizer is not where the config says or another.
    """
    run, checkpoint = find_checkpoint(path)
    weights = load_weights(checkpoint)
    record = Record.read(checkpoint)
    config = config_of(load(Pretrain, run / CONFIG, []), record.counters.get("phase", 0))
    tokenizer = _tokenizer(config.data.tokenizer, run, record.identity["data.tokenizer"])
    model = Bert(config.model, record.vocab_size)
    model.load_state_dict(weights)
    return Trained(checkpoint, record.step, config, model.eval(), tokenizer)


def find_checkpoint(path: Path) -> tuple[Path, Path]:
    """(run folder, checkpoint) for a checkpoint, or the newest of a run folder; else DataError."""
    run = _run_of(path)
    if run is None:
        raise DataError(
            f"{path}: neither a run folder ({CONFIG}, {LATEST}) nor a checkpoint in one"
        )
    return run, newest(run) if run == path else path


def _run_of(path: Path) -> Path | None:
    """The run folder that `path` is, or in which it is a checkpoint."""
    if (path / CONFIG).is_file():
        return path
    run = path.resolve().parent.parent
    is_checkpoint = path.is_dir() and path.resolve().parent.name == CHECKPOINTS
    return run if is_checkpoint and (run / CONFIG).is_file() else None


def _tokenizer(folder: Path, run: Path, wanted: str) -> Tokenizer:
    """The tokenizer in `folder`, if its hash is the one the run was trained with."""
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder, but {run / CONFIG} names it as the tokenizer; start "
            f"from the folder that training was started from, or set data.tokenizer there"
        )
    tokenizer = load_tokenizer(folder)
    if tokenizer.hash != wanted:
        raise DataError(
            f"{folder}: tokenizer {tokenizer.hash[:12]}, but {run} was trained with {wanted[:12]}; "
            f"put that one in its place"
        )
    return tokenizer
