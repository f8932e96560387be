"""`mlmdist show`: what it prints is what the run's loader gives."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlmdist import cli
from mlmdist.data.loader import Loader
from mlmdist.data.sequence import Position
from mlmdist.errors import BAD_CONFIG, BAD_DATA, ConfigError, DataError
from mlmdist.train import folder
from mlmdist.train.samples import show
from mlmdist.train.sources import open_sources
from tests.train.corpus import recipe


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a config and nothing else."""
    path = tmp_path_factory.mktemp("shown") / "run"
    path.mkdir()
    train: list[dict[str, Any]] = [
        {"name": "wiki", "path": corpus / "train", "weight": 2},
        {"name": "books", "path": corpus / "train", "weight": 1},
    ]
    folder.save_config(recipe(corpus, path, data={"train": train}))
    return path


def test_every_row_of_a_step_is_shown(corpus: Path, run: Path) -> None:
    lines = list(show(run, 5))
    config = folder.saved_config(run)
    assert config is not None
    sources = open_sources(config)
    ranks = [
        Loader(
            config.data, shards=tuple(sources.train.values()), seed=config.seed, rank=rank,
            vocabulary=sources.tokenizer.vocabulary, global_batch=12, micro_batch=3, world_size=2,
            position=Position(), num_batches=8,
        ).batch(4)
        for rank in range(2)
    ]  # fmt: skip
    micros = [micro for step in ranks for micro in step.micro_batches]
    assert lines[0].startswith(
        f"step 5: 12 rows, {sum(step.num_tokens for step in ranks)} tokens, "
        f"{sum(step.num_labels for step in ranks)} masked; pair labels: "
    )
    samples = np.concatenate([micro.sample_ids for micro in micros])
    expected = {
        f"  A  corpus {['wiki', 'books'][c]}, source {d >> 40}, document {d & ((1 << 40) - 1)}, "
        f"window {w}, epoch {e}"
        for c, d, w, e in samples.tolist()
    }
    assert {line for line in lines if line.startswith("  A")} == expected
    labels = [int(found) for line in lines for found in re.findall(r"pair label (-?\d+)", line)]
    assert sorted(labels) == sorted(np.concatenate([m.pair_labels for m in micros]).tolist())
    text = "\n".join(line for line in lines if line.startswith("  [CLS]"))
    pieces = sources.tokenizer.pieces
    wanted = [pieces[t].lstrip("▁") for m in micros for t in m.labels.tolist()]
    assert sorted(re.findall(r"\{[^ ]*?\|([^ ]*?)\}", text)) == sorted(wanted)


def test_one_row_is_one_of_them(run: Path) -> None:
    whole = list(show(run, 2))
    one = list(show(run, 2, 7))
    assert one[0] == whole[0]
    assert "\n".join(one[1:]) in "\n".join(whole)
    assert one[2].startswith("row 7: ")


@pytest.mark.parametrize(
    ("step", "row", "said"),
    [(0, None, "from 1 to 8"), (9, None, "from 1 to 8"), (1, 12, "0 to 11")],
)
def test_what_the_run_does_not_have_is_refused(run, step, row, said) -> None:
    with pytest.raises(ConfigError, match=said):
        list(show(run, step, row))


def test_the_command_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(run), "--step", "1", "--row", "0"]) == 0
    assert "[CLS]" in capsys.readouterr().out
    assert cli.main(["show", str(run), "--step", "99"]) == BAD_CONFIG
    assert cli.main(["show", str(tmp_path), "--step", "1"]) == BAD_DATA
    assert "no run began here" in capsys.readouterr().err


def test_shards_that_moved_are_named(run: Path, corpus: Path, tmp_path: Path) -> None:
    gone = tmp_path / "run"
    gone.mkdir()
    folder.save_config(recipe(corpus, gone, data={"train": tmp_path / "away"}))
    with pytest.raises(DataError, match="away: no manifest"):
        list(show(gone, 1))
