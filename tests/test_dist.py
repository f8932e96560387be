"""Where a process stands, and what it says when it meets nobody."""

import os
import subprocess
import sys

import pytest

from mlmdist import dist
from mlmdist.errors import ConfigError
from tests.train.ranks import launcher_environment

MEET = "from mlmdist import dist; dist.start(dist.place(), timeout_seconds=2)"


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE"])
@pytest.mark.parametrize("text", ["x", "", "-1", "1.5"])
def test_a_place_that_is_no_number_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    for key, value in (launcher_environment(1, 2, 29500) | {name: text}).items():
        monkeypatch.setenv(key, value)
    with pytest.raises(ConfigError, match=rf"{name}='{text}' in the environment must be a whole"):
        dist.place()


@pytest.mark.slow
@pytest.mark.dist
def test_a_rank_that_meets_nobody_shows_no_frames_of_the_library() -> None:
    environment = os.environ | launcher_environment(1, 2, dist.free_port())
    environment.pop("TORCH_CPP_LOG_LEVEL", None)
    done = subprocess.run(
        [sys.executable, "-c", MEET], capture_output=True, text=True, check=False, env=environment
    )
    assert "rank 1 of 2 did not meet the others" in done.stderr
    assert "frame #" not in done.stderr
    assert "[c10d]" not in done.stderr
