"""The ways a command can end: one exception and one exit code each.

A `UserError` is something its reader can mend: its text is one line that names the value given, the
rule, and the way out. The command line prints it without a traceback and exits with its code.
"""

DONE = 0
BUG = 1
BAD_CONFIG = 2
BAD_DATA = 3
PREEMPTED = 10
PEER_LOST = 11
HANG = 12
NO_PROGRESS = 13


class UserError(Exception):
    """A mistake or an event outside the code; `exit_code` is what the process ends with."""

    exit_code = BUG


class ConfigError(UserError):
    """The configuration, the command line or the machine's set-up is wrong (exit code 2)."""

    exit_code = BAD_CONFIG


class DataError(UserError):
    """A corpus, shard set, tokenizer, model or checkpoint is missing or wrong (exit code 3)."""

    exit_code = BAD_DATA


class Preempted(UserError):
    """The run was asked to stop and saved what it had; the same command goes on (exit code 10)."""

    exit_code = PREEMPTED


class PeerLost(UserError):
    """Another rank is gone (exit code 11)."""

    exit_code = PEER_LOST


class Hang(UserError):
    """A rank is alive but makes no progress (exit code 12)."""

    exit_code = HANG


class NoProgress(UserError):
    """The run cannot succeed as configured, for example every loss is NaN (exit code 13)."""

    exit_code = NO_PROGRESS
