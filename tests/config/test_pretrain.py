"""What the recipe refuses, and what a refusal never repeats."""

from pathlib import Path

import pytest

from mlmdist.config.job import Tracking
from mlmdist.config.loading import load
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import ConfigError

RECIPE = """
run: runs/x
data: {train: a, tokenizer: b}
train: {steps: 1, global_batch: 1, micro_batch: 1}
"""


def refusal(tmp_path: Path, uri: str) -> str:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    with pytest.raises(ConfigError) as error:
        load(Pretrain, path, [f"tracking.uri={uri}"])
    return str(error.value)


@pytest.mark.parametrize(
    "uri",
    [
        "http://me:s3cret@host:5000",
        "postgresql://s3cret@host/db",
        "http://me:s3/cret@host",
        "http://me:s3#cret@host",
    ],
)
def test_a_password_in_the_tracking_uri_is_refused_and_not_repeated(
    tmp_path: Path, uri: str
) -> None:
    text = refusal(tmp_path, uri)
    assert "MLFLOW_TRACKING_PASSWORD" in text
    assert "cret" not in text


def test_what_is_no_uri_is_refused_without_a_traceback(tmp_path: Path) -> None:
    assert "tracking: uri is none" in refusal(tmp_path, "http://[bad")


@pytest.mark.parametrize(
    "uri", ["http://host:5000/a", "sqlite:////home/me@work/f.db", "mlruns", None]
)
def test_other_places_are_taken(uri: str | None) -> None:
    assert Tracking(uri=uri).uri == uri
