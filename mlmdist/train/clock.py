"""When this process began, for runs whose budget is time."""

import os
import time
from pathlib import Path

START_TIME_FIELD = 19  # of /proc/PID/stat behind the name (man 5 proc_pid_stat: field 22)


def process_start() -> float:
    """The start of this process in seconds on `time.monotonic`'s clock."""
    try:
        status = Path("/proc/self/stat").read_text()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return time.monotonic()
    ticks = int(status.rpartition(")")[2].split()[START_TIME_FIELD])
    return time.monotonic() - max(0.0, uptime - ticks / os.sysconf("SC_CLK_TCK"))
