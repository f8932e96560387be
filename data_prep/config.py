"""What preprocessing does: every value a user sets, with its default and its meaning."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PlainSerializer,
    PlainValidator,
    PositiveInt,
    model_validator,
)

from data_prep.chinese import check_simplified
from data_prep.language import check_languages
from data_prep.word_files import read_dictionary, read_word_list
from mlmdist.config.loading import Section
from mlmdist.errors import ConfigError
from mlmdist.files import AnyPath, place

Share = Annotated[float, Field(ge=0, lt=1)]
WholeShare = Annotated[float, Field(ge=0, le=1)]
WindowLength = Annotated[int, Field(ge=8, le=65_535)]


UserFile = Annotated[Path, AfterValidator(Path.absolute)]
"""A file of the user, which every node must have at the same place."""


@contextmanager
def said_as_value_error() -> Iterator[None]:
    """A ConfigError raised inside becomes the ValueError that pydantic lists with its path."""
    try:
        yield
    except ConfigError as error:
        raise ValueError(str(error)) from error


class Source(Section):
    """Files to read; the place in the list is the source index that document ids start with."""

    path: str
    """A file, a folder, a glob, a URL such as `s3://bucket/folder`, or `package:NAME/FILE`, a data
    file of an installed package."""

    format: Literal["mediawiki", "jsonl", "parquet", "text", "text_documents", "sentences"]
    """`mediawiki`: an XML dump. `jsonl`: a JSON object a line, a document each. `parquet`: a row, a
    document. `text`: a file, a document. `text_documents`: blank lines between documents.
    `sentences`: a sentence a line, blank lines between documents, as Google's BERT reads it. All
    but parquet may be packed by gzip, bzip2, xz or zstd, and be UTF-8 or, by byte-order mark,
    UTF-16."""

    text_field: str = "text"
    """Field of a JSON object or Parquet row that holds the text; paragraphs are its lines."""

    id_field: str | None = None
    """Field with the record's own id: its title in reports, and its group if there is no other."""

    group_field: str | None = None
    """Field that names the document's group, which the held-out split never divides; a document
    where it is null is its own group."""

    paragraphs: Literal["line", "blank_line"] = "line"
    """Where a text's paragraphs end: at each line end, or at blank lines, with the lines between
    them joined (books with hard line breaks; `text`, `jsonl` and `parquet`)."""

    split_bytes: PositiveInt = 64_000_000
    """Bytes of a file that one task reads, where the format lets a file be cut: plain and UTF-8, or
    a bzip2 dump of many streams, or Parquet. Smaller files are read together by one task. Ids and
    text do not depend on it."""

    max_record_bytes: PositiveInt = 128_000_000
    """Bytes of the longest record; a longer one is quarantined, so that no task outgrows its
    memory. A task may take eight times as much."""

    @model_validator(mode="after")
    def _paragraphs_have_blank_lines(self) -> "Source":
        if self.paragraphs == "blank_line" and self.format not in ("text", "jsonl", "parquet"):
            raise ValueError(
                f"paragraphs=blank_line cannot be used with format={self.format}: use it with "
                "text, jsonl or parquet"
            )
        return self


