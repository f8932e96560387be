"""The command line of `launch/pretrain.py`, and how its process ends."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from mlmdist import logs
from mlmdist.errors import DONE, PREEMPTED, ConfigError, UserError
from mlmdist.train.plan import Speed
from mlmdist.train.watchdog import TOLD


@dataclass(frozen=True)
class Options:
    """What stands on the command line."""

    config: Path
    overrides: list[str]
    dry_run: bool
    check: bool
    accept: tuple[str, ...]
    nodes: int | None
    gpus_per_node: int | None
    mfu: float | None
    peak_tflops: float | None


class _Parser(argparse.ArgumentParser):
    """Refuses with a ConfigError: one line, from rank 0."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see --help")


def parse(words: list[str]) -> Options:
    """The options in `words`; raises ConfigError for what is not understood."""
    parser = _Parser(
        prog="deepspeed launch/pretrain.py",
        description="Pretrain BERT, or go on with the run that is in the folder.",
    )
    add = parser.add_argument
    add("overrides", nargs="*", metavar="key=value", help="e.g. train.steps=1000")
    add("--config", type=Path, required=True, metavar="FILE", help="a recipe in configs/pretrain/")
    add("--dry-run", action="store_true", help="print the plan and train nothing")
    add("--check", action="store_true", help="try first loss, learning and saving, and stop")
    add("--accept", action="append", default=[], metavar="FIELD", help="let a resume change it")
    add("--nodes", type=_count, help="for a dry run without a launcher")
    add("--gpus-per-node", type=_count, help="for a dry run without a launcher")
    add("--mfu", type=_share, help="share of the peak that a dry run tells time by, e.g. 0.5")
    add("--peak-tflops", type=float, help="peak of a rank, for --mfu; measured here if left out")
    add("--local_rank", type=int, help=argparse.SUPPRESS)  # the launcher puts it there
    values = vars(parser.parse_intermixed_args(words))
    values.pop("local_rank")
    return Options(**{**values, "accept": tuple(values["accept"])})


def _count(word: str) -> int:
    value = int(word)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{word} must be at least 1")
    return value


def _share(word: str) -> float:
    value = float(word)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{word} must be above 0 and at most 1")
    return value


def speed(options: Options, precision: str) -> Speed | None:
    """How fast a rank is taken to be in a dry run; None if nothing is said of it."""
    if options.mfu is None:
        return None
    peak = options.peak_tflops and 1e12 * options.peak_tflops
    if not peak:
        from mlmdist.train.peak import measured  # it needs torch, a plan alone does not

        peak = measured(precision)
    return Speed(options.mfu, peak)


def num_ranks(options: Options, launched: int) -> int:
    """Ranks to plan for: what the command line says, else what the launcher started.

    Raises ConfigError if both are given and differ.
    """
    if options.nodes is None and options.gpus_per_node is None:
        return launched
    asked = (options.nodes or 1) * (options.gpus_per_node or 1)
    if launched not in (1, asked):
        raise ConfigError(
            f"--nodes and --gpus-per-node ask for {asked} ranks, the launcher started {launched}; "
            "leave them out under a launcher"
        )
    return asked


def run_rank(command: Callable[[], Any]) -> int:
    """The exit code of this rank's work; a user's mistake is said once, not once a rank."""
    try:
        return logs.run_command(command) if _speaks() else command() or DONE
    except UserError as error:
        if TOLD not in getattr(error, "__notes__", ()) and os.environ.get("LOCAL_RANK") == "0":
            sys.stderr.write(f"error: rank {os.environ.get('RANK')}: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return PREEMPTED


def _speaks() -> bool:
    return os.environ.get("RANK", "0") == "0"


def show(text: str) -> None:
    """Print to standard output, as far as somebody reads there."""
    if sys.stdout is not None:  # it was closed before we began
        with suppress(BrokenPipeError):
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()


def end(code: int) -> NoReturn:
    """End the process at once: libraries' exit handlers have been seen to abort finished runs."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.flush()
    os._exit(code)
