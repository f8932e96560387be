"""JSON lines over a socket: what the watchdog's two ends send each other."""

import json
import socket
from multiprocessing.connection import wait
from typing import Any

MAX_LINE_BYTES = 1 << 16


class Connection:
    """One end; sending and receiving never block for longer than asked."""

    def __init__(self, endpoint: socket.socket) -> None:
        self.endpoint = endpoint
        self.endpoint.settimeout(1.0)
        self.endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def fileno(self) -> int:
        """The descriptor, so that `wait` takes this object."""
        return self.endpoint.fileno()

    def send(self, message: dict[str, Any]) -> None:
        """Send one line; a broken connection shows when receiving, not here."""
        try:
            self.endpoint.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return

    def receive(self, seconds: float) -> tuple[list[dict[str, Any]], bool]:
        """The lines that came within `seconds`, and whether the connection is still open."""
        try:
            if not wait([self.endpoint], seconds):
                return [], True
            data = self.endpoint.recv(MAX_LINE_BYTES)
        except TimeoutError:
            return [], True
        except (OSError, ValueError):
            return [], False
        *lines, self._rest = (self._rest + data).split(b"\n")
        return _decoded(lines), bool(data) and len(self._rest) < MAX_LINE_BYTES

    def close(self) -> None:
        """Close the socket."""
        self.endpoint.close()


def _decoded(lines: list[bytes]) -> list[dict[str, Any]]:
    """The lines that are JSON objects; a stranger's bytes are passed over."""
    messages = []
    for line in lines:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            messages.append(message)
    return messages
