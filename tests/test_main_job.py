"""The main job from end to end, as the README tells it, on a slice of the real dump.

A real Ray, a real deepspeed launcher, a real MLflow store, the transformers that users have.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from mlmdist import dist
from mlmdist.data.unigram import cross_entropy
from mlmdist.shards import ShardSet
from tests.data_prep.corpus import prep, write_recipe, write_slice

BIN = Path(sys.executable).parent
STEPS = 40

pytestmark = [pytest.mark.slow, pytest.mark.dist]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with shards and tokenizer of the slice, made by the command line."""
    folder = tmp_path_factory.mktemp("main")
    write_slice(folder / "pages.xml.bz2", 80_000)
    recipe = write_recipe(folder, folder / "pages.xml.bz2")
    made = prep("shards", "--config", recipe, "windows.max_seq_len=128")
    assert made.returncode == 0, made.stderr
    checked = prep("verify", folder / "out" / "shards")
    assert checked.returncode == 0, checked.stdout
    return folder


def write_training(folder: Path, run: Path) -> Path:
    """The quickstart's recipe for these shards, shorter and smaller."""
    recipe = yaml.safe_load(Path("configs/pretrain/quickstart.yaml").read_text())
    shards = folder / "out" / "shards"
    recipe["run"] = str(run)
    recipe["data"] = {
        "train": str(shards / "train"),
        "held_out": str(shards / "held_out"),
        "tokenizer": str(folder / "out" / "tokenizer"),
    }
    recipe["model"] |= {"width": 64, "max_positions": 128}
    recipe["train"] |= {"steps": STEPS}
    recipe["every"] = {"log": 5, "evaluate": 20, "save": 10}
    recipe["tracking"] = {"uri": f"sqlite:///{folder / 'mlruns.db'}"}
    path = run.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(recipe))
    return path


def launch(recipe: Path) -> subprocess.Popen[str]:
    port = str(dist.free_port())
    command = [BIN / "deepspeed", "--num_accelerators", "2", "--master_port", port]
    return subprocess.Popen(
        [*command, "launch/pretrain.py", "--config", recipe],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    return errors


def ranks_of(run: Path) -> list[int]:
    """The process ids of the ranks that train with this run's recipe."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"launch/pretrain.py" in words and str(run.with_suffix(".yaml")).encode() in words:
                found += [int(entry.name)] if b"deepspeed" not in b" ".join(words) else []
    return sorted(found)


def mlmdist(*words: str | Path) -> str:
    done = subprocess.run(
        [BIN / "mlmdist", *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def straight(folder: Path) -> Path:
    """The run that nothing disturbed."""
    run = folder / "straight"
    finish(launch(write_training(folder, run)))
    return run


@pytest.fixture(scope="module")
def exported(straight: Path, folder: Path) -> Path:
    mlmdist("export", straight, folder / "exported")
    return folder / "exported"


def test_t1_a_rank_killed_in_the_middle_and_the_same_weights_to_the_bit(
    folder: Path, straight: Path, exported: Path
) -> None:
    run = folder / "killed"
    recipe = write_training(folder, run)
    first = launch(recipe)
    metrics = run / "metrics.jsonl"
    while not metrics.exists() or '"step": 15,' not in metrics.read_text():
        assert first.poll() is None, first.stderr and first.stderr.read()
        time.sleep(0.02)
    os.kill(ranks_of(run)[1], signal.SIGKILL)
    first.communicate(timeout=120)
    assert first.returncode != 0
    assert not (run / "DONE").exists()
    assert "resumed at step" in finish(launch(recipe))
    mlmdist("export", run, folder / "exported-killed")
    ours, theirs = (
        load_file(where / "model.safetensors") for where in (folder / "exported-killed", exported)
    )
    assert ours.keys() == theirs.keys()
    assert all(bool((ours[name] == theirs[name]).all()) for name in ours)
    assert _losses(run) == _losses(straight)


def _losses(run: Path) -> list[tuple[int, float]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(r["step"], r["train/mlm_loss"]) for r in records if "train/mlm_loss" in r]


def test_transformers_alone_fills_blanks_as_we_do(exported: Path) -> None:
    text = "The capital of France is [MASK]."
    program = (
        "import sys; from transformers import pipeline\n"
        "answers = pipeline('fill-mask', model=sys.argv[1], top_k=5)(sys.argv[2])\n"
        "assert not [name for name in sys.modules if name.startswith('mlmdist')]\n"
        "[print(f\"{a['score']:.4f}  {a['token_str']:<16}  {a['sequence']}\") for a in answers]\n"
    )
    theirs = subprocess.run(
        [sys.executable, "-c", program, exported, text],
        capture_output=True, text=True, timeout=120, check=True, cwd="/",
    )  # fmt: skip
    assert mlmdist("fill", exported, text) == theirs.stdout
    assert theirs.stdout.count("\n") == 5


def test_the_model_learned_something(straight: Path, folder: Path) -> None:
    losses = [loss for _, loss in _losses(straight)]
    assert losses[-1] < losses[0] - 0.3
    text = mlmdist("summary", straight)
    train, held_out = (ShardSet.open(folder / "out/shards" / s) for s in ("train", "held_out"))
    unigram = cross_entropy(train.read_unigram(), held_out.read_unigram())
    assert f"({unigram:.2f}, the training unigram" in text
    assert f"{losses[0]:.2f} -> {losses[-1]:.2f} nats" in text
    assert "mlflow ui --backend-store-uri sqlite:///" in text


def test_mlflow_shows_one_run_with_everything(straight: Path, exported: Path, folder: Path) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlruns.db'}")
    (experiment,) = client.search_experiments(filter_string="name = 'mlmdist'")
    runs = {r.info.run_name: r for r in client.search_runs([experiment.experiment_id])}
    run = runs["straight"]
    assert run.info.status == "FINISHED"
    assert run.data.params["train.steps"] == str(STEPS)
    points = client.get_metric_history(run.info.run_id, "train/mlm_loss")
    assert [(p.step, p.value) for p in points] == _losses(straight)
    names = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"config.yaml", "loss.png", "tokenizer", "model"} <= names


def test_everything_is_skipped_the_second_time(
    straight: Path, exported: Path, folder: Path
) -> None:
    assert "nothing to do" in finish(launch(straight.with_suffix(".yaml")))
    before = (exported / "model.safetensors").stat().st_mtime_ns
    assert mlmdist("export", straight, exported) == f"{exported}\n"
    assert (exported / "model.safetensors").stat().st_mtime_ns == before
