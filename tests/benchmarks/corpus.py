"""One set of windows in the forms that loaders read: our blocks, and a window a record."""

import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import webdataset
from tokenizers import Tokenizer, models
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

from mlmdist.blocks import Block
from mlmdist.tokenizer import Vocabulary
from mlmdist.windows import Text, cut
from tests.benchmarks import mosaic
from tests.data.corpus import block_of, write_set

CAPACITY, SPECIALS = 125, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@dataclass(frozen=True)
class Corpus:
    """One set of windows in two forms, and who reads them."""

    folder: Path
    samples: list[str]
    """Tars with one window a record."""

    blocks: list[str]
    mosaic: Path
    """What MosaicML Streaming's side is given."""

    vocabulary: Vocabulary
    collate: Callable[[list[Any]], Any]


def sample() -> Path:
    import gensim

    return Path(gensim.__file__).parent / "test" / "test_data" / "lee_background.cor"


def write(folder: Path, text: Path, num_windows: int) -> Corpus:
    """The text's windows, repeated as other documents until there are enough of them."""
    documents = [re.split(r"(?<=[.!?])\s+", line) for line in text.read_text("utf-8").splitlines()]
    split = [[re.findall(r"\w+|\S", sentence) for sentence in one] for one in documents]
    counts = Counter(word for one in split for sentence in one for word in sentence)
    ids = {word: n for n, (word, _) in enumerate(counts.most_common(30_000), len(SPECIALS))}
    block = block_from(split, ids, num_windows)
    write_set(folder / "shards", block, capacity=CAPACITY).close()
    with webdataset.ShardWriter(str(folder / "%06d.tar"), maxcount=5000, verbose=0) as sink:  # pyright: ignore[reportAttributeAccessIssue]
        for row in range(block.num_rows):
            tokens = block.tokens[block.window_ptr[row] : block.window_ptr[row + 1]]
            sink.write({"__key__": f"{row:08}", "tokens.npy": tokens})
    special = {name: name for name in SPECIALS}
    vocabulary = {**{name: n for n, name in enumerate(SPECIALS)}, **ids}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, "[UNK]")),
        **{f"{name.strip('[]').lower()}_token": name for name in special},
    )
    mosaic.write(folder / "mosaic", block.tokens, block.window_ptr, tokenizer)
    return Corpus(
        folder / "shards",
        sorted(map(str, folder.glob("*.tar"))),
        sorted(map(str, (folder / "shards").glob("*.tar"))),
        folder / "mosaic",
        Vocabulary(len(vocabulary), 0, 1, 2, 3, 4, (0, 1, 2, 3, 4), np.arange(5, len(vocabulary))),
        DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
    )


def block_from(documents: list[list[list[str]]], ids: dict[str, int], num_windows: int) -> Block:
    """Windows as preprocessing cuts them."""
    sentences, tokens, document = [], [], []
    for number, one in enumerate(itertools.cycle(documents)):
        words = [ids.get(word, 1) for sentence in one for word in sentence]
        starts = np.cumsum([0, *[len(s) for s in one[:-1]]]).tolist()
        whole = np.array([0, len(words)])
        text = Text(whole, np.array(starts), np.ones(len(words), dtype=bool))
        windows = cut(text, whole[:1], whole[1:], CAPACITY, 0)
        for start, stop in zip(windows.start.tolist(), windows.stop.tolist(), strict=True):
            bounds = [s for s in starts if start < s < stop]
            sentences.append(np.diff([start, *bounds, stop]).tolist())
            tokens += words[start:stop]
            document.append(number)
        if len(sentences) >= num_windows:
            break
    block = block_of(sentences, np.array(tokens), np.ones(len(tokens), dtype=bool), 3)
    plain = {
        "document_id": np.array(document, np.uint64),
        "repeated": np.zeros_like(block.repeated),
    }
    return replace(block, **plain)
