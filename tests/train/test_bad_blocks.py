"""A run over a corpus with a bad block: refused by name, or its rows left out and counted."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from mlmdist.errors import BAD_DATA, DONE
from tests.train.jobs import before_step, exit_codes, run
from tests.train.runs import assert_same_state, job_of
from tests.train.test_mixture import metrics, several

LAST = "step-00000008"


@pytest.fixture(scope="module")
def broken(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, the one block of its held-out set damaged."""
    folder = tmp_path_factory.mktemp("broken") / "corpus"
    shutil.copytree(corpus, folder)
    path = folder / "held_out" / "000000.tar"
    data = bytearray(path.read_bytes())
    data[2000] ^= 4
    path.write_bytes(data)
    return folder


@pytest.mark.dist
@pytest.mark.slow
def test_t1_rows_of_a_bad_block_are_left_out_also_after_a_kill(
    broken: Path, tmp_path: Path
) -> None:
    data: dict[str, Any] = several(
        broken, (1, 1), bad_blocks="skip", bad_blocks_share=1, pair="none"
    )
    sections = {"data": data, "every": {"evaluate": 8, "log": 4}}
    straight = job_of(tmp_path / "straight", broken, **sections)
    one = run(1, straight)
    assert exit_codes(one) == [DONE], one.output()
    assert one.output().count("held_out/000000.tar: block 000000 at byte 0 does not match") == 2
    killed = job_of(tmp_path / "killed", broken, **sections)
    run(1, killed, fault=before_step(6, lambda _: os.kill(os.getpid(), signal.SIGKILL)))
    assert exit_codes(run(1, killed)) == [DONE]
    logged = [metrics(path.parent / "run") for path in (straight, killed)]
    assert logged[0] == logged[1]
    last = {name: value for line in logged[0] for name, value in line.items()}
    assert last["train/rows_left_out"] == round(last["train/epochs/books"] * 50) > 16
    assert last["train/tokens/books"] == 0
    assert last["train/tokens/wiki"] == last["train/tokens"] > 0
    assert_same_state(*(path.parent / "run/checkpoints" / LAST for path in (straight, killed)))
    record = json.loads((straight.parent / "run/checkpoints" / LAST / "state.json").read_text())
    assert record["counters"]["num_left_out"] == last["train/rows_left_out"]


@pytest.mark.dist
def test_s2_without_the_setting_the_run_ends_and_names_it(broken: Path, tmp_path: Path) -> None:
    refused = run(1, job_of(tmp_path / "run", broken, data=several(broken, (1, 1), pair="none")))
    assert exit_codes(refused) == [BAD_DATA]
    assert "000000.tar: block 000000 at byte 0 does not match its CRC: field" in refused.output()
