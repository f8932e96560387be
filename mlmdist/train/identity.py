"""What must not change between the parts of one run (law T2), field by field."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import ConfigError

log = logging.getLogger(__name__)

Identity = dict[str, Any]

CONFIG_FIELDS = (
    "seed",
    "data.pair",
    "data.order",
    "data.mask",
    "train.global_batch",
    "init_from.embeddings_only_steps",
    "model",
    "optimizer.kind",
    "train.precision",
    "train.zero_stage",
)
FIXED_BY_THE_FILES = (
    "init_from.embeddings_only_steps",
    "model",
    "optimizer.kind",
    "train.precision",
    "train.zero_stage",
)


def of_config(config: Pretrain) -> Identity:
    """The config's part: every field whose change would make another run, by its dotted path."""
    values = dict(leaves(config.model_dump(mode="json")))
    return {path: value for path, value in values.items() if _is_under(path, CONFIG_FIELDS)}


def of_data(
    contents: Mapping[str, str],
    parts: Mapping[str, int],
    tokenizer_hash: str,
    versions: Mapping[str, int],
) -> Identity:
    """The data's part: fingerprints by corpus, not paths, so that a shard set may move.

    `data.train` is in every identity: the one fingerprint, or else the corpora with their parts of
    the mixture, each having its fingerprint under `data.train.NAME`.
    """
    named = {f"{name} version": number for name, number in versions.items()}
    if len(contents) == 1:
        train: Identity = {"data.train": next(iter(contents.values()))}
    else:
        mixed = ", ".join(f"{name} {part}/{sum(parts.values())}" for name, part in parts.items())
        train = {"data.train": mixed}
        train |= {f"data.train.{name}": content for name, content in contents.items()}
    return {**train, "data.tokenizer": tokenizer_hash, **named}


def refuse_changes(
    saved: Identity, now: Identity, *, accepted: Iterable[str] = (), where: str
) -> None:
    """Raise ConfigError naming every field that differs, but for those `accepted` by path.

    Fields that only one side knows are passed over: a field that is new in this version has no
    saved value to keep. What the checkpoint's files fix cannot be accepted.
    """
    changed = [path for path in saved if path in now and saved[path] != now[path]]
    waved = [path for path in changed if _is_under(path, tuple(accepted))]
    fixed = [path for path in waved if _is_under(path, FIXED_BY_THE_FILES)]
    for path in waved:
        log.warning("%s changes from %s to %s, as accepted", path, saved[path], now[path])
    refused = [path for path in changed if path not in waved] + fixed
    if refused:
        listed = "; ".join(
            f"{path} is {now[path]!r} here, {saved[path]!r} there" for path in refused
        )
        raise ConfigError(
            f"{where} is another run: {listed}; give another folder with run=..., or what it was "
            f"begun with{_way_out(refused)}"
        )


def _way_out(refused: list[str]) -> str:
    free = [path for path in refused if not _is_under(path, FIXED_BY_THE_FILES)]
    return f", or --accept {' --accept '.join(free)}" if len(free) == len(refused) else ""


def _is_under(path: str, fields: tuple[str, ...]) -> bool:
    return any(path == field or path.startswith(f"{field}.") for field in fields)


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """The values of nested mappings, each with its dotted path."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
