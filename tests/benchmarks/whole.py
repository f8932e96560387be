"""Whole training runs against transformers' Trainer: same rows, shape, batch, rate and steps.

    python -m tests.benchmarks.whole [--quick] [--corpus PATH] [--only CASE ...]

PATH is a folder or glob of JSON Lines; default: the sample that gensim ships. Cases: `tiny` (2
layers, 128 wide: tokens a second of the whole loop), `goal` (small: time to the held-out loss that
both reach), `beside` (base: share of our loop outside forward, backward and optimizer). Both sides
run as programs of their own, in turn, on one process with two threads; the Trainer in the faster of
fp32 and bf16. Evaluations do not count. The last line is one JSON object.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from mlmdist import dist
from mlmdist.config.loading import build, dump
from mlmdist.config.pretrain import Pretrain
from mlmdist.data.batch import StepBatch, pad
from mlmdist.data.sequence import Position
from mlmdist.train.phase_data import held_out_of, loader_of
from mlmdist.train.phases import open_phases
from tests.benchmarks.duel import Board

PREP = "configs/prep/quickstart.yaml"
SHAPES = {
    "tiny": {"num_layers": 2, "width": 128, "num_heads": 2},
    "small": {"num_layers": 4, "width": 512, "num_heads": 8},
    "base": {"num_layers": 12, "width": 768, "num_heads": 12},
}
THREADS = 2
FIRST_COUNTED = 10  # steps before are warm-up
CASES = ("tiny", "goal", "beside")


@dataclass(frozen=True)
class Curve:
    """What a run came to: seconds of training when each step was done, held-out losses by step."""

    seconds: list[float]
    losses: dict[int, float]
    tokens_per_step: float

    @property
    def speed(self) -> float:
        """Tokens a second behind the first steps."""
        counted = self.seconds[-1] - self.seconds[FIRST_COUNTED - 1]
        return (len(self.seconds) - FIRST_COUNTED) * self.tokens_per_step / counted

    def time_to(self, loss: float) -> float:
        """Seconds of training until the held-out loss is at most `loss`, between looks linear."""
        steps = sorted(self.losses)
        for before, after in zip([None, *steps], steps, strict=False):
            if self.losses[after] <= loss:
                end = self.seconds[after - 1]
                if before is None:
                    return end
                begin, high, low = self.seconds[before - 1], self.losses[before], self.losses[after]
                return begin + (end - begin) * (high - loss) / (high - low)
        raise ValueError(f"loss {loss:.3f} was not reached; the last was {self.losses[steps[-1]]}")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.whole", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, one round")
    parser.add_argument("--corpus", help="folder or glob of JSON Lines; default: gensim's sample")
    parser.add_argument("--only", nargs="*", choices=CASES, default=CASES)
    parser.add_argument("--theirs", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--precision", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.theirs:
        from tests.benchmarks.trainer import train

        sys.stdout.write(json.dumps(asdict(train(options.theirs, options.precision))) + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.corpus, quick=options.quick)
        for case in options.only:
            getattr(bench, case)()
        bench.board.end()


class Bench:
    """Shards of the corpus, and the board of results."""

    def __init__(self, folder: Path, corpus: str | None, *, quick: bool) -> None:
        self.folder, self.quick, self.board = folder, quick, Board()
        words = [f"output={folder}", "tokenizer.sample_chars=20000000"]
        if corpus is not None:
            path = f"{corpus}/*.jsonl*" if Path(corpus).is_dir() else corpus
            words += ["sources.0.format=jsonl", f"sources.0.path={path}", "held_out.share=0.01"]
        for stage in ("clean", "tokenizer", "shards"):
            run([sys.executable, "-m", "data_prep", stage, "--config", PREP, *words])
        self.runs = 0

    def tiny(self) -> None:
        """Tokens a second of the whole loop of a model whose time goes where arithmetic is not."""
        steps, rounds = (60, 1) if self.quick else (200, 2)
        config = self._config("tiny", steps, batch=32, rate=1e-3, evaluate=10 * steps)
        theirs, precision = self._fastest(config)
        ours: list[Curve] = []
        for _ in range(rounds):
            ours += [self._ours(config), self._ours(config)]
            theirs.append(self._theirs(config, precision))
        fast, slow = (median(one.speed for one in side) for side in (ours, theirs))
        remark = f"{fast:,.0f} against {slow:,.0f} tokens/s; theirs: {precision}"
        self.board.note("tiny_loop_vs_trainer", fast / slow, remark)

    def goal(self) -> None:
        """Seconds of training to the held-out loss that both sides reach, ours / theirs."""
        steps = 30 if self.quick else 300
        config = self._config("small", steps, batch=32, rate=5e-4, evaluate=max(5, steps // 12))
        ours = self._ours(config)
        _, precision = self._fastest(config.model_copy(update={"train": _short(config)}))
        theirs = self._theirs(config, precision)
        loss = max(min(one.losses.values()) for one in (ours, theirs))
        fast, slow = ours.time_to(loss), theirs.time_to(loss)
        remark = f"{fast:.0f} s against {slow:.0f} s to {loss:.3f} nats; theirs: {precision}"
        self.board.note("time_to_loss_of_trainer", fast / slow, remark)

    def beside(self) -> None:
        """The share of our loop that is neither forward, backward, communication nor optimizer."""
        steps = FIRST_COUNTED + (4 if self.quick else 20)
        config = self._config("base", steps, batch=16, rate=1e-4, evaluate=10 * steps)
        lines = [line for line in self._run_ours(config) if "speed/share/data" in line]
        shares = [line["speed/share/data"] + line["speed/share/other"] for line in lines[1:]]
        self.board.note("beside_the_model", median(shares), "of the time of a step of BERT-base")

    def _config(
        self, shape: str, steps: int, *, batch: int, rate: float, evaluate: int
    ) -> Pretrain:
        shards = self.folder / "shards"
        values = {
            "run": str(self.folder / "nowhere"),
            "data": {
                "train": str(shards / "train"),
                "held_out": str(shards / "held_out"),
                "tokenizer": str(self.folder / "tokenizer"),
            },
            "model": SHAPES[shape] | {"max_positions": 128},
            "train": {
                "steps": steps, "global_batch": batch, "micro_batch": batch, "threads": THREADS,
            },
            "optimizer": {"learning_rate": rate},
            "every": {"log": 1, "evaluate": evaluate, "save": 10 * steps},
            "tracking": {"enabled": False},
        }  # fmt: skip
        return build(Pretrain, values, "benchmark")

    def _ours(self, config: Pretrain) -> Curve:
        lines = self._run_ours(config)
        train = [line for line in lines if "train/tokens" in line]
        tokens = np.diff([0.0, *(line["train/tokens"] for line in train)])
        speeds = [line["train/tokens_per_second"] for line in train]
        key = "held_out/mlm_loss"
        return Curve(
            np.cumsum(tokens / speeds).tolist(),
            {round(line["step"]): line[key] for line in lines if key in line},
            float(np.mean(tokens)),
        )

    def _run_ours(self, config: Pretrain) -> list[dict[str, float]]:
        """The metrics of a run of ours."""
        self.runs += 1
        own = config.model_copy(update={"run": self.folder / f"ours{self.runs}"})
        path = self.folder / "ours.yaml"
        path.write_text(dump(own))
        run([sys.executable, "launch/pretrain.py", "--config", str(path)])
        return [json.loads(line) for line in (own.run / "metrics.jsonl").read_text().splitlines()]

    def _theirs(self, config: Pretrain, precision: str) -> Curve:
        path = self.folder / "theirs.yaml"
        path.write_text(dump(config))
        words = ["--theirs", str(path), "--precision", precision]
        output = run([sys.executable, "-m", "tests.benchmarks.whole", *words])
        curve = json.loads(output.splitlines()[-1])
        losses = {int(step): loss for step, loss in curve.pop("losses").items()}
        return Curve(**curve, losses=losses)

    def _fastest(self, config: Pretrain) -> tuple[list[Curve], str]:
        """Curves of the Trainer in the faster of its precisions, and which that is."""
        curves = {precision: self._theirs(config, precision) for precision in ("fp32", "bf16")}
        best = max(curves, key=lambda precision: curves[precision].speed)
        return [curves[best]], best


def _short(config: Pretrain) -> Any:
    return config.train.model_copy(update={"steps": FIRST_COUNTED + 5})


def rows_of(config: Pretrain) -> tuple[list[dict[str, Any]], list[StepBatch]]:
    """The rows of a run, unmasked, as their dataset takes them, and the held-out batches."""
    (phase,) = open_phases(config)
    here = dist.Place()
    loader = loader_of(phase, here, Position(), phase.num_batches or 0, lambda: None)
    rows = [row for batch in loader for row in _unmasked(batch)]
    (held_out,) = held_out_of(phase, here).values()
    return rows, list(held_out)


def _unmasked(batch: StepBatch) -> Iterator[dict[str, Any]]:
    for micro in batch.micro_batches:
        tokens = micro.tokens.copy()
        tokens[micro.masked_index] = micro.labels
        for row, (first, stop) in enumerate(
            zip(micro.cu_lengths[:-1], micro.cu_lengths[1:], strict=True)
        ):
            yield {
                "input_ids": tokens[first:stop].tolist(),
                "token_type_ids": micro.segments[first:stop].tolist(),
                "next_sentence_label": int(micro.pair_labels[row]),
            }


def padded(batch: StepBatch) -> Iterator[dict[str, np.ndarray]]:
    """The micro-batches of held-out rows as their model's arguments."""
    for micro in batch.micro_batches:
        table = pad(micro, 0)
        yield {name: getattr(table, name) for name in table.__dataclass_fields__}


def run(command: list[str]) -> str:
    """The output of a program; raises AssertionError with what it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


if __name__ == "__main__":
    main()
