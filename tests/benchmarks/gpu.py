"""Training steps on one NVIDIA GPU, against transformers in bf16, with MFU; under 8 minutes.

    python -m tests.benchmarks.gpu [--tiny] [--seconds N]

Base and large, at 128 and 512, full and ragged; against transformers with sdpa and, for full rows,
compiled. Our own choices (attention by lengths, compiled layers, activation checkpointing, fp16)
stand beside our step without them, with the most memory that each took. `--tiny` runs the same on
small models, on a CPU too, to see that all of it works. Cases that do not fit into N seconds
(default 420) are left out and named. The last line is one JSON object.
"""

import argparse
import gc
import itertools
import os
import sys
import time
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor

from mlmdist.data.batch import StepBatch
from mlmdist.dist import Place
from mlmdist.train.costs import PEAK_TFLOPS
from tests.benchmarks.duel import Board, seconds
from tests.benchmarks.steps import (
    Ours,
    Theirs,
    Work,
    check_equal,
    here_alone,
    peak_flops,
    published_weights,
    rows,
)

TOKENS_A_STEP = {"base": 1 << 16, "large": 1 << 15}
LENGTHS = (512, 128)
STEPS = {False: (4, 10), True: (1, 2)}
"""Steps to warm up, and timed ones; fewer for tiny models."""


def main() -> None:
    """Measure all there is time for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="small models and few steps")
    parser.add_argument("--seconds", type=float, default=420.0)
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    here = here_alone()
    board = Board()
    has_gpu = torch.cuda.is_available()
    precision = "bf16" if has_gpu else "fp32"
    peak = peak_flops(torch.bfloat16 if has_gpu else torch.float32)
    sheet = data_sheet_flops() or peak
    name = torch.cuda.get_device_name() if has_gpu else "CPU"
    board.say(f"{name}: products at {peak / 1e12:.1f} TFLOP/s, data sheet {sheet / 1e12:.0f}")
    for size, length, ragged in itertools.product(("large", "base"), LENGTHS, (False, True)):
        case = f"{size}_s{length}{'_ragged' if ragged else ''}"
        if time.monotonic() > until:
            board.say(f"{case}: left out, the time is over")
            continue
        shown = "tiny" if options.tiny else size
        num_rows = 4 if options.tiny else TOKENS_A_STEP[size] // length
        lengths = tuple(spread(length, num_rows) if ragged else [length] * num_rows)
        work = Work(shown, lengths, precision)
        measure(board, case, work, here, (peak, sheet), until, compiled=not ragged)
    board.end()
    sys.stdout.flush()
    os._exit(0)


def spread(longest: int, number: int) -> list[int]:
    """Lengths spread evenly up to the longest."""
    return [max(8, round(longest * (row + 0.5) / number)) for row in range(number)]


def measure(
    board: Board,
    case: str,
    work: Work,
    here: Place,
    peaks: tuple[float, float],
    until: float,
    *,
    compiled: bool,
) -> None:
    """Our step and theirs, one after the other, for both together may not fit into memory."""
    weights = published_weights(work)
    check_equal(replace(work, lengths=work.lengths[:4]), weights, here)
    batch = rows(work, 1)
    ours, memory = step_of(work, weights, here, batch)
    speed = work.flops(batch) / ours
    board.note(f"{case}_sequences_per_second", len(work.lengths) / ours)
    board.note(f"{case}_mfu", speed / peaks[1], f"{speed / peaks[0]:.0%} of products")
    kinds = [("sdpa", False)] + ([("sdpa", True)] if compiled and torch.cuda.is_available() else [])
    for attention, is_compiled in kinds:
        if time.monotonic() > until:
            board.say(f"{case}: no time for {attention}{' compiled' * is_compiled}")
            return
        mode = "autocast" if work.precision == "bf16" else "fp32"
        other = Theirs(work, weights, attention=attention, mode=mode, compiled=is_compiled)
        theirs = step_seconds(other, batch, *STEPS[work.size == "tiny"])
        board.note(f"{case}_vs_hf_{attention}{'_compiled' * is_compiled}", theirs / ours)
        del other
        empty()
    for name, (changed, choices) in choices_of(work).items():
        if time.monotonic() > until:
            board.say(f"{case}: no time for {name}")
            return
        taken, peak = step_of(changed, weights, here, batch, **choices)
        remark = f"{peak / memory:.0%} of its memory" if memory else ""
        board.note(f"{case}_{name}_speed", ours / taken, remark)


def choices_of(work: Work) -> dict[str, tuple[Work, dict[str, Any]]]:
    """What a user may choose, by name: the work and the values of `train`; GPUs' own only there."""
    plain = replace(work, drops_attention=False)
    found: dict[str, tuple[Work, dict[str, Any]]] = {
        "recomputed": (work, {"activation_checkpointing": True}),
        "offloaded": (work, {"offload": "optimizer"}),
        "no_attention_dropout": (plain, {}),
    }
    if torch.cuda.is_available():
        found["compiled"] = (work, {"compile": True})
        found["compiled_no_attention_dropout"] = (plain, {"compile": True})
        found["fp16"] = (replace(plain, precision="fp16"), {})
    return found


def step_of(
    work: Work, weights: dict[str, Tensor], here: Place, batch: StepBatch, **choices: Any
) -> tuple[float, int]:
    """The time of our step, and the most memory that it took on a GPU, in bytes."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    one = Ours(work, weights, here, **choices)
    taken = step_seconds(one, batch, *STEPS[work.size == "tiny"])
    del one
    empty()
    return taken, torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0


def step_seconds(contestant: Ours | Theirs, batch: StepBatch, warm: int, timed: int) -> float:
    """The median time of a step; its loss is a number, so the device is waited for."""
    for _ in range(warm):
        contestant.step(batch)
    return median(seconds(lambda: contestant.step(batch)) for _ in range(timed))


def empty() -> None:
    """Give the memory of what was deleted back."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def data_sheet_flops() -> float | None:
    """The GPU's dense bf16 peak as its maker tells it, if it is known."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return next((peak * 1e12 for kind, peak in PEAK_TFLOPS.items() if kind in name), None)


if __name__ == "__main__":
    main()
