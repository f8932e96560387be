"""The command line: `python -m data_prep {clean,tokenizer,shards,verify} ...`."""

import argparse
import sys
from pathlib import Path

from mlmdist import logs
from mlmdist.config.loading import load
from mlmdist.errors import BAD_DATA, DONE

STAGES = {
    "clean": "raw sources -> cleaned documents",
    "tokenizer": "cleaned documents -> SentencePiece tokenizer",
    "shards": "cleaned documents and tokenizer -> shard sets with manifest",
}


def main() -> int:
    """Run one command; its exit code."""
    arguments = _parser().parse_intermixed_args()
    logs.set_up()
    if arguments.command == "verify":
        return logs.run_command(lambda: _verify(arguments))
    return logs.run_command(lambda: _make(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m data_prep", description=__doc__)
    commands = ", ".join([*STAGES, "verify"])
    parser.add_argument("command", choices=[*STAGES, "verify"], help=commands)
    parser.add_argument("words", nargs="*", metavar="DIR | key=value", help="see the README")
    parser.add_argument(
        "--config", type=Path, help="recipe, for example configs/prep/quickstart.yaml"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace another result")
    return parser


def _make(arguments: argparse.Namespace) -> int:
    from data_prep import document_stage, shard_stage, tokenizer_stage
    from data_prep.cluster import Cluster
    from data_prep.config import Prep
    from data_prep.stages import locked
    from mlmdist.errors import ConfigError

    if arguments.config is None:
        raise ConfigError(f"{arguments.command}: --config FILE must be given; see configs/prep/")
    config = load(Prep, arguments.config, arguments.words)
    with locked(config.output), Cluster(config.ray) as cluster:
        document_stage.clean_documents(config, cluster, overwrite=arguments.overwrite)
        if arguments.command in ("tokenizer", "shards"):
            tokenizer_stage.make_tokenizer(config, overwrite=arguments.overwrite)
        if arguments.command == "shards":
            shard_stage.make_shards(config, cluster, overwrite=arguments.overwrite)
    return DONE


def _verify(arguments: argparse.Namespace) -> int:
    from data_prep.config import Ray
    from data_prep.verify import verify
    from mlmdist.errors import ConfigError

    if len(arguments.words) != 1:
        raise ConfigError("verify: must be given one folder, `python -m data_prep verify DIR`")
    broken = verify(Path(arguments.words[0]), Ray())
    for line in broken:
        sys.stdout.write(f"broken: {line}\n")
    return BAD_DATA if broken else DONE


if __name__ == "__main__":
    sys.exit(main())
