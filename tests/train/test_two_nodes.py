"""The README's command without ssh, on two nodes: network namespaces with a link between them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlmdist.train.checkpoint import newest
from tests.train.corpus import recipe, write_recipe

DEEPSPEED = Path(sys.executable).with_name("deepspeed")

pytestmark = [
    pytest.mark.dist,
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("ip") is None or os.geteuid() != 0,
        reason="network namespaces need root and `ip` (Debian package iproute2)",
    ),
]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


@pytest.fixture
def nodes() -> Iterator[list[str]]:
    """Two namespaces, 10.77.0.1 and 10.77.0.2, named after this process."""
    names = [f"mlmdist-{os.getpid()}-{node}" for node in (1, 2)]
    ends = [link(node) for node in (0, 1)]
    for name in names:
        ip("netns", "add", name)
    try:
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for node, (name, end) in enumerate(zip(names, ends, strict=True), 1):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"10.77.0.{node}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            ip("netns", "delete", name)


def link(node: int) -> str:
    """The name of a node's end of the link: both nodes share this machine's host name, by which
    gloo would look for its address."""
    return f"mlm{os.getpid()}{node}"


def launch(node: int, name: str, hosts: Path, config: Path) -> subprocess.Popen[str]:
    words = ["--no_ssh", "--hostfile", str(hosts), "--node_rank", str(node)]
    words += ["--master_addr", "10.77.0.1", "--master_port", "29500"]
    return subprocess.Popen(
        ["ip", "netns", "exec", name, DEEPSPEED, *words, "launch/pretrain.py", "--config", config],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"GLOO_SOCKET_IFNAME": link(node)},
    )


def test_two_nodes_train_one_model(corpus: Path, nodes: list[str], tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("node1 slots=1\nnode2 slots=1\n")
    config = write_recipe(recipe(corpus, tmp_path / "run"))
    jobs = [launch(node, name, hosts, config) for node, name in enumerate(nodes)]
    for job in jobs:
        _, errors = job.communicate(timeout=150)
        assert job.returncode == 0, errors
    assert newest(tmp_path / "run").name == "step-00000008"
    assert (tmp_path / "run" / "DONE").exists()
