"""Real text for the tests of preprocessing: a slice of the dump that gensim ships."""

import bz2
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import yaml

from data_prep.config import Source
from data_prep.documents import Document
from data_prep.sources.files import find_files

DUMP = (
    "package:gensim/test/test_data/"
    "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
)
SETTINGS = {
    "cleaning": {"part_chars": 40_000},
    "held_out": {"share": 0.2},
    "tokenizer": {"vocab_size": 1000},
    "windows": {"max_seq_len": 64, "overlap": 16},
    "shards": {"blocks_per_shard": 1, "bucket_chars": 50_000},
    "ray": {"workers": 2},
}

TEXT = "the old river ran past a mill where two men and their dogs had slept in spring"
WORDS = TEXT.split()


def documents(first: int, count: int) -> list[Document]:
    """Documents of a few paragraphs, each with its own words."""
    made = []
    for number in range(first, first + count):
        draw = np.random.default_rng(number)
        sentences = [" ".join(draw.choice(WORDS, 9)).capitalize() + "." for _ in range(60)]
        paragraphs = tuple(" ".join(sentences[start : start + 6]) for start in range(0, 60, 6))
        made.append(Document(number, str(number), "", paragraphs))
    return made


def write_slice(path: Path, most_characters: int) -> int:
    """Write a dump of the pages of up to so many characters, compressed; their number."""
    whole = find_files([Source(path=DUMP, format="mediawiki")])[0].path
    head, *pages = re.split(r"(?=  <page>\n)", bz2.decompress(whole.read_bytes()).decode())
    pages[-1] = pages[-1].removesuffix("</mediawiki>\n")
    kept = [page for page in pages if len(page) <= most_characters]
    path.write_bytes(bz2.compress("".join([head, *kept, "</mediawiki>\n"]).encode()))
    return len(kept)


def write_recipe(folder: Path, source: Path, kind: str = "mediawiki") -> Path:
    """A recipe that reads `source` and writes below `folder`."""
    path = folder / "recipe.yaml"
    sources = [{"path": str(source), "format": kind}]
    path.write_text(yaml.safe_dump({"output": str(folder / "out"), "sources": sources} | SETTINGS))
    return path


def command(*words: str | Path) -> list[str]:
    """`python -m data_prep` with these words."""
    return [sys.executable, "-m", "data_prep", *map(str, words)]


def prep(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `python -m data_prep` to its end."""
    environment = os.environ | {"PYTHONWARNINGS": ""}
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=240, env=environment, check=False
    )


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the stages' own notes, by its name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("stage.json", ".lock")
    }
