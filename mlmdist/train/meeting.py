"""How the ranks of a job come together, and part: process group, watchdog, CPU threads."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from mlmdist import dist
from mlmdist.config.pretrain import Pretrain
from mlmdist.dist import Place
from mlmdist.train.watchdog import Watchdog

log = logging.getLogger(__name__)


@contextmanager
def meet(config: Pretrain, here: Place) -> Iterator[Watchdog]:
    """All ranks of the job, met, and watched over until the block ends (law T3).

    Raises ConfigError if they do not meet within `limits.start_seconds`.
    """
    dist.start(here, timeout_seconds=config.limits.start_seconds)
    watchdog = Watchdog(
        here,
        peer_seconds=config.limits.peer_seconds,
        hang_seconds=config.limits.hang_seconds,
    )
    address = dist.broadcast_decision(watchdog.listen())
    assert address is not None, "rank 0 always listens"
    with watchdog:
        watchdog.watch(address)
        yield watchdog
        dist.barrier()  # nobody leaves the watch while another may still need it
    dist.finish()


def use_threads(here: Place, threads: int, saved: int | None) -> int:
    """Set and return the CPU threads of this rank: as configured, as before, or a fair share."""
    import torch

    shared = max(1, len(os.sched_getaffinity(0)) // here.local_size)
    chosen = threads or saved or shared
    if saved not in (None, chosen):
        log.warning("train.threads=%d, %d before: the resume is not to the bit", chosen, saved)
    torch.set_num_threads(chosen)
    return chosen
