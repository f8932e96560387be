"""webdataset's only door: blocks of a shard set, in file order, as WebDataset reads them.

It shares no code with `mlmdist/shards.py`, only the record it returns, so `verify` uses it as a
second, independent reader. Anybody's plain WebDataset pipeline reads the same.
"""

import tarfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from webdataset.compat import WebDataset
from webdataset.handlers import reraise_exception

from mlmdist.blocks import OPTIONAL, Block
from mlmdist.errors import DataError


def stream_blocks(shards: list[Path]) -> Iterator[tuple[str, Block]]:
    """(key, block) of every block of these shard files, one after another.

    A file that is cut or damaged raises DataError where WebDataset notices it; it checks no
    checksums, so compare what comes with the manifest's counts.
    """
    for shard in shards:
        dataset = WebDataset(
            str(shard), shardshuffle=False, empty_check=False, handler=reraise_exception
        )
        try:
            for sample in dataset.decode():  # pyright: ignore[reportGeneralTypeIssues]
                yield sample["__key__"], _block(sample, shard)
        except (OSError, EOFError, ValueError, tarfile.TarError) as error:
            raise DataError(f"{shard}: WebDataset cannot read it ({error})") from error


def _block(sample: dict[str, Any], shard: Path) -> Block:
    """The block in a decoded sample."""
    arrays = {f.name: sample[f"{f.name}.npy"] for f in fields(Block) if f"{f.name}.npy" in sample}
    missing = {f.name for f in fields(Block)} - set(arrays) - set(OPTIONAL)
    if missing or "json" not in sample:
        raise DataError(f"{shard}: block {sample['__key__']} lacks {sorted(missing) or 'json'}")
    bits = np.unpackbits(arrays.pop("word_start"), bitorder="little")
    return Block(word_start=bits[: len(arrays["tokens"])].astype(np.bool_), **arrays)
