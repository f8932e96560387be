"""A real `mlflow server` on loopback that can be killed, stopped, and started again."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path


class MlflowServer:
    """`mlflow server` on a free port, with an SQLite store in `folder`; it keeps both for life."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        words = ["--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"]
        words += ["--artifacts-destination", str(self.folder / "artifacts"), "--workers", "1"]
        words += ["--host", "127.0.0.1", "--port", str(self.port)]
        off = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *words],
                stdout=log,
                stderr=log,
                start_new_session=True,  # a group of its own, so that signals reach its workers
                env={**os.environ, **off},
            )
        end = time.monotonic() + 90
        while not self._answers():
            assert time.monotonic() < end, (self.folder / "server.log").read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        """End it without warning (SIGKILL)."""
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop it: connections are still accepted by the kernel, and nothing is answered."""
        assert self._process
        os.killpg(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process
        os.killpg(self._process.pid, signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False
