"""Law S1 at every crash point: the process ends at its n-th change of the disk, and starts again.

The tasks run in the process itself, one after another; `test_pipeline` does the same with a real
Ray and kills at random moments.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_prep.cluster import Cluster
from data_prep.config import Prep
from data_prep.document_stage import clean_documents
from data_prep.shard_stage import make_shards
from data_prep.tokenizer_stage import make_tokenizer
from mlmdist.config.loading import build
from tests.data_prep.corpus import tree
from tests.data_prep.test_verify import documents

CHANGES = ("rename", "replace", "unlink", "mkdir", "rmdir", "fsync")
CRASHED = 77
STRIDE = 13  # of the points before the last stage's end; those at the end are all tried
LAST_POINTS = 14


class InProcess(Cluster):
    """Runs tasks where it stands, so that a crash point is the same every time."""

    def run(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        for number, task in enumerate(tasks):
            yield number, function(*task)


def make_all(output: Path, source: Path) -> None:
    values = {
        "output": output,
        "sources": [{"path": str(source), "format": "jsonl"}],
        "cleaning": {"part_chars": 30_000},
        "held_out": {"share": 0.2},
        "tokenizer": {"vocab_size": 60},
        "windows": {"max_seq_len": 48, "overlap": 12},
        "shards": {"blocks_per_shard": 1, "bucket_chars": 40_000},
    }
    config = build(Prep, values, "test")
    with InProcess(config.ray) as cluster:
        clean_documents(config, cluster, overwrite=False)
        make_tokenizer(config, overwrite=False)
        make_shards(config, cluster, overwrite=False)


def crash_at(point: int) -> None:
    """End the process just before its `point`-th change of the disk."""
    done = 0

    def guarded(change: Callable[..., Any]) -> Callable[..., Any]:
        def guard(*arguments: Any, **named: Any) -> Any:
            nonlocal done
            if done == point:
                os._exit(CRASHED)
            done += 1
            return change(*arguments, **named)

        return guard

    for name in CHANGES:
        setattr(os, name, guarded(getattr(os, name)))


def run_until(point: int, output: Path, source: Path) -> int:
    """The exit code of a process that makes everything, and crashes at `point`."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            crash_at(point)
            make_all(output, source)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "corpus.jsonl"
    lines = [json.dumps({"text": "\n".join(d.paragraphs)}) for d in documents(0, 40)]
    path.write_text("\n".join(lines))
    return path


def count_points(output: Path, source: Path) -> int:
    low, high = 0, 4096
    while low < high:
        middle = (low + high) // 2
        crashed = run_until(middle, output / str(middle), source) == CRASHED
        low, high = (middle + 1, high) if crashed else (low, middle)
    return low


@pytest.mark.slow
def test_s1_a_crash_at_any_change_of_the_disk(source: Path, tmp_path: Path) -> None:
    assert run_until(-1, tmp_path / "whole", source) == 0
    whole = tree(tmp_path / "whole")
    points = count_points(tmp_path / "count", source)
    assert points > 60
    tried = np.union1d(np.arange(0, points, STRIDE), np.arange(points - LAST_POINTS, points))
    for point in tried.tolist():
        output = tmp_path / f"at-{point}"
        assert run_until(point, output, source) == CRASHED
        assert run_until(-1, output, source) == 0, f"no way on after a crash at {point}"
        assert tree(output) == whole, f"other bytes after a crash at {point}"
        left = {path.name for path in output.iterdir()} - {"documents", "tokenizer", "shards"}
        assert not left, f"left behind after a crash at {point}"
