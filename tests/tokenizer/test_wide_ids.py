"""Vocabularies of over 65,536 ids: 32-bit tokens from text to a masked batch."""

from pathlib import Path

import numpy as np
import pytest

from data_prep.config import Ray
from data_prep.verify import verify
from mlmdist.data.loader import Loader
from mlmdist.data.sequence import Position
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import SPECIAL_TOKENS, load_tokenizer
from mlmdist.train.sources import open_sources
from tests.data_prep.corpus import WORDS
from tests.data_prep.inline import make_all, write_corpus
from tests.train.corpus import recipe

NUM_PIECES = 70_000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prep output whose words stand at the end of a long vocabulary."""
    home = tmp_path_factory.mktemp("wide")
    words = sorted({*WORDS, *(word.capitalize() for word in WORDS), "."})
    fillers = [f"filler{number}" for number in range(NUM_PIECES - len(words) - 5)]
    (home / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *fillers, *words]))
    tokenizer = {"kind": "wordpiece", "path": str(home / "vocab.txt")}
    make_all(home / "prep", write_corpus(home / "text.jsonl"), tokenizer=tokenizer)
    return home / "prep"


def test_tokens_are_stored_in_32_bits_and_verified(made: Path) -> None:
    block = ShardSet.open(made / "shards" / "train").read_block(0)
    assert block.tokens.dtype == np.uint32
    assert (block.tokens >= 1 << 16).mean() > 0.95
    assert verify(made / "shards", Ray(workers=1)) == []
    tokenizer = load_tokenizer(made / "tokenizer")
    assert "the old river" in tokenizer.decode(tokenizer.encode(["the old river ran"])[0])
    decoded = tokenizer.decode(block.tokens[: block.window_ptr[1]].tolist())
    assert set(decoded.lower().replace(".", " ").split()) <= set(WORDS)


def test_they_reach_the_batch_whole(made: Path, tmp_path: Path) -> None:
    data = {"tokenizer": made / "tokenizer", "pair": "none"}
    data |= {side: made / "shards" / side for side in ("train", "held_out")}
    config = recipe(tmp_path, tmp_path / "run", data=data, model={"max_positions": 48})
    sources = open_sources(config)
    assert sources.tokenizer.vocabulary.size == NUM_PIECES
    loader = Loader(
        config.data, shards=tuple(sources.train.values()),
        vocabulary=sources.tokenizer.vocabulary, seed=1, global_batch=32, micro_batch=32, rank=0,
        world_size=1, position=Position(), num_batches=1,
    )  # fmt: skip
    (batch,) = loader
    loader.close()
    tokens, labels = batch.micro_batches[0].tokens, batch.micro_batches[0].labels
    assert tokens.max() < NUM_PIECES
    assert (labels >= 1 << 16).mean() > 0.95
    assert (tokens == sources.tokenizer.vocabulary.mask_id).any()
