"""The `mlmdist` command: what is done with a run after, or besides, its training."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mlmdist import logs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; the process's exit code comes back (mlmdist/errors.py)."""
    options = _parser().parse_args(arguments)
    logs.set_up()
    return logs.run_command(lambda: options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mlmdist", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_export(commands)
    _add_fill(commands)
    _add_show(commands)
    _add_summary(commands)
    _add_track(commands)
    return parser


def _add_export(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "checkpoint -> Hugging Face directory, reloaded and compared before it counts"
    parser = commands.add_parser("export", help=text, description=text)
    parser.add_argument("source", type=Path, metavar="RUN", help="run folder or checkpoint")
    parser.add_argument("out", type=Path, metavar="DIR", help="directory to make")
    parser.add_argument(
        "--lines",
        type=Path,
        metavar="FILE",
        help="text whose token ids are compared, line by line; default: held-out windows",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier export")
    parser.set_defaults(run=_export)


def _add_fill(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "what the model puts at each [MASK] of a text"
    parser = commands.add_parser("fill", help=text, description=text)
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="run, checkpoint or Hugging Face directory"
    )
    parser.add_argument("text", metavar="TEXT", help='"The capital of France is [MASK]."')
    parser.add_argument("--top-k", type=int, default=5, help="answers a blank (default 5)")
    parser.set_defaults(run=_fill)


def _add_show(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "what a step of a run saw: its rows as text, masked and labelled"
    parser = commands.add_parser("show", help=text, description=text)
    parser.add_argument("folder", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--step", type=int, required=True, metavar="N", help="step, from 1 on")
    parser.add_argument("--row", type=int, metavar="R", help="one row of it, from 0 on")
    parser.set_defaults(run=_show)


def _add_summary(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "what a run came to, on one screen"
    parser = commands.add_parser("summary", help=text, description=text)
    parser.add_argument("folder", type=Path, metavar="RUN", help="run folder")
    parser.set_defaults(run=_summary)


def _add_track(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "send to MLflow what it has not got of a run, because it was away"
    parser = commands.add_parser("track", help=text, description=text)
    parser.add_argument("folder", type=Path, metavar="RUN", help="run folder")
    parser.set_defaults(run=_track)


def _export(options: argparse.Namespace) -> None:
    from mlmdist.export.directory import export
    from mlmdist.export.publishing import publish

    overwrite, lines = options.overwrite, options.lines
    if export(options.source, options.out, lines=lines, overwrite=overwrite):
        publish(options.source, options.out)
    print(options.out)


def _track(options: argparse.Namespace) -> None:
    from mlmdist.tracking.shipper import ship

    print(ship(options.folder))


def _fill(options: argparse.Namespace) -> None:
    from mlmdist.scoring.fill import fill
    from mlmdist.scoring.model import open_model

    blanks = fill(open_model(options.model), options.text, options.top_k)
    for number, answers in enumerate(blanks, 1):
        if len(blanks) > 1:
            print(f"blank {number}")
        for answer in answers:
            print(f"{answer.score:.4f}  {answer.token_str:<16}  {answer.sequence}")


def _show(options: argparse.Namespace) -> None:
    from mlmdist.train.samples import show

    for line in show(options.folder, options.step, options.row):
        print(line)


def _summary(options: argparse.Namespace) -> None:
    from mlmdist.scoring.summary import summary

    print(summary(options.folder))


if __name__ == "__main__":
    sys.exit(main())
