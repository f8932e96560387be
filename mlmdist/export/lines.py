"""The lines on which an export's token ids are compared."""

import logging
from itertools import pairwise
from pathlib import Path

from mlmdist.config.data import Data
from mlmdist.errors import DataError
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import Tokenizer

log = logging.getLogger(__name__)

MAX_WINDOWS = 1024

PROBES = (
    "The capital of France is Paris.",
    "  Spaces \t before,\u00a0between\u3000and\nafter ",
    "It was founded in 1990; 12,345 people (6.7%) live there\u2026",
    "\uff26\uff55\uff4c\uff4c\uff57\uff49\uff44\uff54\uff48, \ufb01ligree, x\u00b2 and \u2460",
    "cafe\u0301, na\u00efve, A\u030a, \u1e9b\u0323 and \u1100\u1161\u11a8",
    "\u5357\u4eac\u5e02\u957f\u6c5f\u5927\u6865\uff0c\u5efa\u4e8e1968\u5e74\u3002",
    "\u041c\u043e\u0441\u043a\u0432\u0430 \u0438 \u05d9\u05e8\u05d5\u05e9\u05dc\u05d9\u05dd",
    "A page about BERT says [MASK], [CLS] and [SEP]; they are text: [PAD][UNK].",
    "\U0001f600 and \U00013000 are rarely in a vocabulary",
    "aaaaaaaaaaaaa -------------- ....... 000000",
    "don't state-of-the-art http://example.org/?q=1&r=2",
    "",
)
"""Text of the kinds that tokenizers disagree on."""


def from_file(path: Path) -> list[str]:
    """The lines of a UTF-8 text file; raises DataError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not readable as lines of UTF-8 text ({error})") from None


def from_shards(data: Data, tokenizer: Tokenizer) -> list[str]:
    """The text of the first windows of the held-out set, or else of the training set.

    Where the run's shards are not at hand there are none, which is logged: `PROBES` are left.
    """
    folder = (data.held_out_sets or data.corpora)[0].path
    try:
        shards = ShardSet.open(folder)
        block = shards.read_block(0)
        shards.close()
    except (DataError, OSError) as error:
        log.warning("no lines from the run's shards (%s): token ids are compared on probes", error)
        return []
    bounds = block.window_ptr[: MAX_WINDOWS + 1].tolist()
    windows = [block.tokens[a:b].tolist() for a, b in pairwise(bounds)]
    return [tokenizer.decode(window) for window in windows]
