"""Shard sets are named by a folder or a URL; a dumped config gives back what it was given."""

from pathlib import Path
from typing import Any

import pytest

from mlmdist.config import loading
from mlmdist.config.data import Data
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import ConfigError

URL = "s3://bucket/sets/train"


def recipe(**data: Any) -> Pretrain:
    train = {"steps": 1, "global_batch": 1, "micro_batch": 1}
    values = {"run": "runs/x", "data": {"tokenizer": "t"} | data, "train": train}
    return loading.build(Pretrain, values, "here")


@pytest.mark.parametrize(
    ("data", "folders"),
    [
        ({"train": URL, "held_out": "s3://bucket/b"}, [URL, "s3://bucket/b"]),
        ({"train": "a/b", "held_out": URL}, ["a/b", URL]),
        ({"train": [{"path": URL, "weight": 2}, {"path": "a"}]}, [URL, "a"]),
        ({"train": "a", "held_out": [{"path": URL}, {"path": "b"}]}, ["a", URL, "b"]),
    ],
)
def test_urls_and_folders_survive_the_dump_of_a_config(
    tmp_path: Path, data: dict[str, Any], folders: list[str]
) -> None:
    config = recipe(**data)
    named = [*config.data.corpora, *config.data.held_out_sets]
    assert [str(one.path) for one in named] == folders
    path = tmp_path / "config.yaml"
    path.write_text(loading.dump(config))
    assert loading.load(Pretrain, path, []) == config


def test_a_url_gives_its_last_part_as_the_corpus_name() -> None:
    assert recipe(train=URL).data.corpora[0].name == "train"


def test_home_is_expanded() -> None:
    data = Data.model_validate({"train": "~/set", "tokenizer": "t"})
    assert data.corpora[0].path == Path.home() / "set"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"train": "nowhere://x"}, r"data\.train: .*no known kind of storage"),
        ({"train": 7}, r"data\.train: must be a folder, or a URL"),
        ({"train": [{"path": ""}]}, r"data\.train\.0\.path: must be a folder, or a URL"),
        ({"train": "a", "tokenizer": URL}, r"data\.tokenizer: must be a folder on this machine"),
        ({"train": "a", "held_out": "gs://b/c"}, r"data\.held_out: .*pip install gcsfs"),
    ],
)
def test_what_names_no_place_is_refused_beside_other_mistakes(
    data: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        recipe(**data, pear="nsp")
    assert "pear: unknown key" in str(caught.value)
