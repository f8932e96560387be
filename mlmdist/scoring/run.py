"""What a pretraining run left: its config, its newest or a named checkpoint, its tokenizer."""

from dataclasses import dataclass
from pathlib import Path

from mlmdist.config.loading import load
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import DataError
from mlmdist.model.bert import Bert
from mlmdist.tokenizer import Tokenizer
from mlmdist.train.checkpoint import load_weights

CONFIG_NAME = "config.yaml"
LATEST_NAME = "latest"
CHECKPOINTS_NAME = "checkpoints"


@dataclass(frozen=True)
class Trained:
    """The model of one checkpoint, ready to answer, with what it was trained with."""

    checkpoint: Path
    config: Pretrain
    model: Bert
    tokenizer: Tokenizer


def is_run(path: Path) -> bool:
    """Whether `path` is a run folder or a checkpoint in one."""
    return _run_of(path) is not None


def open_run(path: Path) -> Trained:
    """The model of a checkpoint, or of the newest one of a run folder, in evaluation mode.

    Raises DataError if there is none, or its tokenizer is not where the config says or another.
    """
    run = _run_of(path)
    if run is None:
        raise DataError(
            f"{path}: neither a run folder ({CONFIG_NAME}, {LATEST_NAME}) nor a checkpoint in one"
        )
    checkpoint = path if run != path else _newest(run)
    config = load(Pretrain, run / CONFIG_NAME, [])
    weights = load_weights(checkpoint)
    tokenizer = _tokenizer(config.data.tokenizer, run)
    vocab_size = len(weights["mlm_head.bias"])
    if tokenizer.vocabulary.size != vocab_size:
        raise DataError(
            f"{config.data.tokenizer}: {tokenizer.vocabulary.size} pieces, the model of {run} has "
            f"{vocab_size}; put the tokenizer that it was trained with in its place"
        )
    model = Bert(config.model, vocab_size)
    model.load_state_dict(weights)
    return Trained(checkpoint, config, model.eval(), tokenizer)


def _run_of(path: Path) -> Path | None:
    """The run folder that `path` is, or in which it is a checkpoint."""
    if (path / CONFIG_NAME).is_file():
        return path
    run = path.resolve().parent.parent
    is_checkpoint = path.is_dir() and path.resolve().parent.name == CHECKPOINTS_NAME
    return run if is_checkpoint and (run / CONFIG_NAME).is_file() else None


def _newest(run: Path) -> Path:
    pointer = run / LATEST_NAME
    if not pointer.is_file():
        raise DataError(f"{run}: no checkpoint yet (no file {LATEST_NAME}); let it run on")
    return run / CHECKPOINTS_NAME / pointer.read_text(encoding="utf-8").strip()


def _tokenizer(folder: Path, run: Path) -> Tokenizer:
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder, but {run / CONFIG_NAME} names it as the tokenizer; start "
            f"from the folder that training was started from, or set data.tokenizer there"
        )
    return Tokenizer.load(folder)
