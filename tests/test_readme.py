"""Every command of the README runs as it stands there, and both languages have the same ones."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VENV = Path(sys.prefix)
SHORT = "train.steps=30"


def commands(readme: str) -> list[str]:
    """The lines of the console blocks, without the remarks behind them."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / readme).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [re.sub(r"\s+#.*", "", line) for line in lines]


def test_both_languages_have_the_same_commands() -> None:
    assert commands("README.md") == commands("README.zh-CN.md")


def test_both_languages_name_the_same_things() -> None:
    english, chinese = ((ROOT / f"README{kind}.md").read_text() for kind in ("", ".zh-CN"))
    for pattern in (r"^\| `", r"^## ", r"```", r"^\| \d+ \|", r"\]\((\S+)\)"):
        counts = [len(re.findall(pattern, text, re.MULTILINE)) for text in (english, chinese)]
        assert counts[0] == counts[1] > 0, pattern


def test_files_that_the_readme_links_are_there() -> None:
    for readme in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / readme).read_text()):
            assert (ROOT / target).exists(), f"{readme} links {target}"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like a fresh checkout whose environment is made."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("configs", "launch", "data_prep", "mlmdist", "Makefile", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "constraints.txt").symlink_to(ROOT / "constraints.txt")
    return folder


def run(checkout: Path, command: str) -> str:
    path = f"{VENV / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=checkout, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.dist
def test_the_quick_start_and_then_every_command(checkout: Path) -> None:
    """What `$` stands before needs several machines: `tests/train/test_two_nodes.py`."""
    assert (VENV / ".ready").exists(), "the tests run in an environment of `make environment`"
    quickstart = f"make quickstart VENV={VENV} TRAIN={SHORT}"
    shown = run(checkout, quickstart)
    for said in ("held-out loss", "See the run:", "token ids equal", "whole"):
        assert said in shown
    again = run(checkout, quickstart)
    assert again.count("skipped") == 7, "three stages, in three commands, and the export"
    assert "nothing to do" in again
    for command in commands("README.md"):
        if not command.startswith(("make ", "$ ", "node", "source ")):
            run(checkout, command)
    assert "[MASK] = " in shown or "train longer" in shown
