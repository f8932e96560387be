"""Law T3: no rank waits for ever; the job ends within a bounded time and names the rank."""

import multiprocessing
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from mlmdist.dist import Place
from mlmdist.errors import BAD_DATA, BUG, DONE, HANG, PEER_LOST, DataError
from mlmdist.train.hub import Hub, Peer, names
from mlmdist.train.lines import Connection
from mlmdist.train.watchdog import Watchdog
from tests.train.corpus import recipe, write_recipe
from tests.train.jobs import Job, before_step, start

PEER_SECONDS = 2.0
HANG_SECONDS = 3.0
BOUND_SECONDS = 30.0  # the deadlines, and what a loaded machine adds
KILLED = -signal.SIGKILL

pytestmark = pytest.mark.dist


def endless_job(folder: Path, corpus: Path, fault: Callable[[int], None] | None = None) -> Job:
    """Two ranks that train for hours, in their first steps."""
    config = recipe(
        corpus,
        folder / "run",
        train={"steps": 1_000_000},
        every={"save": 2, "log": 1000, "evaluate": 1_000_000},
        limits={"peer_seconds": PEER_SECONDS, "hang_seconds": HANG_SECONDS},
    )
    job = start(2, write_recipe(config), fault=fault)
    try:
        job.wait_for(folder / "run" / "latest")
    except BaseException:
        job.kill()
        raise
    return job


def ended(job: Job, ranks: tuple[int, ...]) -> tuple[list[int | None], float]:
    """Exit codes, and the seconds until the last of `ranks` had ended."""
    began = time.monotonic()
    try:
        for rank in ranks:
            job.processes[rank].join(BOUND_SECONDS)
        seconds = time.monotonic() - began
        return [job.processes[rank].exitcode for rank in ranks], seconds
    finally:
        job.kill()


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_t3_a_killed_rank_ends_the_job_and_is_named(
    corpus: Path, tmp_path: Path, rank: int
) -> None:
    job = endless_job(tmp_path, corpus)
    job.signal(rank, signal.SIGKILL)
    codes, seconds = ended(job, (1 - rank,))
    assert codes == [PEER_LOST], job.output()
    assert seconds < BOUND_SECONDS
    assert f"error: rank {rank} is gone without a word" in job.log(1 - rank)
    assert "Traceback" not in job.log(1 - rank)


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_t3_a_stopped_rank_ends_the_job_and_is_named(
    corpus: Path, tmp_path: Path, rank: int
) -> None:
    job = endless_job(tmp_path, corpus)
    job.signal(rank, signal.SIGSTOP)
    codes, seconds = ended(job, (1 - rank,))
    assert codes == [PEER_LOST], job.output()
    assert seconds < BOUND_SECONDS
    assert f"rank {rank}" in job.log(1 - rank)
    assert "not heard of for" in job.log(1 - rank)


def test_t3_a_stopped_rank_does_not_stay_behind(corpus: Path, tmp_path: Path) -> None:
    job = endless_job(tmp_path, corpus)
    job.signal(1, signal.SIGSTOP)
    codes, _ = ended(job, (0, 1))
    assert codes == [PEER_LOST, KILLED], job.output()


