"""The number format: the fastest one that the machine has, and one run keeps one."""

from pathlib import Path

import pytest

from mlmdist import files
from mlmdist.config import loading
from mlmdist.config.pretrain import Pretrain
from mlmdist.train import folder, precision

RECIPE = Path("configs/pretrain/tiny.yaml")


@pytest.mark.parametrize(
    ("described", "found"),
    [
        ("processor : 0\nflags\t\t: fpu avx2 avx512_bf16\n", {"fpu", "avx2", "avx512_bf16"}),
        ("Features\t: fp asimd bf16\n", {"fp", "asimd", "bf16"}),
        ("processor : 0\nmodel name : a bf16 of its own\n", set()),
    ],
)
def test_a_processor_says_what_it_multiplies(
    described: str, found: set[str], tmp_path: Path
) -> None:
    (tmp_path / "cpuinfo").write_text(described)
    assert precision.cpu_flags(tmp_path / "cpuinfo") == found


def test_no_description_is_no_ability(tmp_path: Path) -> None:
    assert precision.cpu_flags(tmp_path / "none") == set()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("flags : avx2", "fp32"), ("flags : amx_bf16", "bf16"), ("Features : bf16", "bf16")],
)
def test_auto_takes_what_the_processor_multiplies(
    flags: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(flags)
    monkeypatch.setattr(precision, "CPU_DESCRIPTION", tmp_path / "cpuinfo")
    monkeypatch.setattr(precision, "GPU_DEVICES", ())
    settled = precision.settled(recipe(tmp_path))
    assert settled.train.precision == expected
    assert precision.settled(settled) == settled


@pytest.mark.parametrize("begun", ["fp32", "bf16"])
def test_t2_a_run_keeps_the_format_it_was_begun_with(begun: str, tmp_path: Path) -> None:
    started = recipe(tmp_path, f"train.precision={begun}")
    folder.save_config(started)
    files.write_text(started.run / folder.LATEST, "step-00000001")
    again = precision.settled(recipe(tmp_path))
    assert again.train.precision == begun
    folder.check_config(again)


def recipe(tmp_path: Path, *words: str) -> Pretrain:
    return loading.load(Pretrain, RECIPE, [f"run={tmp_path / 'run'}", *words])
