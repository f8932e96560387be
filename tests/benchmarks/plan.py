"""What `--dry-run` tells against what is then measured on this machine.

    python -m tests.benchmarks.plan [--quick]

Cases, each told / measured: memory of a rank, bytes that a rank sends in a step (loopback's own
counter, of two ranks) and size of a checkpoint, for BERT-base (with --quick: small) at ZeRO 1 in
the machine's faster precision. Nothing else may use loopback meanwhile. The last line is one JSON
object.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from mlmdist import dist
from mlmdist.config.model import Model
from mlmdist.train import costs, peak
from mlmdist.train.precision import fastest
from tests.benchmarks.duel import Board, seconds
from tests.benchmarks.steps import SHAPES, Ours, Work, published_weights, rows

STEPS = 4
RANKS = 2


def main() -> None:
    """Measure, tell, compare."""
    from tests.train.ranks import on_ranks

    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.plan", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="BERT-small in place of base")
    options = parser.parse_args()
    SHAPES["small"] = (Model(num_layers=4, width=512, num_heads=8), 30_522)
    work = Work("small" if options.quick else "base", (128,) * 8, fastest())
    found = on_ranks(RANKS, measure, work, seconds=900)
    board, parameters = Board(), costs.num_parameters(work.shape, work.vocab_size)
    setting = (parameters, work.precision, 1, RANKS)
    state = costs.memory_bytes(*setting)
    labels = round(0.15 * work.tokens)
    held = costs.activation_bytes(work.shape, work.vocab_size, work.lengths, labels, work.precision)
    told = {
        "memory": state + held,
        "network": costs.wire_bytes(*setting),
        "checkpoint": costs.checkpoint_bytes(parameters, work.precision),
    }
    for name, value in told.items():
        measured = max(one[name] for one in found)
        board.note(
            name, value / measured, f"{value / 1e6:.0f} MB told, {measured / 1e6:.0f} measured"
        )
    flops = RANKS * work.flops(rows(work, 1))
    mfu = flops / found[0]["seconds"] / sum(one["peak"] for one in found)
    board.say(f"time: {found[0]['seconds']:.2f} s a step, {mfu:.0%} of the measured peak")
    board.end()
    sys.stdout.flush()
    os._exit(0)  # DeepSpeed may abort at the interpreter's end


def measure(here: dist.Place, work: Work) -> dict[str, float]:
    """Bytes and seconds of this rank."""
    weights = published_weights(work)
    top = peak.measured(work.precision)
    before = resident("VmRSS")
    engine = Ours(work, weights, here)
    del weights
    batch = rows(work, 1 + here.rank)
    engine.step(batch)
    Path("/proc/self/clear_refs").write_text("5")  # the highest so far counts from here on
    dist.barrier()
    sent = loopback()
    taken = seconds(lambda: [engine.step(batch) for _ in range(STEPS)]) / STEPS
    dist.barrier()
    return {
        "memory": resident("VmHWM") - before,
        "network": (loopback() - sent) / STEPS / RANKS,
        "checkpoint": checkpoint_bytes(engine, here),
        "seconds": taken,
        "peak": top,
    }


def checkpoint_bytes(engine: Ours, here: dist.Place) -> int:
    """The size of DeepSpeed's files of a checkpoint, over all ranks."""
    with _shared_folder(here) as folder:
        engine.engine.save(folder, "it")
        dist.barrier()
        return sum(path.stat().st_size for path in (folder / "it").iterdir())


@contextmanager
def _shared_folder(here: dist.Place) -> Iterator[Path]:
    path = Path(dist.broadcast_decision(tempfile.mkdtemp() if here.rank == 0 else ""))
    yield path
    dist.barrier()
    if here.rank == 0:
        shutil.rmtree(path)


def resident(name: str) -> int:
    """A figure of this process's memory, in bytes (man 5 proc_pid_status)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def loopback() -> int:
    """Bytes that loopback has sent so far."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[9]) for line in lines if line.strip().startswith("lo:"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