class Cleaning(Section):
    """Which documents are kept, and in what form (data_prep/cleaning.py)."""

    min_chars: NonNegativeInt = 200
    """Shorter documents are dropped."""

    max_repeated_share: WholeShare = 0.3
    """Documents of which paragraphs that stood before make up more characters are dropped
    ("repetitive")."""

    max_recurring_share: WholeShare = 0.3
    """Documents in which more of the text comes again at once, as in "ha ha ha", are dropped
    ("recurring")."""

    min_letter_share: WholeShare = 0.5
    """Documents of which fewer of the characters, spaces apart, are letters are dropped
    ("not_text")."""

    max_symbol_share: NonNegativeFloat = 0.1
    """Documents with more # signs, or more ellipses, a word are dropped ("symbols")."""

    max_bullet_share: WholeShare = 0.9
    """Documents of which more paragraphs begin with a bullet are dropped ("bullets")."""

    max_cut_share: WholeShare = 0.3
    """Documents of which more paragraphs end with an ellipsis are dropped ("cut_off")."""

    languages: tuple[str, ...] = ()
    """ISO 639-1 codes of the languages to keep, such as `[en, de]`; none keeps all. Needs the extra
    `language`. Other documents are dropped ("language")."""

    min_language_confidence: WholeShare = 0.5
    """With `languages`: documents of which less is in the most likely language are dropped."""

    to_simplified: bool = False
    """Turn traditional Chinese into simplified, before anything is counted or filtered. Needs the
    extra `chinese`."""

    near_duplicates: bool = True
    """Drop documents that are nearly the same as one of smaller id."""

    part_chars: PositiveInt = 32_000_000
    """Characters of cleaned text a part file, the unit of work of the next steps."""

    @model_validator(mode="after")
    def _libraries_are_there(self) -> "Cleaning":
        with said_as_value_error():
            check_languages(self.languages)
            if self.to_simplified:
                check_simplified()
        return self


class HeldOut(Section):
    """The documents kept apart for evaluation (law E1)."""

    share: Share = 0.01
    """Share of the groups that is held out; 0 holds nothing out."""

    seed: int = 0


class TokenizerTraining(Section):
    """Which tokenizer the text gets: one that is trained on it, or one that is there."""

    kind: Literal["unigram", "bpe", "wordpiece"] = "unigram"
    """`unigram` and `bpe` train SentencePiece; `wordpiece` takes the vocabulary at `path`."""

    path: str | None = None
    """An existing tokenizer to take instead of training one: a Hugging Face directory or vocab.txt
    (`wordpiece`), or a tokenizer folder of this program."""

    vocab_size: Annotated[int, Field(ge=16)] = 32_000
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 0.9995
    """Share of the characters that get a piece of their own; the rest is [UNK] (or bytes).
    SentencePiece takes 0.98 to 1."""

    byte_fallback: bool = False
    """Spell unknown characters in bytes."""

    sample_chars: PositiveInt = 500_000_000
    """Characters of training text at most; documents are chosen by hash."""

    seed: int = 0

    domain_words: NonNegativeInt = 0
    """Words of the corpus to give rows of their own in a WordPiece vocabulary: the most frequent
    ones that it cuts in three pieces or more."""

    domain_rows: Literal["unused", "appended"] = "unused"
    """Where they go: on the vocabulary's [unused...] rows, or behind its end."""

    @model_validator(mode="after")
    def _wordpiece_is_taken(self) -> "TokenizerTraining":
        if self.kind == "wordpiece" and self.path is None:
            raise ValueError(
                "kind=wordpiece trains nothing: set path to a Hugging Face directory or vocab.txt"
            )
        if self.domain_words and self.kind != "wordpiece":
            raise ValueError(
                f"domain_words={self.domain_words}: only kind=wordpiece has rows for them; a "
                f"{self.kind} tokenizer learns the words of its text"
            )
        return self


class Words(Section):
    """What a word is, for whole-word masking (data_prep/words.py)."""

    segmenter: Literal["none", "jieba"] = "none"
    """`none`: words as spaces and scripts show them; in Han each piece is one. `jieba`: Chinese
    words. Needs the extra `chinese`."""

    dictionary: UserFile | None = None
    """A file of words for jieba besides its own, one a line; it keeps them whole. A number behind a
    word is its frequency; without one it gets the least that serves."""

    @model_validator(mode="after")
    def _dictionary_can_be_used(self) -> "Words":
        if self.segmenter == "none" and self.dictionary:
            raise ValueError("dictionary needs segmenter=jieba")
        if self.segmenter == "jieba" and find_spec("rjieba") is None:
            raise ValueError(
                "segmenter=jieba needs rjieba: pip install 'mlmdist[chinese]', or give none"
            )
        with said_as_value_error():
            if self.dictionary:
                read_dictionary(self.dictionary)
        return self


