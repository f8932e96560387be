"""The peak that arithmetic is compared with: what this device does at best, measured here."""

import time
from collections.abc import Callable

import torch

from mlmdist.train.costs import PEAK_TFLOPS

SIZES = {"cpu": 1536, "cuda": 8192}  # of square matrices: large enough for the best rate
BUDGET_SECONDS = 0.3
MIN_TRIES = 3
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def measured(precision: str) -> float:
    """FLOP/s of a product of large square matrices on this rank's device, the best of some."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = SIZES[device.type]
    left, right = (torch.ones(size, size, device=device, dtype=DTYPES[precision]) for _ in range(2))
    times = [_seconds(lambda: torch.matmul(left, right))]
    while len(times) <= MIN_TRIES or sum(times) < BUDGET_SECONDS:
        times.append(_seconds(lambda: torch.matmul(left, right)))
    return 2 * size**3 / min(times[1:])


def of_data_sheet() -> float | None:
    """FLOP/s in bf16 by the data sheet of this GPU, where it is known."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    peaks = [peak for kind, peak in PEAK_TFLOPS.items() if kind in name]
    return 1e12 * peaks[0] if peaks else None


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin
