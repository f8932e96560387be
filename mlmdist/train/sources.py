"""What a run reads: shard sets and tokenizer, opened and checked against each other; no torch."""

import logging
import math
from dataclasses import dataclass
from pathlib import Path

from mlmdist.config.pretrain import Pretrain
from mlmdist.data.masks import MASK_VERSION
from mlmdist.data.order import ORDER_VERSION
from mlmdist.data.pairs import PAIR_VERSION
from mlmdist.data.unigram import cross_entropy
from mlmdist.errors import ConfigError, DataError
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import Tokenizer, load_tokenizer
from mlmdist.train import identity

log = logging.getLogger(__name__)

VERSIONS = {"order": ORDER_VERSION, "pair": PAIR_VERSION, "mask": MASK_VERSION}


@dataclass(frozen=True)
class Sources:
    """Open shard sets and the tokenizer they were made with."""

    train: ShardSet
    held_out: ShardSet | None
    tokenizer: Tokenizer

    def identity(self, config: Pretrain) -> identity.Identity:
        """What the run is, to be compared when it resumes (law T2)."""
        manifest = self.train.manifest
        data = identity.of_data(manifest.content_fingerprint, manifest.tokenizer_hash, VERSIONS)
        return data | identity.of_config(config)

    def levels(self) -> dict[str, float]:
        """Losses in nats to compare with: a uniform guess, and the training set's unigram."""
        levels = {"ln V": math.log(self.tokenizer.vocabulary.size)}
        if self.held_out is not None:
            levels["unigram"] = cross_entropy(
                self.train.read_unigram(), self.held_out.read_unigram()
            )
        return levels


def open_sources(config: Pretrain) -> Sources:
    """The run's shard sets and tokenizer.

    Raises DataError if one is missing or damaged or they do not belong together, ConfigError if the
    model's rows are too short for the windows.
    """
    tokenizer = load_tokenizer(config.data.tokenizer)
    train = _open(config.data.train, tokenizer)
    held_out = None if config.data.held_out is None else _open(config.data.held_out, tokenizer)
    for shards in (train, held_out):
        if shards is not None and shards.manifest.max_seq_len > config.model.max_positions:
            raise ConfigError(
                f"model.max_positions={config.model.max_positions} must be at least the rows' "
                f"length in {shards.folder}, {shards.manifest.max_seq_len}"
            )
    if held_out is not None and _is_same(train, held_out):
        log.warning("data.held_out holds the same windows as data.train: its loss says little")
    return Sources(train, held_out, tokenizer)


def _is_same(one: ShardSet, other: ShardSet) -> bool:
    return one.manifest.content_fingerprint == other.manifest.content_fingerprint


def _open(folder: Path, tokenizer: Tokenizer) -> ShardSet:
    shards = ShardSet.open(folder)
    if shards.manifest.tokenizer_hash != tokenizer.hash:
        raise DataError(
            f"{folder}: made with tokenizer {shards.manifest.tokenizer_hash[:12]}, data.tokenizer "
            f"is {tokenizer.hash[:12]}; give the tokenizer the shards were made with"
        )
    if shards.manifest.num_windows == 0:
        raise DataError(f"{folder}: holds no window; make the shards from more text")
    return shards
