"""The command line, and how a rank's process ends."""

import os
import subprocess
import sys

import pytest

from mlmdist.errors import BAD_CONFIG, DONE, PREEMPTED, ConfigError
from mlmdist.train import command
from mlmdist.train.identity import of_config, refuse_changes
from mlmdist.train.watchdog import TOLD


def test_the_launchers_own_argument_and_overrides_mix() -> None:
    words = ["--local_rank=1", "--config", "a.yaml", "train.steps=5", "--dry-run", "seed=2"]
    options = command.parse(words)
    assert options.overrides == ["train.steps=5", "seed=2"]
    assert options.dry_run
    assert not options.check


@pytest.mark.parametrize(
    "words", [[], ["--config"], ["--config", "a", "--nodes", "0"], ["--config", "a", "--what"]]
)
def test_a_wrong_command_line_is_one_line(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="see --help"):
        command.parse(words)


def test_the_ranks_to_plan_for() -> None:
    options = command.parse(["--config", "a", "--nodes", "2", "--gpus-per-node", "8"])
    assert command.num_ranks(options, 1) == 16
    assert command.num_ranks(command.parse(["--config", "a"]), 4) == 4
    with pytest.raises(ConfigError, match="16 ranks, the launcher started 4"):
        command.num_ranks(options, 4)


def fails(note: str | None = None) -> int:
    error = ConfigError("x=1 must be 2")
    if note:
        error.add_note(note)
    raise error


@pytest.mark.parametrize(
    ("rank", "local_rank", "note", "said"),
    [
        ("0", "0", None, "error: x=1 must be 2\n"),
        ("1", "1", None, ""),
        ("8", "0", None, "error: rank 8: x=1 must be 2\n"),
        ("8", "0", TOLD, ""),
    ],
)
def test_a_mistake_is_said_once_a_machine(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rank: str,
    local_rank: str,
    note: str | None,
    said: str,
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("LOCAL_RANK", local_rank)
    assert command.run_rank(lambda: fails(note)) == BAD_CONFIG
    assert capsys.readouterr().err == said


def test_work_that_ends_well_is_0_and_an_interrupt_is_10(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        assert command.run_rank(lambda: None) == DONE
        assert command.run_rank(interrupted) == PREEMPTED


def test_t2_accepting_a_field_lets_it_change_but_not_the_models_shape() -> None:
    saved = {"seed": 1, "data.mask.rate": 0.15, "model.width": 8}
    now = {"seed": 2, "data.mask.rate": 0.2, "model.width": 16, "new field": 1}
    refuse_changes(saved, saved | {"seed": 2}, accepted=("seed",), where="run")
    refuse_changes(saved, saved | {"data.mask.rate": 0.2}, accepted=("data.mask",), where="run")
    with pytest.raises(ConfigError, match=r"seed is 2 here, 1 there.*model.width is 16"):
        refuse_changes(saved, now, accepted=("data.mask",), where="run")
    with pytest.raises(ConfigError, match=r"model.width"):
        refuse_changes(saved, now, accepted=("seed", "data.mask", "model"), where="run")


def test_t2_what_a_run_is_holds_no_path_and_no_speed() -> None:
    from tests.train.test_engine import Case, config

    fields = of_config(config(Case(1, "bf16", 1)))
    assert {"seed", "data.pair", "data.mask.rate", "data.order.kind", "train.global_batch"} <= {
        *fields
    }
    assert not {"run", "data.train", "train.micro_batch", "train.threads", "train.steps"} & {
        *fields
    }


SAYS = "from mlmdist.train import command; command.show('plan ' * 100_000); command.end(0)"


def ended(stdout: str) -> tuple[int, str]:
    """Exit code and standard error of a command that prints, with its output sent somewhere."""
    line = f'set -o pipefail; {sys.executable} -c "{SAYS}" {stdout}'
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, env=os.environ.copy()
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("stdout", ["| true", ">&-", "| head -c 3 >/dev/null"])
def test_nobody_has_to_read_what_is_printed(stdout: str) -> None:
    assert ended(stdout) == (DONE, "")
