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
