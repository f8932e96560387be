"""The door to Ray: run a function over tasks, on this machine or on a cluster that is there."""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import data_prep
import mlmdist
from data_prep.config import Ray
from mlmdist.errors import ConfigError, DataError, UserError

log = logging.getLogger(__name__)

FOLDER_PREFIX = "mlmdist-ray-"
MAX_RETRIES = 3  # of a task whose worker died; an error in the task itself is not tried again
IN_FLIGHT_PER_WORKER = 2
OBJECT_STORE_BYTES = 100 << 20  # tasks pass file names and counts, never text

# Read by Ray when it is imported, and by the processes it starts.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_task_oom_retries", str(MAX_RETRIES))

import ray  # noqa: E402
from ray.exceptions import RayError, RayTaskError  # noqa: E402


class Cluster:
    """Ray, joined at an address or started here and gone, with all its files, at the end.

    It starts with the first task, so a command that finds all its work done does not wait for it.
    """

    def __init__(self, config: Ray) -> None:
        self.config = config
        self.started = False
        self.folder: Path | None = None

    def __enter__(self) -> "Cluster":
        return self

    def _start(self) -> None:
        if self.config.address is None:
            self._start_local()
        else:
            self._join(self.config.address)
        self.started = True

    def _start_local(self) -> None:
        _remove_leftovers()
        # Ray's sockets need a short path.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
        ray.init(
            address="local",
            num_cpus=self.config.workers or os.cpu_count(),
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=str(self.folder),
            **_QUIET,
        )

    def _join(self, address: str) -> None:
        """The cluster's workers get this program's own packages, so that both sides are equal."""
        modules = [str(Path(package.__path__[0])) for package in (mlmdist, data_prep)]
        try:
            ray.init(address=address, runtime_env={"py_modules": modules}, **_QUIET)
        except (ConnectionError, RayError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"ray.address={address}: no Ray cluster answers there ({error}); "
                "start one with `ray start --head`, or leave ray.address out"
            ) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.started:
            ray.shutdown()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def workers(self) -> int:
        """Tasks that run at once."""
        return self.config.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def run(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """(number, `function(*task)`) of each task as it ends, in no order.

        Few tasks are in flight at once, so memory does not grow with their number. A task may run
        more than once, if its worker dies: it must write whole files or none. Raises the task's own
        error, if it is one for the user.
        """
        if not tasks:
            return
        if not self.started:
            self._start()
        remote = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(function)
        waiting = iter(enumerate(tasks))
        running: dict[Any, int] = {}
        while True:
            while len(running) < self.workers * IN_FLIGHT_PER_WORKER:
                if (following := next(waiting, None)) is None:
                    break
                number, task = following
                running[remote.remote(*task)] = number
            if not running:
                return
            (done,), _ = ray.wait(list(running), num_returns=1)
            number = running.pop(done)
            yield number, _result(done)


def _remove_leftovers() -> None:
    """Remove the folders of programs that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*-*"):
        owner = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        if not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


_QUIET: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}


def _result(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, OSError):
            cause = DataError(f"{cause}; mend that, then the same command goes on")
        raise cause if isinstance(cause, UserError) else error from None
