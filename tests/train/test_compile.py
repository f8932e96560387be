"""Compiled layers compute the same to rounding; what is missing for it is said first."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mlmdist.config.loading import load
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import ConfigError
from mlmdist.train import compiler

RECIPE = Path("configs/pretrain/tiny.yaml")
SCRIPT = """
import sys
from mlmdist import dist
from tests.train.engines import engine_with, farthest, trained
from tests.train.test_engine import Case

here = dist.Place()
dist.start(here, timeout_seconds=60)
for stage, again in ((0, False), (2, True)):
    case = Case(stage, "fp32", 2)
    train = {"activation_checkpointing": again}
    plain, compiled = (
        trained(engine_with(case, here, kind="sgd", compile=c, **train), here, case, range(4))
        for c in (False, True)
    )
    print(farthest(compiled, plain))
from torch._dynamo.utils import counters
print(len(counters["graph_break"]), counters["stats"]["unique_graphs"])
"""


@pytest.mark.long
@pytest.mark.dist
@pytest.mark.timeout(900)
def test_compiled_layers_train_the_same_to_rounding(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stderr
    *differences, counted = done.stdout.split("\n")[-4:-1]
    assert all(float(difference) < 1e-5 for difference in differences), done.stdout
    breaks, graphs = map(int, counted.split())
    assert breaks == 0
    assert graphs > 0, "nothing was compiled"


def test_a_missing_compiler_is_said_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(compiler.SWITCH, "1")
    with pytest.raises(ConfigError, match=r"no g\+\+ or clang\+\+ in PATH; .*compile=false"):
        compiler.allow(torch.device("cpu"))
    (tmp_path / "mine").touch(mode=0o755)
    monkeypatch.setenv("CXX", "mine")
    compiler.allow(torch.device("cpu"))
    monkeypatch.setenv("CXX", "none")
    with pytest.raises(ConfigError, match="no none in PATH"):
        compiler.allow(torch.device("cpu"))


def test_stage_3_is_refused_with_a_way_out() -> None:
    with pytest.raises(
        ConfigError, match=r"compile=true with zero_stage=3: .* zero_stage 0, 1 or 2"
    ):
        load(Pretrain, RECIPE, ["train.compile=true", "train.zero_stage=3"])
