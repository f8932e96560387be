"""What a run reads: shard sets and tokenizer, opened and checked against each other; no torch."""

import hashlib
import json
import logging
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from mlmdist.block_cache import BlockCache
from mlmdist.config.data import Mask
from mlmdist.config.pretrain import Pretrain
from mlmdist.data.masks import MASK_VERSION
from mlmdist.data.mixture import MIXTURE_VERSION, ROUND_UNITS, parts_of
from mlmdist.data.order import ORDER_VERSION
from mlmdist.data.pairs import PAIR_VERSION
from mlmdist.data.unigram import cross_entropy
from mlmdist.errors import ConfigError, DataError
from mlmdist.files import AnyPath
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import Tokenizer, load_tokenizer
from mlmdist.train import identity

log = logging.getLogger(__name__)

VERSIONS = {
    "order": ORDER_VERSION,
    "mixture": MIXTURE_VERSION,
    "pair": PAIR_VERSION,
    "mask": MASK_VERSION,
}


@dataclass(frozen=True)
class Sources:
    """Open shard sets by name, and the tokenizer they were made with."""

    train: dict[str, ShardSet]
    """The corpora, in the order of the config."""

    parts: tuple[int, ...]
    """What each corpus gives to a round of the mixture, of `ROUND_UNITS`."""

    held_out: dict[str, ShardSet]
    tokenizer: Tokenizer
    listed: list[list[int]]
    """The words of `data.mask.word_list`, as tokens."""

    def identity(self, config: Pretrain) -> identity.Identity:
        """What the run is, to be compared when it resumes (law T2)."""
        contents = {name: one.manifest.content_fingerprint for name, one in self.train.items()}
        shares = dict(zip(contents, self.parts, strict=True))
        data = identity.of_data(contents, shares, self.tokenizer.hash, VERSIONS)
        whole = data | identity.of_config(config)
        if self.listed:  # what the list holds, so that the file may move
            text = json.dumps(self.listed).encode()
            whole["data.mask.word_list"] = hashlib.sha256(text).hexdigest()
        return whole

    def fingerprint(self) -> str:
        """The content fingerprints of the corpora, in order."""
        return " ".join(one.manifest.content_fingerprint for one in self.train.values())

    def levels(self) -> dict[str, float]:
        """Losses in nats to compare with: a uniform guess, and the mixture's unigram.

        Where there are several held-out sets, the unigram has a level on each of them too.
        """
        levels = {"ln V": math.log(self.tokenizer.vocabulary.size)}
        if self.held_out:
            train = self._unigram()
            held_out = {name: one.read_unigram() for name, one in self.held_out.items()}
            levels["unigram"] = cross_entropy(train, sum(held_out.values()))  # pyright: ignore[reportArgumentType]
            if len(held_out) > 1:
                named = {f"unigram {name}": counts for name, counts in held_out.items()}
                levels |= {name: cross_entropy(train, one) for name, one in named.items()}
        return levels

    def unigram_entropy(self) -> float:
        """The loss in nats of a guess by word frequency alone, on the text trained on."""
        counts = self._unigram()
        return cross_entropy(counts, counts)

    def _unigram(self) -> Int64[np.ndarray, "ids"]:
        """Counts of the ids in as many windows of the mixture as the corpora have together."""
        sets = list(self.train.values())
        if len(sets) == 1:
            return sets[0].read_unigram()
        num_windows = sum(one.manifest.num_windows for one in sets)
        mixed = [
            one.read_unigram() * (part / ROUND_UNITS * num_windows / one.manifest.num_windows)
            for one, part in zip(sets, self.parts, strict=True)
        ]
        return np.rint(np.sum(mixed, axis=0)).astype(np.int64)


def open_sources(config: Pretrain, tokenizer: Tokenizer | None = None) -> Sources:
    """The run's shard sets and tokenizer, which is read if it is not given.

    Raises DataError if one is missing or damaged or they do not belong together, ConfigError if the
    model's rows are too short for the windows or a corpus is too rare to be mixed in.
    """
    tokenizer = tokenizer or load_tokenizer(config.data.tokenizer)
    corpora = config.data.corpora
    parts = parts_of([corpus.weight for corpus in corpora], [corpus.name for corpus in corpora])
    cache = BlockCache.open(config.data.cache.folder, config.data.cache.gigabytes)
    train = {corpus.name: _open(corpus.path, tokenizer, cache) for corpus in corpora}
    held_out = {one.name: _open(one.path, tokenizer, cache) for one in config.data.held_out_sets}
    for shards in [*train.values(), *held_out.values()]:
        if shards.manifest.max_seq_len > config.model.max_positions:
            raise ConfigError(
                f"model.max_positions={config.model.max_positions} must be at least the rows' "
                f"length in {shards.folder}, {shards.manifest.max_seq_len}"
            )
    _warn_of_equals(train, held_out)
    return Sources(train, parts, held_out, tokenizer, _listed(config.data.mask, tokenizer))


def _listed(mask: Mask, tokenizer: Tokenizer) -> list[list[int]]:
    """The words of the mask's list, as tokens; raises DataError for a line that is no one word."""
    if mask.word_list is None:
        return []
    try:
        words = mask.word_list.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"data.mask.word_list: {mask.word_list} cannot be read ({error})") from None
    named = [(number, word) for number, word in enumerate(words, 1) if word.strip()]
    encoded = tokenizer.encode([word for _, word in named])
    for (number, word), tokens in zip(named, encoded, strict=True):
        ptr = np.array([0, len(tokens)])
        starts = tokenizer.word_starts(np.array(tokens, dtype=np.int32), ptr)
        if starts.sum() != 1:
            raise DataError(
                f"{mask.word_list}: line {number}, {word.strip()!r}, is {starts.sum()} words to "
                "the tokenizer; must be one a line"
            )
    return encoded


def _warn_of_equals(train: dict[str, ShardSet], held_out: dict[str, ShardSet]) -> None:
    """Say which sets are the same: one trained on twice, or one held out that is trained on."""
    seen: dict[str, AnyPath] = {}
    for one in train.values():
        twin = seen.setdefault(one.manifest.content_fingerprint, one.folder)
        if twin != one.folder:
            log.warning("data.train: %s holds the same windows as %s", one.folder, twin)
    for one in held_out.values():
        if one.manifest.content_fingerprint in seen:
            log.warning("data.held_out holds the same windows as data.train: its loss says little")


def _open(folder: AnyPath, tokenizer: Tokenizer, cache: BlockCache | None) -> ShardSet:
    shards = ShardSet.open(folder, cache)
    if shards.manifest.tokenizer_hash != tokenizer.hash:
        raise DataError(
            f"{folder}: made with tokenizer {shards.manifest.tokenizer_hash[:12]}, data.tokenizer "
            f"is {tokenizer.hash[:12]}; give the tokenizer the shards were made with"
        )
    if shards.manifest.num_windows == 0:
        raise DataError(f"{folder}: holds no window; make the shards from more text")
    return shards
