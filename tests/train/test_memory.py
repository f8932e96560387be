"""A step that finds no memory says what was asked and what would fit; the real allocator fails."""

import resource
from pathlib import Path

import pytest
import torch

from mlmdist.data.batch import StepBatch
from mlmdist.dist import Place
from mlmdist.errors import BAD_CONFIG, ConfigError
from mlmdist.train import memory
from mlmdist.train.engine import Engine
from tests.train import rows
from tests.train.engines import engine_with
from tests.train.jobs import before_step, exit_codes, run
from tests.train.ranks import on_ranks
from tests.train.runs import job_of
from tests.train.test_engine import Case, config

CPU_SAYS = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 123456 bytes. Error code 12 (Cannot allocate memory)"
)
GPU_SAYS = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 139.81 GiB of "
    "which 1.19 GiB is free."
)
CONFIG = config(Case(1, "fp32", 1))
TRAIN = CONFIG.train


@pytest.mark.parametrize(
    ("said", "asked"),
    [(CPU_SAYS, 123456), (GPU_SAYS, 5 << 29), ("std::bad_alloc", 0), ("CUDA out of memory", 0)],
)
def test_an_allocators_words_are_understood(said: str, asked: int) -> None:
    assert memory.is_failure(RuntimeError(said))
    assert memory.asked_bytes(said) == asked


def watched() -> memory.Memory:
    return memory.Memory(torch.device("cpu"), CONFIG, vocab_size=rows.VOCAB_SIZE, world_size=1)


def test_other_errors_are_left_as_they_are() -> None:
    assert not memory.is_failure(RuntimeError("Connection closed by peer"))
    assert memory.is_failure(torch.OutOfMemoryError("anything"))
    assert memory.is_failure(MemoryError())
    with pytest.raises(RuntimeError, match="mat1 and mat2"), watched().explained(batch_of(1)):
        _ = torch.ones(2, 3) @ torch.ones(2, 3)


@pytest.mark.parametrize(
    ("device", "said", "free", "raised"),
    [
        ("cpu", "could not create a primitive", 20 << 20, ConfigError),
        ("cpu", "could not create a primitive", 1 << 40, RuntimeError),
        ("cpu", "anything else", 20 << 20, RuntimeError),
        ("cpu", "anything else", 1 << 20, ConfigError),
        ("cuda", "anything else", 0, RuntimeError),
        ("cuda", "CUDA out of memory", 0, ConfigError),
    ],
)
def test_vague_words_mean_memory_only_where_little_is_free(
    device: str, said: str, free: int, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_ = watched()
    monkeypatch.setattr(memory_, "device", torch.device(device))
    monkeypatch.setattr(memory_, "free", lambda: free)
    monkeypatch.setattr(memory_, "used", lambda: 0)
    with pytest.raises(raised) as caught, memory_.explained(batch_of(2000)):
        raise RuntimeError(said)
    assert type(caught.value) is raised


@pytest.mark.parametrize(
    ("num_rows", "needed", "there", "fitting"),
    [(64, 600, 600, 32), (64, 600, 500, 32), (64, 600, 125, 8), (64, 0, 9, 32), (3, 9, 0, 1)],
)
def test_what_would_fit_is_at_most_half(
    num_rows: int, needed: int, there: int, fitting: int
) -> None:
    assert memory.fitting_rows(num_rows, needed, there) == fitting


def batch_of(num_rows: int) -> StepBatch:
    """One micro-batch of so many rows."""
    part = rows.joined([rows.row(seed) for seed in range(num_rows)])
    return StepBatch(0, [part], len(part.labels), num_rows, len(part.tokens))


def take_all_but(num_bytes: int) -> None:
    """Let this process have so many bytes of addresses more, and no more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + num_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def starved(here: Place, precision: str, mebibytes: int, num_rows: int) -> str:
    """What a step over so many rows says that has so many MiB; empty if it has enough."""
    engine = engine_with(Case(0, precision, 1), here, width=64, micro_batch=num_rows)
    step(engine, batch_of(8))
    big = batch_of(num_rows)
    take_all_but(mebibytes << 20)
    engine.memory.base = engine.memory.used()
    try:
        step(engine, big)
    except ConfigError as error:
        return str(error)
    return ""


def step(engine: Engine, batch: StepBatch) -> None:
    engine.step(batch, rows.global_counts(0), 1e-3)


@pytest.mark.dist
@pytest.mark.parametrize(
    ("precision", "mebibytes", "num_rows"), [("fp32", 64, 1500), ("bf16", 256, 5000)]
)
def test_a_real_failure_names_the_micro_batch_and_one_that_does_fit(
    precision: str, mebibytes: int, num_rows: int
) -> None:
    (said,) = on_ranks(1, starved, precision, mebibytes, num_rows)
    assert said.startswith(f"train.micro_batch={num_rows}: {num_rows} rows at once do not fit")
    assert ("MB more was asked for" if precision == "fp32" else "more was asked for") in said
    assert "B was there); train.micro_batch=" in said
    assert said.endswith(" should fit, or try train.activation_checkpointing=true")
    fitting = int(said.partition("; train.micro_batch=")[2].split()[0])
    assert on_ranks(1, starved, precision, mebibytes, fitting) == [""]


def test_with_one_row_there_are_other_ways() -> None:
    with (
        pytest.raises(ConfigError, match=r"1 rows? at once .* was there\); try train\.activation"),
        watched().explained(batch_of(1)),
    ):
        raise RuntimeError(CPU_SAYS)
    ways = memory.other_ways(TRAIN, on_gpu=True, shards=True)
    assert ways == (
        "train.activation_checkpointing=true or train.zero_stage=3 in a new run folder or "
        "train.offload=optimizer"
    )
    smallest = TRAIN.model_copy(update={"activation_checkpointing": True, "zero_stage": 3})
    assert memory.other_ways(smallest, on_gpu=False, shards=True) == ""


def starve(rank: int) -> None:
    if rank == 1:
        take_all_but(100 << 20)


@pytest.mark.dist
def test_a_job_without_memory_ends_with_one_line_and_exit_code_2(
    corpus: Path, tmp_path: Path
) -> None:
    config = job_of(
        tmp_path / "job",
        corpus,
        model={"width": 512},
        train={"global_batch": 1200, "micro_batch": 600, "precision": "fp32"},
    )
    job = run(2, config, fault=before_step(0, starve))
    assert exit_codes(job) == [BAD_CONFIG] * 2, job.output()
    assert job.output().count("do not fit into memory") == 1
    assert "Traceback" not in job.output()
