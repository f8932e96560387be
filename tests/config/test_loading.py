import re
from pathlib import Path

import pytest

from mlmdist.config.loading import dump, load
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import ConfigError

GOOD = """
run: runs/x
data: {train: a, tokenizer: t}
train: {steps: 10, global_batch: 8, micro_batch: 4}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_overrides_lie_over_the_file(tmp_path: Path) -> None:
    words = ["optimizer.learning_rate=1e-3", "data.mask.rate=0.3", "train.steps=20", "seed=0"]
    config = load(Pretrain, write(tmp_path, GOOD), words)
    assert config.optimizer.learning_rate == 1e-3
    assert config.data.mask.rate == 0.3
    assert config.train.steps == 20
    assert config.seed == 0


def test_a_dumped_config_reads_back_equal(tmp_path: Path) -> None:
    config = load(Pretrain, write(tmp_path, GOOD), ["optimizer.learning_rate=1.5e-7"])
    assert load(Pretrain, write(tmp_path, dump(config)), []) == config


def test_every_mistake_is_listed_at_once_with_its_path(tmp_path: Path) -> None:
    text = GOOD + "optimiser: {}\nmodel: {width: 100}\nseed: no\n"
    with pytest.raises(ConfigError) as raised:
        load(Pretrain, write(tmp_path, text), ["train.steps=0", "data.mask.unti=word"])
    message = str(raised.value)
    assert "\n" not in message
    for part in (
        "train.steps: Input should be greater than 0 (given: 0)",
        "data.mask.unti: unknown key (did you mean 'unit'?)",
        "optimiser: unknown key (did you mean 'optimizer'?)",
        "model: num_heads=12 must divide width=100; width 96 or 108 would do",
        "seed: Input should be a valid integer",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("text", "words", "reason"),
    [
        ("a: [", [], "not readable as YAML"),
        ("- a", [], "must be a mapping"),
        (GOOD + "seed: 1\nseed: 2\n", [], "key 'seed' is there twice"),
        ("", [], "run: missing, must be given"),
        (GOOD, ["steps"], "must have the form section.key=value"),
        (GOOD, ["run.x=1"], "is the value 'runs/x', not a section"),
        (GOOD, ["a..b=1"], "must have the form"),
        (GOOD, ["seed=["], "is not a YAML value"),
        (GOOD, ["optimizer.learning_rate=.nan"], "learning_rate"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    text: str, words: list[str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)) as raised:
        load(Pretrain, write(tmp_path, text), words)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such file"):
        load(Pretrain, tmp_path / "nowhere.yaml", [])


def test_the_config_cannot_be_changed(tmp_path: Path) -> None:
    config = load(Pretrain, write(tmp_path, GOOD), [])
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 1  # pyright: ignore[reportAttributeAccessIssue]
