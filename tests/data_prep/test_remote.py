"""The whole way on an object store: from s3:// to s3://, against a real server on loopback."""

import os
import subprocess
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from data_prep import lock
from data_prep.config import Ray
from data_prep.verify import verify
from mlmdist.errors import ConfigError, UserError
from mlmdist.files import AnyPath, place, write_bytes
from tests.data_prep.corpus import command, prep, tree, write_recipe, write_slice
from tests.data_prep.inline import make_all, write_corpus
from tests.s3_server import BUCKET, S3Server

CRASHED = 77
OUT = f"s3://{BUCKET}/out"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="module")
def source(server: S3Server) -> AnyPath:
    return write_corpus(place(f"s3://{BUCKET}/raw/corpus.jsonl"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files that a run from disk to disk gives."""
    folder = tmp_path_factory.mktemp("whole")
    make_all(folder / "out", write_corpus(folder / "corpus.jsonl"))
    return tree(folder / "out")


@pytest.fixture
def output(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> AnyPath:
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.01)
    for key in server.keys("out"):
        server.client.delete_object(Bucket=BUCKET, Key=key)
    return place(OUT)


def left_over(server: S3Server) -> set[str]:
    tops = {key.split("/")[1] for key in server.keys("out")}
    notes = {key for key in server.keys("out") if key.endswith("stage.work.json")}
    return tops - {"documents", "tokenizer", "shards"} | notes


def run(output: AnyPath, source: AnyPath) -> int:
    """The exit code of a process of its own that makes everything."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            make_all(output, source)
            code = 0
        except UserError:
            code = CRASHED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_s1_a_store_gets_the_bytes_that_a_disk_gets(
    server: S3Server, output: AnyPath, source: AnyPath, whole: dict[str, bytes]
) -> None:
    make_all(output, source)
    assert server.tree("out") == whole
    assert not left_over(server)
    assert server.uploads() == []
    before = server.changes
    make_all(output, source)
    assert server.changes - before == 2, "a lock and its end"
    assert verify(output / "shards", Ray()) == []


@pytest.mark.slow
def test_s1_a_program_that_dies_again_and_again_comes_to_the_same_end(
    server: S3Server, output: AnyPath, source: AnyPath, whole: dict[str, bytes]
) -> None:
    """What a store sees of a kill: from the n-th change on there are none."""
    crashes = 0
    while True:
        server.allow(6 + 2 * crashes)
        code = run(output, source)
        server.allow(None)
        if code != CRASHED:
            break
        crashes += 1
    assert code == 0
    assert crashes >= 4
    assert server.tree("out") == whole
    assert not left_over(server)


@pytest.mark.long
def test_s1_a_death_at_any_change_of_the_store(
    server: S3Server, output: AnyPath, source: AnyPath, whole: dict[str, bytes]
) -> None:
    for changes in range(1000):
        for key in server.keys("out"):
            server.client.delete_object(Bucket=BUCKET, Key=key)
        server.allow(changes)
        code = run(output, source)
        server.allow(None)
        if code == 0:
            assert changes > 30
            return
        assert code == CRASHED
        assert run(output, source) == 0, f"no way on after a death at {changes}"
        assert server.tree("out") == whole, f"other bytes after a death at {changes}"
        assert not left_over(server), f"left behind after a death at {changes}"


@pytest.mark.slow
def test_a_store_that_goes_away_is_named_and_the_way_goes_on(
    server: S3Server, output: AnyPath, source: AnyPath, whole: dict[str, bytes]
) -> None:
    server.stop_after(25)
    try:
        started = time.monotonic()
        with pytest.raises(ConfigError, match=r"Could not connect to the endpoint .* goes on"):
            make_all(output, source)
        assert time.monotonic() - started < 60
        server.wait()
    finally:
        server.start()
    assert server.keys("out"), "it was on its way"
    for key in server.keys("out/.lock"):  # this process is alive, so its lock is not taken over
        server.client.delete_object(Bucket=BUCKET, Key=key)
    make_all(output, source)
    assert server.tree("out") == whole


def test_a_store_that_cannot_be_used_is_one_line(server: S3Server, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.jsonl")
    recipe = write_recipe(tmp_path, tmp_path / "corpus.jsonl", "jsonl")
    result = prep("clean", "--config", recipe, "output=s3://nowhere/out")
    assert result.returncode == 2
    reason = "The specified bucket does not exist; make the bucket, or name another"
    assert result.stderr == f"error: s3://nowhere/out/.lock: {reason}\n"


@pytest.fixture
def recipe(server: S3Server, output: AnyPath, tmp_path: Path) -> Path:
    """A recipe that reads a dump from the store and writes to it."""
    write_slice(tmp_path / "pages.xml.bz2", 25_000)
    url = f"s3://{BUCKET}/raw/pages.xml.bz2"
    write_bytes(place(url), (tmp_path / "pages.xml.bz2").read_bytes())
    path = write_recipe(tmp_path, tmp_path / "pages.xml.bz2")
    path.with_name("remote.yaml").write_text(
        path.read_text()
        .replace(str(tmp_path / "pages.xml.bz2"), url)
        .replace(str(tmp_path / "out"), OUT)
    )
    return path


@pytest.mark.slow
@pytest.mark.long
def test_s1_the_real_program_through_ray(server: S3Server, recipe: Path, tmp_path: Path) -> None:
    """Killed once, left alone by the store once, refused once; then as on a disk, and proved."""
    assert prep("shards", "--config", recipe).returncode == 0
    words = ("shards", "--config", recipe.with_name("remote.yaml"))
    process = subprocess.Popen(command(*words), stderr=subprocess.DEVNULL)
    while not server.keys("out/tokenizer"):
        assert process.poll() is None
        time.sleep(0.05)
    refused = prep(*words)
    assert refused.returncode == 2
    assert f"another program works in it (process {process.pid} on " in refused.stderr
    process.kill()
    process.wait()
    server.stop_after(6)
    result = prep(*words)
    server.wait()
    server.start()
    assert (result.returncode, result.stderr.count("error: ")) == (2, 1), result.stderr
    assert "Could not connect to the endpoint URL" in result.stderr
    assert "Traceback" not in result.stderr
    result = prep(*words)
    assert result.returncode == 0, result.stderr
    assert "taken over from process" in result.stderr
    assert server.tree("out") == tree(tmp_path / "out")
    result = prep("verify", f"{OUT}/shards")
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr
