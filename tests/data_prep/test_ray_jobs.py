"""The same command on a Ray cluster that is there: joined by its address, or submitted as a job."""

import importlib.util
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlmdist.dist import free_port
from tests.data_prep.corpus import prep, tree, write_recipe, write_slice

ROOT = Path(__file__).parents[2]
RAY = Path(sys.executable).with_name("ray")
HAS_JOBS = all(importlib.util.find_spec(name) for name in ("aiohttp_cors", "colorful", "grpc"))

pytestmark = [pytest.mark.slow, pytest.mark.long]


class Head:
    """A Ray cluster of one node on the loopback interface, with a token of its own."""

    def __init__(self, folder: Path) -> None:
        self.port, self.dashboard_port = free_port(), free_port()
        (folder / "token").write_text(secrets.token_hex(32))
        self.environment = os.environ | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONWARNINGS": "",
        }
        words = f"""start --head --block --node-ip-address 127.0.0.1 --port {self.port} --num-cpus 2
            --include-dashboard {str(HAS_JOBS).lower()} --dashboard-host 127.0.0.1
            --dashboard-port {self.dashboard_port} --object-store-memory 100000000
            --temp-dir {folder}"""
        self.process = subprocess.Popen(
            [RAY, *words.split()],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command of this checkout in the cluster's environment."""
        return subprocess.run(
            list(map(str, words)),
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def wait(self) -> None:
        """Until it answers."""
        end = time.monotonic() + 120
        while (
            self.run(RAY, "status", "--address", f"127.0.0.1:{self.port}").returncode
            or not self._takes_jobs()
        ):
            assert time.monotonic() < end, "the cluster does not answer"
            assert self.process.poll() is None, "the cluster has ended"

    def _takes_jobs(self) -> bool:
        """Whether the dashboard, which comes after the cluster, listens; true if there is none."""
        if not HAS_JOBS:
            return True
        try:
            socket.create_connection(("127.0.0.1", self.dashboard_port), 5).close()
        except OSError:
            return False
        return True


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with tempfile.TemporaryDirectory(prefix="head-", ignore_cleanup_errors=True) as folder:
        started = Head(Path(folder))  # Ray's sockets need a short path
        try:
            started.wait()
            yield started
        finally:
            started.process.terminate()
            started.process.wait(timeout=60)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """(recipe, files) of a run that starts a Ray of its own."""
    folder = tmp_path_factory.mktemp("made")
    write_slice(folder / "pages.xml.bz2", 20_000)
    recipe = write_recipe(folder, folder / "pages.xml.bz2")
    result = prep("shards", "--config", recipe)
    assert result.returncode == 0, result.stderr
    return recipe, tree(folder / "out")


def test_s1_a_cluster_that_is_joined_gives_the_same_bytes(
    head: Head, made: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    recipe, whole = made
    words = [f"output={tmp_path / 'out'}", f"ray.address=127.0.0.1:{head.port}"]
    result = head.run(sys.executable, "-m", "data_prep", "shards", "--config", recipe, *words)
    assert result.returncode == 0, result.stderr
    assert "joined the Ray cluster" in result.stderr
    assert tree(tmp_path / "out") == whole
    assert head.process.poll() is None, "the cluster is not ours to stop"


@pytest.mark.skipif(not HAS_JOBS, reason="`ray job` needs pip install 'ray[default]'")
def test_s1_a_submitted_job_gives_the_same_bytes(
    head: Head, made: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    recipe, whole = made
    output = f"output={tmp_path / 'out'}"
    command = f"cd {ROOT} && {sys.executable} -m data_prep shards --config {recipe} {output}"
    result = head.run(
        RAY, "job", "submit", "--address", f"http://127.0.0.1:{head.dashboard_port}",
        "--", "bash", "-c", command,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "joined the Ray cluster" in result.stdout
    assert tree(tmp_path / "out") == whole
