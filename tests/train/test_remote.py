"""A run on shard sets of an object store is that on local ones, killed or not (laws T1, O2)."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlmdist.errors import DONE
from mlmdist.files import place, write_bytes
from mlmdist.train.folder import saved_config
from mlmdist.train.samples import show
from tests.s3_server import BUCKET, S3Server
from tests.train.jobs import before_step, exit_codes, run
from tests.train.runs import assert_same_state, job_of
from tests.train.test_mixture import metrics

LAST = "run/checkpoints/step-00000008"


@pytest.fixture
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.mark.dist
@pytest.mark.slow
def test_t1_a_run_on_remote_shards_is_the_run_on_local_ones(
    corpus: Path, tmp_path: Path, server: S3Server
) -> None:
    urls = {side: f"s3://{BUCKET}/{side}" for side in ("train", "held_out")}
    for side, url in urls.items():
        for path in (corpus / side).iterdir():
            write_bytes(place(url) / path.name, path.read_bytes())
    local = job_of(tmp_path / "local", corpus)
    assert exit_codes(run(1, local)) == [DONE]
    cache = {"folder": str(tmp_path / "cache")}
    remote = job_of(tmp_path / "remote", corpus, data={**urls, "cache": cache})
    run(1, remote, fault=before_step(6, lambda _: os.kill(os.getpid(), signal.SIGKILL)))
    shutil.rmtree(tmp_path / "cache")
    again = run(1, remote)
    assert exit_codes(again) == [DONE], again.output()
    assert_same_state(*(path.parent / LAST for path in (local, remote)))
    assert metrics(remote.parent / "run") == metrics(local.parent / "run")
    saved = saved_config(remote.parent / "run")
    assert saved is not None
    assert (str(saved.data.train), str(saved.data.held_out)) == (urls["train"], urls["held_out"])
    kept = [path.name for path in (tmp_path / "cache").glob("?" * 64 + "/*")]
    assert sorted(kept) == ["000000", "000000", "__index__", "__index__"]
    steps = [list(show(path.parent / "run", 3)) for path in (local, remote)]
    assert steps[0] == steps[1]