class Tags(Section):
    """A small number a token, for masking rules (data_prep/tags.py)."""

    word_list: UserFile | None = None
    """A file of lines `word TAB tag`, tag 1 to 255: each token of such a word gets its tag. A word
    in small letters stands for all its forms, one with a capital for itself."""

    tagger: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = None
    """`module:function`, the user's own tagger: a function of a list of words that gives a tag, 0
    to 255, for each. The module must be importable on every node."""

    @model_validator(mode="after")
    def _one_that_can_be_used(self) -> "Tags":
        if self.word_list and self.tagger:
            raise ValueError("word_list and tagger must not both be given")
        with said_as_value_error():
            if self.word_list:
                read_word_list(self.word_list)
        return self


class Windows(Section):
    """How documents are cut."""

    max_seq_len: WindowLength | Annotated[tuple[WindowLength, ...], Field(min_length=1)] = 128
    """Tokens of the longest row, with its three special tokens. A list, such as [128, 512], makes a
    shard set a length out of one tokenisation."""

    overlap: NonNegativeInt = 0
    """Tokens, in whole sentences, that a window repeats of the one before, at most."""

    long_text: Literal["sliding", "random_crop", "key_sentences", "first"] = "sliding"
    """What is kept of a document longer than a window: all of it; `crops` windows chosen by hash;
    its most informative sentences; its first window. What is left out is counted (law W2)."""

    crops: PositiveInt = 1
    """Windows a long document gives under `random_crop`, and as many windows' worth of sentences
    under `key_sentences`."""

    seed: int = 0
    """Seed of the crops."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """The window lengths, ascending, each once."""
        given = self.max_seq_len if isinstance(self.max_seq_len, tuple) else (self.max_seq_len,)
        return tuple(sorted(set(given)))

    @model_validator(mode="after")
    def _overlap_fits(self) -> "Windows":
        shortest = self.lengths[0]
        if self.overlap > (shortest - 3) // 2:
            raise ValueError(
                f"overlap={self.overlap} must be at most half a window, "
                f"{(shortest - 3) // 2} tokens at max_seq_len={shortest}"
            )
        return self


class Shards(Section):
    """How windows are stored."""

    seed: int = 0
    """Seed of the order in which windows lie in the set."""

    blocks_per_shard: PositiveInt = 64
    """Blocks of 1,024 windows a shard."""

    bucket_chars: PositiveInt = 64_000_000
    """Most characters of text a bucket, which a worker sorts in memory. Of a text of less than 16
    buckets they are smaller, so that there are 16, down to 2 M."""


class Ray(Section):
    """Where the work runs; nothing here changes a byte of the result (law S1)."""

    address: str | None = None
    """Address of a running Ray cluster; default: one on this machine for as long as it takes."""

    workers: PositiveInt | None = None
    """Tasks at once; default: one a core."""


class Prep(Section):
    """A preprocessing recipe: `python -m data_prep shards --config FILE [key=value ...]`."""

    output: Annotated[AnyPath, PlainValidator(place), PlainSerializer(str)]
    """Folder that gets documents/, tokenizer/ and shards/; a path, or a URL such as
    `s3://bucket/folder`."""

    sources: Annotated[list[Source], Field(min_length=1, max_length=1 << 24)]
    exclude: tuple[Source, ...] = ()
    """Test sets: what they contain leaves the training and the held-out text (law E1)."""

    cleaning: Cleaning = Cleaning()
    held_out: HeldOut = HeldOut()
    tokenizer: TokenizerTraining = TokenizerTraining()
    words: Words = Words()
    tags: Tags = Tags()
    windows: Windows = Windows()
    shards: Shards = Shards()
    ray: Ray = Ray()
    allow_quarantined: NonNegativeInt = 0
    """Records that may be left out because they are damaged or break a worker; with more of them
    the command ends with exit code 3 and lists them."""
