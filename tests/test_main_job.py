"""The main job from end to end, as the README tells it: quick start, kill, resume, every command.

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

from mlmdist import dist
from mlmdist.data.unigram import cross_entropy
from mlmdist.shards import ShardSet
from mlmdist.train.checkpoint import load_weights, newest
from tests.test_readme import ROOT, commands

VENV = Path(sys.prefix)
SHORT = "train.steps=30 every.log=5 every.evaluate=30 every.save=10"
QUICKSTART = f"make quickstart VENV={VENV} TRAIN='{SHORT}'"
RUN, EXPORTED = Path("runs/quickstart"), Path("runs/quickstart/exported")

pytestmark = [pytest.mark.slow, pytest.mark.dist, pytest.mark.timeout(900)]


def shell(checkout: Path, command: str) -> str:
    """What a command prints that must end well, in the checkout and its environment."""
    path = f"{VENV / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=checkout, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like a fresh checkout, in which `make quickstart` has run, on fewer steps."""
    assert (VENV / ".ready").exists(), "the tests run in an environment of `make environment`"
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("configs", "launch", "data_prep", "mlmdist", "Makefile", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "constraints.txt").symlink_to(ROOT / "constraints.txt")
    shown = shell(folder, QUICKSTART)
    for said in ("held-out loss", "See the run:", "token ids equal", "whole"):
        assert said in shown
    return folder


def launch(checkout: Path) -> subprocess.Popen[str]:
    """The quick start's training again, in another run folder."""
    words = ["--num_accelerators", "2", "--master_port", str(dist.free_port())]
    words += ["launch/pretrain.py", "--config", "configs/pretrain/quickstart.yaml"]
    return subprocess.Popen(
        [VENV / "bin" / "deepspeed", *words, *SHORT.split(), "run=runs/killed"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=checkout,
    )


def ranks(checkout: Path) -> list[int]:
    """The process ids of the ranks of the run that is to be killed."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"run=runs/killed" in words and b"deepspeed" not in b" ".join(words):
                found += [int(entry.name)] if (entry / "cwd").resolve() == checkout else []
        except OSError:
            continue
    return sorted(found)


def losses(run: Path) -> list[tuple[int, float]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(r["step"], r["train/mlm_loss"]) for r in records if "train/mlm_loss" in r]


@pytest.mark.long
def test_t1_a_rank_killed_in_the_middle_and_the_same_weights_to_the_bit(checkout: Path) -> None:
    first = launch(checkout)
    metrics = checkout / "runs/killed/metrics.jsonl"
    while not metrics.exists() or '"step": 15,' not in metrics.read_text():
        assert first.poll() is None, first.stderr and first.stderr.read()
        time.sleep(0.02)
    os.kill(ranks(checkout)[1], signal.SIGKILL)
    first.communicate(timeout=120)
    assert first.returncode != 0
    assert not (checkout / "runs/killed/DONE").exists()
    again = launch(checkout)
    _, errors = again.communicate(timeout=200)
    assert again.returncode == 0, errors
    assert "resumed at step" in errors
    runs = (newest(checkout / "runs/killed"), newest(checkout / RUN))
    ours, theirs = (load_weights(found) for found in runs)
    assert ours.keys() == theirs.keys()
    assert all(bool((ours[name] == theirs[name]).all()) for name in ours)
    assert losses(checkout / "runs/killed") == losses(checkout / RUN)


def test_transformers_alone_fills_blanks_as_we_do(checkout: Path) -> None:
    text = "The capital of France is [MASK]."
    program = (
        "import sys; from transformers import pipeline\n"
        "answers = pipeline('fill-mask', model=sys.argv[1], top_k=5)(sys.argv[2])\n"
        "assert not [name for name in sys.modules if name.startswith('mlmdist')]\n"
        "[print(f\"{a['score']:.4f}  {a['token_str']:<16}  {a['sequence']}\") for a in answers]\n"
    )
    theirs = subprocess.run(
        [sys.executable, "-c", program, checkout / EXPORTED, text],
        capture_output=True, text=True, timeout=120, check=True, cwd="/",
    )  # fmt: skip
    ours = shell(checkout, f"mlmdist fill {EXPORTED} '{text}' 2>/dev/null")
    assert ours == theirs.stdout
    assert ours.count("\n") == 5


def test_the_model_learned_something(checkout: Path) -> None:
    found = [loss for _, loss in losses(checkout / RUN)]
    assert found[-1] < found[0] - 0.3
    text = shell(checkout, f"mlmdist summary {RUN}")
    shards = checkout / "data/quickstart/shards"
    train, held_out = (ShardSet.open(shards / side) for side in ("train", "held_out"))
    unigram = cross_entropy(train.read_unigram(), held_out.read_unigram())
    assert f"({unigram:.2f}, the training unigram" in text
    assert f"{found[0]:.2f} -> {found[-1]:.2f} nats" in text
    assert "mlflow ui --backend-store-uri sqlite:///" in text


def test_mlflow_shows_one_run_with_everything(checkout: Path) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{checkout / 'mlruns.db'}")
    (experiment,) = client.search_experiments(filter_string="name = 'mlmdist'")
    runs = client.search_runs([experiment.experiment_id])
    (run,) = [run for run in runs if run.info.run_name == "quickstart"]
    assert run.info.status == "FINISHED"
    assert run.data.params["train.steps"] == "30"
    points = client.get_metric_history(run.info.run_id, "train/mlm_loss")
    assert [(point.step, point.value) for point in points] == losses(checkout / RUN)
    names = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"config.yaml", "loss.png", "tokenizer", "model"} <= names


def test_the_second_time_everything_is_skipped(checkout: Path) -> None:
    before = (checkout / EXPORTED / "model.safetensors").stat().st_mtime_ns
    shown = shell(checkout, QUICKSTART)
    assert shown.count("skipped") == 7, "three stages, in three commands, and the export"
    assert "nothing to do" in shown
    assert (checkout / EXPORTED / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=pytest.mark.long if "--check" in command else ())
        for command in commands("README.md")
        if not command.startswith(("make ", "$ ", "node", "source "))
    ],
)
def test_every_command_of_the_readme(command: str, checkout: Path) -> None:
    """In their order. Those with `$` need several machines: `tests/train/test_two_nodes.py`."""
    shell(checkout, command)
