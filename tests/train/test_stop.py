"""When ranks take it that they are asked to stop."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlmdist.dist import Place
from mlmdist.train.stop import Stop

RANK = """
import sys, time
from mlmdist.dist import Place
from mlmdist.train.stop import Stop
stop = Stop(Place(launched=True))
print(stop.signalled, flush=True)
deadline = time.monotonic() + 20
while not stop.signalled and time.monotonic() < deadline:
    time.sleep(0.02)
print(stop.signalled, flush=True)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
COMMAND = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {PARENT!r}, sys.argv[1]])"


@pytest.mark.parametrize(("name", "asked"), [("deepspeed", True), ("bash", False)])
def test_ranks_stop_when_the_deepspeed_command_is_gone(
    tmp_path: Path, name: str, asked: bool
) -> None:
    rank = RANK if asked else RANK.replace("+ 20", "+ 1")
    (tmp_path / name).write_text(COMMAND)
    output = tmp_path / "output"
    with output.open("w") as file:
        launcher = subprocess.Popen([sys.executable, str(tmp_path / name), rank], stdout=file)
    wait_for(output, 1)
    launcher.terminate()
    assert launcher.wait() == -signal.SIGTERM
    wait_for(output, 2)
    assert output.read_text().split() == ["False", str(asked)]


def wait_for(path: Path, num_lines: int) -> None:
    deadline = time.monotonic() + 30
    while len(path.read_text().splitlines()) < num_lines:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_signal_is_noted_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stop(Place()) as stop:
        assert not stop.signalled
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signalled
        assert not stop.requested
        stop.agree(1)
        assert stop.requested
    assert signal.getsignal(signal.SIGTERM) is before
