"""The real `deepspeed` launcher, from the first step to the second command after the end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mlmdist import dist
from mlmdist.train.checkpoint import newest
from tests.train.corpus import recipe, write_recipe
from tests.train.jobs import exit_codes, run

DEEPSPEED = Path(sys.executable).with_name("deepspeed")

pytestmark = [pytest.mark.dist, pytest.mark.slow]


def launch(config: Path, *words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [
        str(DEEPSPEED),
        *("--num_accelerators", "2", "--master_port", str(dist.free_port())),
        *("launch/pretrain.py", "--config", str(config), *words),
    ]
    environment = os.environ | ({} if path is None else {"PATH": path})
    return subprocess.run(
        [sys.executable, *command] if path else command,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env=environment,
    )


def folder_without_compilers(tmp_path: Path) -> str:
    """A PATH with nothing on it but what the launcher itself calls."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "bash", "sh", "uname", "which"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    return str(tools)


@pytest.mark.long
def test_a_run_under_the_launcher_without_a_compiler(corpus: Path, tmp_path: Path) -> None:
    config = write_recipe(recipe(corpus, tmp_path / "run"))
    path = folder_without_compilers(tmp_path)
    assert not any(shutil.which(name, path=path) for name in ("g++", "c++", "gcc", "ninja"))
    first = launch(config, path=path)
    assert first.returncode == 0, first.stderr
    assert newest(tmp_path / "run").name == "step-00000008"
    refused = launch(config, "seed=9")
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.count("error: ") == 1
    assert "Traceback" not in refused.stderr


def test_t3_ranks_whose_deepspeed_command_was_terminated_save_and_end(
    corpus: Path, tmp_path: Path
) -> None:
    sections = {"train": {"steps": 100_000}, "every": {"save": 100_000, "evaluate": 100_000}}
    config = write_recipe(recipe(corpus, tmp_path / "run", **sections))
    command = [str(DEEPSPEED), "--num_accelerators", "2", "--master_port", str(dist.free_port())]
    with (tmp_path / "output").open("w") as output:
        launcher = subprocess.Popen(
            [*command, "launch/pretrain.py", "--config", str(config)], stdout=output, stderr=output
        )
    wait_until(lambda: (tmp_path / "run" / "metrics.jsonl").exists(), tmp_path / "output")
    launcher.terminate()
    assert launcher.wait() == -signal.SIGTERM
    said = tmp_path / "output"
    wait_until(lambda: "error: asked to stop: saved at step" in said.read_text(), said)
    assert newest(tmp_path / "run").name in (tmp_path / "run" / "latest").read_text()


def wait_until(condition: Callable[[], bool], output: Path) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.1)


def test_the_four_checks_before_a_long_run(corpus: Path, tmp_path: Path) -> None:
    config = write_recipe(
        recipe(
            corpus,
            tmp_path / "run",
            model={"width": 64, "dropout": 0.0, "attention_dropout": 0.0},
            optimizer={"learning_rate": 1e-2},
        )
    )
    job = run(2, config, "--check")
    assert exit_codes(job) == [0, 0], job.output()
    for said in ("1. untrained loss", "2. a gradient reaches", "3. loss of", "4. a checkpoint of"):
        assert said in job.log(0)
    assert not (tmp_path / "run" / "DONE").exists()
    assert not list((tmp_path / "run").glob("check*"))
