"""Training steps against transformers, with the same weights, rows, dropout and optimizer.

    python -m tests.benchmarks.train [--quick] [--precision bf16 | fp32 | both] [--only CASE ...]

Cases: `base` (128 full tokens; against transformers' best mode and its default), `ragged` (lengths
spread to 512, real tokens a second), `tiny` (2 layers, 128 wide), `zero` (ZeRO-1 on two ranks
against DistributedDataParallel). Losses are compared before anything is timed. bf16 is left out
where the processor does not multiply it. The last line is one JSON object.
"""

import argparse
import itertools
import os
import sys
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import nn

from mlmdist import dist
from mlmdist.data.batch import StepBatch
from mlmdist.model.bert import Bert
from mlmdist.model.huggingface import from_huggingface
from mlmdist.model.loss import loss_sums
from mlmdist.train.micro_batch import to_stream
from mlmdist.train.precision import fastest as fastest_precision
from tests.benchmarks.duel import Board, seconds
from tests.benchmarks.steps import (
    Ours,
    Theirs,
    Work,
    check_equal,
    fastest,
    here_alone,
    peak_flops,
    published_weights,
    rows,
)

ATTENTIONS = ("eager", "sdpa")
THREADS = 2
CASES = ("base", "ragged", "tiny", "zero")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.train", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rows, one round")
    parser.add_argument("--precision", choices=["bf16", "fp32", "both"], default=None)
    parser.add_argument("--only", nargs="*", choices=CASES, default=CASES)
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    wanted = options.precision or ("both" if fastest_precision() == "bf16" else "fp32")
    precisions = ["bf16", "fp32"] if wanted == "both" else [wanted]
    board = Board()
    if "zero" in options.only:  # before this process becomes a rank itself: its ranks are forked
        for precision in precisions:
            zero(board, precision, 3 if options.quick else 10)
    here = here_alone()
    for precision in precisions:
        bench = Bench(board, here, precision, rounds=1 if options.quick else 3)
        if "base" in options.only:
            bench.base(4 if options.quick else 16)
        if "ragged" in options.only:
            bench.ragged(4 if options.quick else 8)
        if "tiny" in options.only:
            bench.tiny(32)
    board.end()
    sys.stdout.flush()
    os._exit(0)  # DeepSpeed may abort at the interpreter's end


class Bench:
    """The duels of one precision."""

    def __init__(self, board: Board, here: dist.Place, precision: str, rounds: int) -> None:
        self.board, self.here, self.precision, self.rounds = board, here, precision, rounds
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self.peak = peak_flops(dtype)
        board.say(f"{precision}: matrix products at {self.peak / 1e9:.0f} GFLOP/s at best")

    def base(self, num_rows: int) -> None:
        """BERT-base on full rows of 128."""
        work = Work("base", (128,) * num_rows, self.precision)
        self._against_best(f"base_s128_{self.precision}", work)
        if self.precision == "bf16":
            default = partial(self._theirs, work=work, attention="sdpa", mode="fp32")
            self._against("base_s128_bf16_vs_hf_default", work, default)

    def ragged(self, num_rows: int) -> None:
        """BERT-base on lengths spread evenly up to 512."""
        lengths = tuple(max(8, round(508 * (row + 0.5) / num_rows)) for row in range(num_rows))
        self._against_best(f"ragged_s512_{self.precision}", Work("base", lengths, self.precision))

    def tiny(self, num_rows: int) -> None:
        """A model whose time goes where its arithmetic is not."""
        self._against_best(
            f"tiny_s128_{self.precision}", Work("tiny", (128,) * num_rows, self.precision)
        )

    def _theirs(
        self, weights: dict[str, torch.Tensor], work: Work, attention: str, mode: str
    ) -> Theirs:
        return Theirs(work, weights, attention=attention, mode=mode)

    def _against_best(self, case: str, work: Work) -> None:
        modes = ["autocast", "bf16"] if self.precision == "bf16" else ["fp32"]
        batch = rows(work, 1)

        def best(weights: dict[str, torch.Tensor]) -> Theirs:
            ways = itertools.product(ATTENTIONS, modes)
            every = [partial(self._theirs, weights, work, *way) for way in ways]
            return fastest(every, batch)

        self._against(f"{case}_vs_hf_best", work, best)

    def _against(
        self, case: str, work: Work, make: Callable[[dict[str, torch.Tensor]], Theirs]
    ) -> None:
        weights = published_weights(work)
        check_equal(work, weights, self.here)
        batch = rows(work, 1)
        theirs, ours = make(weights), Ours(work, weights, self.here)
        for _ in range(2):
            ours.step(batch)
            theirs.step(batch)
        self.board.duel(
            case,
            lambda: ours.step(batch),
            lambda: theirs.step(batch),
            rounds=self.rounds,
            work=work.tokens,
            unit="tokens",
        )
        speed = work.flops(batch) / median(seconds(lambda: ours.step(batch)) for _ in range(3))
        share = speed / self.peak
        self.board.say(f"{'':8}theirs: {theirs.name}; ours at {share:.0%} of the peak")
        self.board.ratios[f"{case.partition('_vs_')[0]}_mfu"] = round(share, 4)


def zero(board: Board, precision: str, steps: int) -> None:
    """ZeRO-1 on two ranks of a thread each against plain DDP of the same model and precision."""
    from tests.train.ranks import on_ranks

    work = Work("base", (128,) * 4, precision)
    times = on_ranks(2, _both_ways, work, steps, seconds=1800)
    ours, theirs = (median(times[0][side]) for side in (0, 1))
    board.note(
        f"zero1_{precision}_two_ranks_vs_ddp", theirs / ours, f"{ours:.2f} s against {theirs:.2f} s"
    )


def _both_ways(here: dist.Place, work: Work, steps: int) -> tuple[list[float], list[float]]:
    """Seconds a step of our engine, and of our model in DDP under torch's AdamW, in turn."""
    weights = published_weights(work)
    ours = Ours(work, weights, here)
    theirs = Ddp(work, weights, here)
    batch = rows(work, 1 + here.rank)
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(steps + 1):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            dist.barrier()
            taken = seconds(lambda side=side: (ours, theirs)[side].step(batch))
            if turn:
                times[side].append(taken)
    return times


class Ddp:
    """Our model under torch's DistributedDataParallel and fused AdamW."""

    def __init__(self, work: Work, weights: dict[str, torch.Tensor], here: dist.Place) -> None:
        model = Bert(work.shape, work.vocab_size)
        model.load_state_dict(from_huggingface(weights, list(model.state_dict())))
        dtype = torch.bfloat16 if work.precision == "bf16" else torch.float32
        self.world_size = here.world_size
        self.model = nn.parallel.DistributedDataParallel(model.to(dtype))
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(self, batch: StepBatch) -> float:
        """One update; the loss of this rank."""
        (micro,) = batch.micro_batches
        stream = to_stream(micro)
        sums = loss_sums(self.model(stream), stream.labels, stream.pair_labels)
        loss = sums.mlm_sum / batch.num_labels + sums.pair_sum / batch.num_pairs
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())


if __name__ == "__main__":
    main()
