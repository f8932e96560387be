"""The command line: `python -m data_prep {clean,tokenizer,shards,verify,report} ...`."""

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from mlmdist import logs
from mlmdist.config.loading import load
from mlmdist.errors import BAD_DATA, DONE

STAGES = {
    "clean": "raw sources -> cleaned documents",
    "tokenizer": "cleaned documents -> a trained or adapted tokenizer",
    "shards": "cleaned documents and tokenizer -> shard sets with manifest",
}
READERS = {
    "verify": "DIR: reads shard sets back and proves their laws",
    "report": "OUTPUT: writes a page on a result; --out FILE.html",
}


def main() -> int:
    """Run one command; its exit code."""
    arguments = _parser().parse_intermixed_args()
    logs.set_up()
    signal.signal(signal.SIGTERM, _interrupt)
    run = {"verify": _verify, "report": _report}.get(arguments.command, _make)
    return logs.run_command(lambda: _naming_storage(run, arguments))


def _naming_storage(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run it; a full disk or a store that does not answer becomes an error of one line."""
    from mlmdist.object_store import one_line_errors

    with one_line_errors():
        return run(arguments)


def _interrupt(*_: object) -> None:
    """End on SIGTERM as on Ctrl-C: nothing stays behind, and the same command goes on."""
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m data_prep", description=__doc__)
    commands = "; ".join(f"{name}: {does}" for name, does in (STAGES | READERS).items())
    parser.add_argument("command", choices=[*STAGES, *READERS], help=commands)
    parser.add_argument("words", nargs="*", metavar="DIR | key=value", help="see the README")
    parser.add_argument(
        "--config", type=Path, help="recipe, for example configs/prep/quickstart.yaml"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace another result")
    parser.add_argument("--out", type=Path, help="report: the page, default OUTPUT/report.html")
    return parser


def _make(arguments: argparse.Namespace) -> int:
    from data_prep import document_stage, shard_stage, tokenizer_stage
    from data_prep.cluster import Cluster
    from data_prep.config import Prep
    from data_prep.lock import locked
    from mlmdist.errors import ConfigError

    if arguments.config is None:
        raise ConfigError(f"{arguments.command}: --config FILE must be given; see configs/prep/")
    config = load(Prep, arguments.config, arguments.words)
    with locked(config.output), Cluster(config.ray) as cluster:
        document_stage.clean_documents(config, cluster, overwrite=arguments.overwrite)
        if arguments.command in ("tokenizer", "shards"):
            tokenizer_stage.make_tokenizer(config, cluster, overwrite=arguments.overwrite)
        if arguments.command == "shards":
            shard_stage.make_shards(config, cluster, overwrite=arguments.overwrite)
    return DONE


def _verify(arguments: argparse.Namespace) -> int:
    from data_prep.config import Ray
    from data_prep.verify import verify
    from mlmdist.errors import ConfigError
    from mlmdist.files import place

    if len(arguments.words) != 1:
        raise ConfigError("verify: must be given one folder, `python -m data_prep verify DIR`")
    broken = verify(place(arguments.words[0]), Ray())
    for line in broken:
        sys.stdout.write(f"broken: {line}\n")
    return BAD_DATA if broken else DONE


def _report(arguments: argparse.Namespace) -> int:
    from data_prep.report import write_report
    from mlmdist.errors import ConfigError
    from mlmdist.files import place

    if len(arguments.words) != 1:
        raise ConfigError("report: must be given one folder, `python -m data_prep report OUTPUT`")
    output = place(arguments.words[0])
    sys.stdout.write(f"{write_report(output, arguments.out or output / 'report.html')}\n")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
