"""The MODEL argument of the commands: a run, a checkpoint, or any Hugging Face BERT directory."""

from dataclasses import dataclass
from pathlib import Path

from mlmdist.errors import DataError
from mlmdist.model.bert import Bert
from mlmdist.model.directory import CONFIG_NAME
from mlmdist.model.huggingface import load
from mlmdist.scoring.run import is_run, open_run
from mlmdist.scoring.text import HuggingFaceText, Text, text_of


@dataclass(frozen=True)
class Scorer:
    """A model in evaluation mode, with the tokenizer it understands."""

    model: Bert
    text: Text


def open_model(path: Path) -> Scorer:
    """The model at `path` with its tokenizer.

    Raises DataError if there is none, or one without a masked language model head.
    """
    if is_run(path):
        trained = open_run(path)
        return Scorer(trained.model, text_of(trained.tokenizer))
    if not (path / CONFIG_NAME).is_file():
        raise DataError(
            f"{path}: no model; must be a run folder, a checkpoint in one, or a Hugging Face "
            f"directory with {CONFIG_NAME}; nothing is fetched from the hub by name"
        )
    loaded = load(path)
    if any(name.startswith("mlm_head.") for name in loaded.missing):
        raise DataError(
            f"{path}: it has no masked language model head (cls.predictions), so it predicts no "
            f"token; pretraining can start from it"
        )
    return Scorer(loaded.model.eval(), HuggingFaceText(path))
