"""The shipper as training sees it: a process that is started, kept alive, and ended in time."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import mlmdist

log = logging.getLogger(__name__)

RESTART_SECONDS = 300.0


class ShipperProcess:
    """A running `mlmdist.tracking.shipper` for one run folder."""

    def __init__(self, run: Path, timeout_seconds: float) -> None:
        self._run, self._timeout_seconds = run, timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    def keep_alive(self) -> None:
        """Start it anew if it died, at most every `RESTART_SECONDS`; else costs a microsecond."""
        if not self._is_alive() and time.monotonic() - self._started > RESTART_SECONDS:
            self._start()

    def close(self, timeout_seconds: float) -> bool:
        """Let it send the rest and end it, within the time; whether everything was sent."""
        if not self._is_alive():
            self._start()
        if self._process is None:
            return False
        try:
            self._process.communicate(b"close\n", timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        return self._process.returncode == 0

    def _is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self) -> None:
        """Start it apart from our terminal and launcher: it ends by itself when we do."""
        self._started = time.monotonic()
        words = [str(self._run), str(os.getpid()), str(self._timeout_seconds)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mlmdist.tracking.shipper", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(),
            )
        except OSError as error:
            self._process = None
            log.warning("%s is not sent to MLflow: no process: %s", self._run, error)


def _environment() -> dict[str, str]:
    """Ours, with this very package found first and one thread for number crunching."""
    home = str(Path(mlmdist.__file__).parents[1])
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
