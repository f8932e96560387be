"""The plan: derived values in one place, without torch."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from mlmdist.config.loading import load
from mlmdist.config.model import Model
from mlmdist.config.pretrain import Pretrain
from mlmdist.model.bert import Bert
from mlmdist.train import costs, plan
from mlmdist.train.phases import open_phases
from mlmdist.train.schedule import learning_rate
from mlmdist.train.sources import open_sources
from tests.train.corpus import NUM_PIECES, recipe, write_recipe

RECIPES = sorted(Path("configs/pretrain").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_a_config(path: Path) -> None:
    config = load(Pretrain, path, [])
    assert len(config.train.given) == 1 or len(config.phases) > 1


PUBLISHED = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}
"""Layers, width and heads (Turc et al. 2019; Devlin et al. 2019)."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_recipes_have_the_published_sizes(name: str) -> None:
    model = load(Pretrain, Path(f"configs/pretrain/{name}.yaml"), []).model
    assert (model.num_layers, model.width, model.num_heads) == PUBLISHED[name]
    assert model.feed_forward_width == 4 * model.width


@pytest.mark.parametrize("shape", [Model(num_layers=2, width=32, num_heads=2), Model(num_layers=1)])
def test_parameters_are_counted_as_the_model_has_them(shape: Model) -> None:
    counted = sum(parameter.numel() for parameter in Bert(shape, NUM_PIECES).parameters())
    assert costs.num_parameters(shape, NUM_PIECES) == counted


def test_bert_base_has_110_million_parameters() -> None:
    assert costs.num_parameters(Model(), 30522) == 110_106_428  # as Hugging Face's ForPreTraining


def test_the_plan_of_a_batch_that_ranks_do_not_divide(corpus: Path, tmp_path: Path) -> None:
    config = recipe(corpus, tmp_path / "run", train={"global_batch": 13, "micro_batch": 2})
    phases = open_phases(config)
    planned = plan.make_plan(phases[0], world_size=3)
    assert (planned.rows_per_rank, planned.accumulation) == (5, 3)
    text = plan.text(phases, config, 3)
    assert "evaluations   1\n" in text
    assert "checkpoints   2 of" in text
    assert planned.epochs == pytest.approx(8 * 13 / 600)


def test_a_dry_run_needs_neither_launcher_nor_torch(corpus: Path, tmp_path: Path) -> None:
    path = write_recipe(recipe(corpus, tmp_path / "run"))
    words = [str(path.resolve()), "--dry-run", "--nodes", "2", "--gpus-per-node", "4"]
    code = (
        "import sys, runpy; sys.argv = ['launch/pretrain.py', '--config', *sys.argv[1:]]\n"
        "import mlmdist.train.command as command\n"
        "def end(code):\n"
        "    assert not {'torch', 'deepspeed'} & set(sys.modules), 'imported'\n"
        "    sys.exit(code)\n"
        "command.end = end\n"
        "runpy.run_path('launch/pretrain.py', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ranks         8, ZeRO stage 1, bf16" in done.stdout
    assert "8 ranks x 1 micro-batches of up to 2" in done.stdout
    assert not (tmp_path / "run").exists()


def test_a_model_too_short_for_the_windows_is_refused(corpus: Path, tmp_path: Path) -> None:
    path = write_recipe(recipe(corpus, tmp_path / "run", model={"max_positions": 16}))
    done = subprocess.run(
        [sys.executable, "launch/pretrain.py", "--config", str(path), "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "error: model.max_positions=16 must be at least" in done.stderr


def test_the_rate_rises_to_the_peak_and_falls_to_the_end(corpus: Path, tmp_path: Path) -> None:
    config = recipe(corpus, tmp_path / "run", schedule={"warmup": 0.1, "final": 0.2})
    optimizer, schedule = config.optimizer, config.schedule
    rates = [learning_rate(batch, 100, optimizer, schedule) for batch in range(101)]
    assert rates[0] == pytest.approx(1e-4)
    assert rates[9] == rates[10] == max(rates) == pytest.approx(1e-3)
    assert rates[100] == pytest.approx(2e-4)
    assert all(before > after for before, after in pairwise(rates[10:]))


def test_no_warm_up_starts_at_the_peak(corpus: Path, tmp_path: Path) -> None:
    config = recipe(corpus, tmp_path / "run", schedule={"warmup": 0.0})
    assert learning_rate(0, 10, config.optimizer, config.schedule) == pytest.approx(1e-3)


def test_levels_to_compare_with(corpus: Path, tmp_path: Path) -> None:
    levels = open_sources(recipe(corpus, tmp_path / "run")).levels()
    assert levels["ln V"] == pytest.approx(6.551, abs=1e-3)


def test_a_tokenizer_that_is_not_the_shards_is_refused(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    for path in (corpus / "train").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"tokenizer_hash": "0" * 64}))
    path = write_recipe(recipe(corpus, tmp_path / "run", data={"train": folder}))
    done = subprocess.run(
        [sys.executable, "launch/pretrain.py", "--config", str(path), "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "made with tokenizer 000000000000" in done.stderr
