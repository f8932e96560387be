"""The run folder: what it is bound to, and what is said of a folder that cannot be used."""

from pathlib import Path

import pytest

from mlmdist.errors import ConfigError
from mlmdist.train import folder
from tests.train.corpus import recipe


@pytest.mark.parametrize("place", ["a file", "/proc/self/fdinfo/y", "/proc/self/status/y"])
def test_a_run_folder_that_cannot_be_is_named_with_the_systems_reason(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "a file").touch()
    run = tmp_path / place
    config = recipe(tmp_path, run)
    folder.check_config(config)
    with pytest.raises(ConfigError, match=rf"run={run}: .*(exists|directory)") as refusal:
        folder.claim(run)
    assert "\n" not in str(refusal.value)


def test_t2_a_start_that_saved_nothing_binds_the_folder_to_nothing(tmp_path: Path) -> None:
    first, second = (
        recipe(tmp_path, tmp_path / "run", data={"pair": pair}) for pair in ("nsp", "sop")
    )
    folder.save_config(first)
    folder.check_config(second)
    folder.save_config(second)
    assert folder.saved_config(tmp_path / "run") == second


@pytest.mark.parametrize("sign", [folder.LATEST, folder.DONE])
def test_t2_a_run_that_saved_something_is_bound_to_its_config(tmp_path: Path, sign: str) -> None:
    first, second = (
        recipe(tmp_path, tmp_path / "run", data={"pair": pair}) for pair in ("nsp", "sop")
    )
    folder.save_config(first)
    (tmp_path / "run" / sign).touch()
    with pytest.raises(ConfigError, match=r"data\.pair is 'sop' here, 'nsp' there"):
        folder.check_config(second)