@pytest.mark.parametrize("stuck", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_t3_a_rank_stuck_in_a_loop_ends_the_job_and_is_named(
    corpus: Path, tmp_path: Path, stuck: int
) -> None:
    def spin(rank: int) -> None:
        while rank == stuck:
            time.sleep(0.001)

    job = endless_job(tmp_path, corpus, before_step(3, spin))
    codes, seconds = ended(job, (0, 1))
    assert codes == [HANG, HANG], job.output()
    assert seconds < BOUND_SECONDS
    assert f"error: rank {stuck} without progress for 3 s" in job.log(0)
    assert f"rank {1 - stuck} waiting for it" in job.log(0)
    assert "in spin" in job.log(stuck)  # where it stood


def test_t3_an_error_of_one_rank_ends_all_with_its_code(corpus: Path, tmp_path: Path) -> None:
    def fail(rank: int) -> None:
        if rank == 1:
            raise DataError("shard 000007.tar: a byte is wrong")

    job = endless_job(tmp_path, corpus, before_step(3, fail))
    codes, _ = ended(job, (0, 1))
    assert codes == [BAD_DATA, BAD_DATA], job.output()
    assert job.output().count("error: shard 000007.tar: a byte is wrong") == 1
    assert "error:" in job.log(0)


@pytest.mark.slow
def test_t3_a_bug_on_one_rank_ends_all_and_keeps_its_traceback(
    corpus: Path, tmp_path: Path
) -> None:
    def fail(rank: int) -> None:
        if rank == 1:
            raise KeyError("no such key")

    job = endless_job(tmp_path, corpus, before_step(3, fail))
    codes, _ = ended(job, (0, 1))
    assert codes == [BUG, BUG], job.output()
    assert "rank 1 failed: KeyError" in job.log(0)
    assert "in fail" in job.log(1)


def watched(rank: int, world_size: int, address: Any, work: Callable[[Watchdog], None]) -> None:
    """A bare rank under a watchdog, without torch."""
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    watchdog = Watchdog(Place(rank, world_size), peer_seconds=1.5, hang_seconds=1.5)
    found = watchdog.listen()
    if found is not None:
        for _ in range(world_size - 1):
            address.put(found)
    with watchdog:
        watchdog.watch(found or address.get())
        work(watchdog)


def bare_ranks(world_size: int, work: Callable[[int, Watchdog], None]) -> list[BaseProcess]:
    context = multiprocessing.get_context("fork")
    address = context.Queue()
    processes: list[BaseProcess] = []
    for rank in range(world_size):

        def own(watchdog: Watchdog, rank: int = rank) -> None:
            work(rank, watchdog)

        process = context.Process(target=watched, args=(rank, world_size, address, own))
        process.start()
        processes.append(process)
    return processes


def joined(processes: list[BaseProcess]) -> list[int | None]:
    for process in processes:
        process.join(BOUND_SECONDS)
        if process.is_alive():
            process.kill()
    return [process.exitcode for process in processes]


def test_t3_ranks_that_progress_are_left_alone_and_part_in_any_order() -> None:
    def work(rank: int, watchdog: Watchdog) -> None:
        for number in range(25):
            watchdog.mark(f"step {number}")
            time.sleep(0.1)
        time.sleep(0.3 * ((rank + 1) % 3))

    assert joined(bare_ranks(3, work)) == [DONE] * 3


def test_t3_a_long_piece_of_work_that_tells_it_is_alive_is_no_hang() -> None:
    def work(rank: int, watchdog: Watchdog) -> None:
        for _ in range(25):
            watchdog.alive()
            time.sleep(0.1)

    assert joined(bare_ranks(2, work)) == [DONE] * 2


@pytest.mark.parametrize("worker", [0, 1])
def test_t3_who_waits_for_a_rank_that_tells_it_is_alive_does_not_hang(worker: int) -> None:
    def work(rank: int, watchdog: Watchdog) -> None:
        for _ in range(25):
            if rank == worker:
                watchdog.alive()
            time.sleep(0.1)
        watchdog.mark("done")

    assert joined(bare_ranks(2, work)) == [DONE] * 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_t3_a_job_that_was_stopped_as_a_whole_goes_on(order: tuple[int, int]) -> None:
    def work(rank: int, watchdog: Watchdog) -> None:
        for number in range(15):
            watchdog.mark(f"step {number}")
            time.sleep(0.1)

    processes = bare_ranks(2, work)
    time.sleep(0.5)
    for number, pause in ((signal.SIGSTOP, 2.5), (signal.SIGCONT, 0.5)):
        for rank in order:
            pid = processes[rank].pid
            assert pid is not None
            os.kill(pid, number)
        time.sleep(pause)  # longer than every deadline
    assert joined(processes) == [DONE] * 2


def test_t3_a_rank_whose_launcher_is_gone_ends() -> None:
    context = multiprocessing.get_context("fork")
    pid = context.Value("i", 0)

    def rank() -> None:
        watchdog = Watchdog(Place(launched=True), peer_seconds=2.0, hang_seconds=60.0)
        with watchdog:
            address = watchdog.listen()
            assert address is not None
            watchdog.watch(address)
            pid.value = os.getpid()
            time.sleep(60)

    def launcher() -> None:
        context.Process(target=rank).start()

    parent = context.Process(target=launcher)
    parent.start()
    while not pid.value:
        time.sleep(0.01)
    assert parent.pid is not None
    os.kill(parent.pid, signal.SIGKILL)
    parent.join()
    deadline = time.monotonic() + BOUND_SECONDS
    while Path(f"/proc/{pid.value}").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{pid.value}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    assert time.monotonic() < deadline


def test_a_stranger_without_the_word_is_not_let_in() -> None:
    hub = Hub(world_size=2, word="word", peer_seconds=60, hang_seconds=60)
    stranger = Connection(socket.create_connection(("127.0.0.1", hub.port)))
    stranger.send({"word": "guess", "hello": {"rank": 1, "pid": 1, "machine": "x"}})
    own = {"count": 1, "ticks": 0, "where": "here"}
    for _ in range(3):
        assert hub.turn(0.1, own) is None
    assert hub.peers[1].connection is None
    assert hub.strangers == []
    stranger.close()
    hub.close()


@pytest.fixture
def few_files() -> Iterator[int]:
    """The usual soft limit of open files; the limit above it, to which a process may rise."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip(f"{hard} open files are allowed (ulimit -Hn), 4096 are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ranks_beyond_the_usual_limit_of_files_are_heard(few_files: int) -> None:
    world_size = 1100
    hub = Hub(world_size=world_size, word="word", peer_seconds=60, hang_seconds=60)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > world_size
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, few_files))  # the other ends are here too
    ends = []
    for rank in range(1, world_size):
        ends.append(Connection(socket.create_connection(("127.0.0.1", hub.port))))
        ends[-1].send({"word": "word", "hello": {"rank": rank, "pid": rank, "machine": "x"}})
        hub._listen(5.0)  # accepts
        hub._listen(5.0)  # admits
    assert all(peer.connection for peer in hub.peers.values() if peer.rank)
    assert hub.turn(0.01, {"count": 1, "ticks": 0, "where": "here"}) is None
    for end in ends:
        assert end.receive(5.0) == ([{"alive": True}], True)
        end.close()
    hub.close()


def test_the_rank_with_the_fewest_marks_is_the_one_that_hangs() -> None:
    hub = Hub(world_size=3, word="word", peer_seconds=60, hang_seconds=0.0)
    now = time.monotonic()
    for rank, count in ((0, 7), (1, 5), (2, 7)):
        hub.peers[rank] = Peer(rank, count=count, where=f"mark {count}", heard=now, moved=now - 1)
    verdict = hub._judge()
    hub.close()
    assert verdict is not None
    assert (verdict.code, verdict.ranks) == (HANG, (1,))
    assert "rank 1 without progress" in verdict.text
    assert "mark 5, ranks 0, 2 waiting" in verdict.text


def test_names_of_ranks() -> None:
    assert names((3,)) == "rank 3"
    assert names((1, 3)) == "ranks 1, 3"
