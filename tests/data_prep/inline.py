"""The whole way from a small corpus to shards in this process, without Ray, in half a second."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from data_prep.cluster import Call, Cluster
from data_prep.config import Prep
from data_prep.document_stage import clean_documents
from data_prep.lock import locked
from data_prep.shard_stage import make_shards
from data_prep.tokenizer_stage import make_tokenizer
from mlmdist.config.loading import build
from mlmdist.files import AnyPath, write_text
from mlmdist.object_store import one_line_errors
from tests.data_prep.corpus import documents

SETTINGS: dict[str, Any] = {
    "cleaning": {"part_chars": 30_000},
    "held_out": {"share": 0.2},
    "tokenizer": {"vocab_size": 60},
    "windows": {"max_seq_len": 48, "overlap": 12},
    "shards": {"blocks_per_shard": 1, "bucket_chars": 40_000},
}


class Inline(Cluster):
    """Runs tasks where it stands, in order, so every run changes the disk in the same steps."""

    def outcomes(
        self, function: Callable[..., Any], calls: Iterable[Call], shown: object = None
    ) -> Iterator[tuple[int, Any]]:
        for call in calls:
            yield call.number, function(*call.arguments)


def write_corpus(path: AnyPath, count: int = 40) -> AnyPath:
    """A file of JSON Lines of so many documents; its path."""
    lines = [json.dumps({"text": "\n".join(d.paragraphs)}) for d in documents(0, count)]
    write_text(path, "\n".join(lines))
    return path


def make_all(output: AnyPath, source: AnyPath, *, overwrite: bool = False, **sections: Any) -> None:
    """All three stages, as `python -m data_prep shards` does them; errors as it shows them."""
    sources = [{"path": str(source), "format": "jsonl"}]
    values = {"output": str(output), "sources": sources, **SETTINGS, **sections}
    config = build(Prep, values, "test")
    with one_line_errors(), locked(config.output), Inline(config.ray) as cluster:
        clean_documents(config, cluster, overwrite=overwrite)
        make_tokenizer(config, cluster, overwrite=overwrite)
        make_shards(config, cluster, overwrite=overwrite)


def left_over(output: Path) -> set[str]:
    """What stands beside the results, and should not."""
    names = {path.name for path in output.iterdir()}
    return names - {"documents", "tokenizer", "shards", ".lock"}
