"""A corpus on disk, made once for all tests of this room."""

from pathlib import Path

import pytest

from tests.train.corpus import write_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tokenizer, training and held-out shards; read it only."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="session")
def straight(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a job that nothing happened to: 2 ranks, ZeRO 1, bf16, dropout."""
    from tests.train.jobs import exit_codes, run
    from tests.train.runs import job_of

    config = job_of(tmp_path_factory.mktemp("straight") / "job", corpus)
    job = run(2, config)
    assert exit_codes(job) == [0, 0], job.output()
    return config.parent / "run"
