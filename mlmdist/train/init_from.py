"""Which weights a run begins from: the shape that they fix, and the hash that names them; no torch.

A run that has begun keeps its shape and its hash, so a resume does not need the directory.
"""

import hashlib
import logging
from pathlib import Path

from mlmdist.config.loading import build
from mlmdist.config.model import InitFrom, Model
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import ConfigError
from mlmdist.model.directory import read_config, weight_files
from mlmdist.train import folder
from mlmdist.train.old_vocabulary import tokenizer_file

log = logging.getLogger(__name__)

FIELD = "init_from"
FREE = ("dropout", "attention_dropout", "initializer_range")  # they shape no weight
READ_BYTES = 1 << 22


def settled(config: Pretrain) -> Pretrain:
    """The config with the shape of the weights that its run begins from, or began from.

    Raises ConfigError if the directory is not there or `model` contradicts it, DataError if it is
    not a BERT.
    """
    saved = folder.saved_config(config.run) if folder.has_begun(config.run) else None
    if saved is not None and (saved.init_from or config.init_from):
        model = saved.model
    elif config.init_from is not None:
        model = _shape(config.init_from, config.model)
    else:
        return config
    given = {name: getattr(config.model, name) for name in config.model.model_fields_set}
    shape = build(Model, model.model_dump() | given, "model")
    return config.model_copy(update={"model": shape})


def _shape(init_from: InitFrom, given: Model) -> Model:
    """The shape of the directory; raises ConfigError naming every field given otherwise."""
    if not init_from.path.is_dir():
        raise ConfigError(
            f"init_from.path={init_from.path}: there is no such directory; give a Hugging Face "
            "BERT directory (nothing is fetched from the hub by name)"
        )
    shape, _ = read_config(init_from.path)
    wrong = [
        f"model.{name} is {_value(given, name)!r} here, {_value(shape, name)!r} there"
        for name in Model.model_fields
        if name in given.model_fields_set and not _fits(name, given, shape)
    ]
    if wrong:
        raise ConfigError(
            f"init_from.path={init_from.path}: {'; '.join(wrong)}; leave them out: the shape is "
            "the directory's (max_positions alone may be larger)"
        )
    return shape


def _fits(name: str, given: Model, shape: Model) -> bool:
    if name == "max_positions":
        return given.max_positions >= shape.max_positions
    return name in FREE or _value(given, name) == _value(shape, name)


def _value(model: Model, name: str) -> object:
    return model.feed_forward_width if name == "intermediate" else getattr(model, name)


def content_hash(path: Path) -> str:
    """SHA-256 over the directory's weights and tokenizer, so that it may move and be renamed."""
    digest = hashlib.sha256()
    listed = [*weight_files(path), tokenizer_file(path)]
    for one in listed:
        if one is not None:
            digest.update(f"{one.name}\0{one.stat().st_size}\0".encode())
            with one.open("rb") as file:
                while part := file.read(READ_BYTES):
                    digest.update(part)
    return digest.hexdigest()


def identity(config: Pretrain, saved: str | None) -> str | None:
    """What `config` begins from, to be compared with the `saved` hash of a run that has begun.

    None for new weights. Where the directory is gone the run keeps what it began from.
    """
    if config.init_from is None:
        return None
    if saved is not None and not config.init_from.path.is_dir():
        log.info("%s is gone; its weights are in the checkpoint", config.init_from.path)
        return saved
    return content_hash(config.init_from.path)
