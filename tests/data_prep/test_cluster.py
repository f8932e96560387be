"""Ray's door: tasks once and in full, whatever dies, and nothing left behind."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from ray.exceptions import OutOfMemoryError

from data_prep import cluster as cluster_module
from data_prep.cluster import Cluster, Died
from data_prep.config import Ray
from data_prep.own_folder import FOLDER_PREFIX, remove_leftovers
from data_prep.progress import StageProgress, Totals
from data_prep.quarantine import Killers, run_guarded
from mlmdist.errors import ConfigError, DataError
from tests.data_prep.guarded import begun_at, count_slowly, work_and_exit

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(Ray(workers=2)) as started:
        yield started


class Watched(StageProgress):
    """Keeps what it was told, as it came."""

    heard: list[Totals]

    def hear(self, board: Mapping[int, Totals], tasks: Mapping[int, int]) -> None:
        super().hear(board, tasks)
        self.heard.append(self.current())


def test_tasks_begin_in_the_order_given(cluster: Cluster) -> None:
    """So that the largest, which go first, are not waited for at the end."""
    for _ in cluster.run(begun_at, [(1.0,)] * 4):  # a worker that starts now keeps its first task
        pass
    for _ in range(4):
        begun = dict(cluster.run(begun_at, [(0.05,)] * 12))
        order = sorted(begun, key=lambda number: begun[number])
        assert all(abs(place - number) <= 4 for place, number in enumerate(order)), order


@pytest.mark.long
def test_running_tasks_are_seen_and_a_dead_try_is_not_counted(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shown = Watched("counting", [240, 240], ["whole", "dies once"], unit="B")
    shown.heard = []
    tasks = [(24, None), (24, tmp_path / "died")]
    assert dict(cluster.run(count_slowly, tasks, shown)) == {0: 24, 1: 24}
    assert (tmp_path / "died").exists()
    live = [totals.get("documents", 0) for totals in shown.heard]
    assert len({n for n in live if 0 < n < 48}) > 2, "counts came while tasks ran"
    assert shown.totals == {"documents": 48, "bytes": 480, "dropped": {"short": 48}}
    assert max(live) <= 48
    assert shown.finished == 480
    assert not shown.running
    assert capfd.readouterr().out == "", "standard output is for results"
    line = shown.summary()
    for said in ("counting: 480 B in 0:", "B/s", "48 documents", "dropped 48 short", "slowest"):
        assert said in line


@pytest.mark.slow
def test_killers_are_found_in_a_real_worker_and_the_rest_is_kept(
    cluster: Cluster, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    tasks = [(30, frozenset({7}), log), (10, frozenset[int](), log)]
    killers = Killers(tmp_path / "killers.json", 5)
    results = run_guarded(cluster, work_and_exit, tasks, names=["a", "b"], killers=killers)
    assert dict(results) == {0: [n for n in range(30) if n != 7], 1: list(range(10))}
    assert killers.found == {"a": [7]}
    lines = log.read_text().splitlines()
    assert sum(line.startswith("10 ") for line in lines) == 1, "what is done is not done again"
    assert sum(line.startswith("30 None") for line in lines) == cluster_module.MAX_RETRIES + 2


@pytest.mark.slow
def test_a_task_that_always_dies_ends_the_run(cluster: Cluster, tmp_path: Path) -> None:
    task = (3, frozenset({1}), tmp_path / "log")
    with pytest.raises(DataError, match=r"work_and_exit, task 0: its worker died 4 times"):
        list(cluster.run(work_and_exit, [task]))
    assert len((tmp_path / "log").read_text().splitlines()) == cluster_module.MAX_RETRIES + 1


def test_after_a_memory_kill_fewer_tasks_run_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(reference: object) -> object:
        raise OutOfMemoryError("the node ran out of memory")

    before = cluster.workers
    monkeypatch.setattr(cluster_module.ray, "get", killed)
    try:
        this = cluster_module._Try(1, cluster_module.Call(0, ()), 1)
        assert isinstance(cluster._outcome(None, this, None), Died)
        assert cluster.workers == max(1, before // 2) == cluster._in_flight()
    finally:
        cluster.most_workers = None


def test_an_address_where_nobody_is_is_named() -> None:
    with pytest.raises(ConfigError, match=r"ray.address=127.0.0.1:1: no Ray cluster answers"):
        Cluster(Ray(address="127.0.0.1:1"))._start()


PROGRAM = """
import sys
from mlmdist import logs
from data_prep.__main__ import _interrupt
from data_prep.cluster import Cluster
from data_prep.config import Ray
from pathlib import Path
from tests.data_prep.guarded import sleep
import signal

def run():
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    with Cluster(Ray(workers=1)) as cluster:
        list(cluster.run(sleep, [(600, Path(sys.argv[1]))]))

sys.exit(logs.run_command(run))
"""


def start(mark: Path) -> subprocess.Popen[str]:
    """A program with a task that stays, once the task has begun."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(mark)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONWARNINGS": ""},
    )
    wait(mark.exists, 90)
    return program


def wait(condition: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def left_of(program: subprocess.Popen[str]) -> list[str]:
    """Processes and folders of the Ray that a program started."""
    name = f"{FOLDER_PREFIX}{program.pid}-"
    found = [str(path) for path in Path(tempfile.gettempdir()).glob(f"{name}*")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            parent = (process / "environ").read_bytes()
        except OSError:
            continue
        if name.encode() in command + parent:
            found.append(command.decode().replace("\0", " ")[:80])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_an_interrupt_ends_it_in_seconds_and_leaves_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    program = start(tmp_path / "begun")
    assert left_of(program)
    os.killpg(program.pid, number) if number == signal.SIGINT else program.send_signal(number)
    _, said = program.communicate(timeout=30)
    assert program.returncode == 10
    assert said == "error: interrupted; the same command goes on where it was\n"
    wait(lambda: not left_of(program), 10)


@pytest.mark.long
def test_after_a_kill_the_next_start_removes_what_was_left(tmp_path: Path) -> None:
    program = start(tmp_path / "begun")
    program.kill()
    program.communicate()
    wait(lambda: all(left.startswith("/") for left in left_of(program)), 30)
    assert left_of(program), "a folder is left"
    remove_leftovers()
    assert not left_of(program)


def test_a_folder_that_is_held_or_new_is_no_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    held, new, old = (tmp_path / f"{FOLDER_PREFIX}999999999-{name}" for name in ("a", "b", "c"))
    for folder in (held, new, old):
        folder.mkdir()
    os.utime(old, (0, 0))
    lock = (held / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    remove_leftovers()
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["a", "b"]
    lock.close()
    remove_leftovers()
    assert [path.name[-1] for path in tmp_path.iterdir()] == ["b"]
