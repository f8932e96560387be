"""What preprocessing does: every value a user sets, with its default and its meaning."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from mlmdist.config.loading import Section

Share = Annotated[float, Field(ge=0, lt=1)]


class Source(Section):
    """Files to read; the place in the list is the source index that document ids start with."""

    path: str
    """A file, a folder, a glob, or `package:NAME/FILE`, a data file of an installed package."""

    format: Literal["mediawiki", "jsonl"]
    """`mediawiki`: an XML dump, plain or .bz2. `jsonl`: a JSON object a line, a document each."""

    text_field: str = "text"
    """Field of a JSON line that holds the text; paragraphs are its lines."""

    group_field: str | None = None
    """Field that names the document's group, which the held-out split never divides; a document
    where it is null is its own group."""


class Cleaning(Section):
    """Which documents are kept (data_prep/cleaning.py)."""

    min_chars: Annotated[int, Field(ge=0)] = 200
    """Shorter documents are dropped."""

    near_duplicates: bool = True
    """Drop documents that are nearly the same as one of smaller id."""

    part_chars: PositiveInt = 32_000_000
    """Characters of cleaned text a part file, the unit of work of the next steps."""


class HeldOut(Section):
    """The documents kept apart for evaluation (law E1)."""

    share: Share = 0.01
    """Share of the groups that is held out; 0 holds nothing out."""

    seed: int = 0


class TokenizerTraining(Section):
    """How SentencePiece is trained."""

    kind: Literal["unigram", "bpe"] = "unigram"
    vocab_size: Annotated[int, Field(ge=16)] = 32_000
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 0.9995
    """Share of the characters that get a piece of their own; the rest is [UNK] (or bytes).
    SentencePiece takes 0.98 to 1."""

    byte_fallback: bool = False
    """Spell unknown characters in bytes."""

    sample_chars: PositiveInt = 500_000_000
    """Characters of training text at most; documents are chosen by hash."""

    seed: int = 0


class Windows(Section):
    """How documents are cut."""

    max_seq_len: Annotated[int, Field(ge=8, le=65_535)] = 128
    """Tokens of the longest row, with its three special tokens."""

    overlap: Annotated[int, Field(ge=0)] = 0
    """Tokens, in whole sentences, that a window repeats of the one before, at most."""

    @model_validator(mode="after")
    def _overlap_fits(self) -> "Windows":
        if self.overlap > (self.max_seq_len - 3) // 2:
            raise ValueError(
                f"overlap={self.overlap} must be at most half a window, "
                f"{(self.max_seq_len - 3) // 2} tokens at max_seq_len={self.max_seq_len}"
            )
        return self


class Shards(Section):
    """How windows are stored."""

    seed: int = 0
    """Seed of the order in which windows lie in the set."""

    blocks_per_shard: PositiveInt = 64
    """Blocks of 1,024 windows a shard."""

    bucket_chars: PositiveInt = 64_000_000
    """Characters of text a bucket, which a worker sorts in memory."""


class Ray(Section):
    """Where the work runs; nothing here changes a byte of the result (law S1)."""

    address: str | None = None
    """Address of a running Ray cluster; default: one on this machine for as long as it takes."""

    workers: PositiveInt | None = None
    """Tasks at once; default: one a core."""


class Prep(Section):
    """A preprocessing recipe: `python -m data_prep shards --config FILE [key=value ...]`."""

    output: Path
    """Folder that gets documents/, tokenizer/ and shards/."""

    sources: Annotated[list[Source], Field(min_length=1, max_length=1 << 24)]
    cleaning: Cleaning = Cleaning()
    held_out: HeldOut = HeldOut()
    tokenizer: TokenizerTraining = TokenizerTraining()
    windows: Windows = Windows()
    shards: Shards = Shards()
    ray: Ray = Ray()
