"""What the pair labels of a sample are worth: how many there are, and what lengths tell of them.

A model that sees no word but only how long A and B are should not tell the labels: the report
says how well the best such guess does (law P4). Its AUC is the chance that a row of label 1 looks
more like one than a row of label 0 does: 0.5 is a coin.
"""

import logging
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from mlmdist.data.assembly import Assembler
from mlmdist.data.order import CELL_ROWS
from mlmdist.data.pairs import UNLABELLED, Spans
from mlmdist.data.sequence import batch_cells
from mlmdist.errors import ConfigError

log = logging.getLogger(__name__)

MIN_LABELLED_SHARE = 0.2
SAMPLE_ROWS = 4096
NUM_BINS = 8
RIDGE = 10.0  # rows that speak for a coin in each bin


@dataclass(frozen=True)
class PairReport:
    """The pair labels of a sample of rows."""

    labelled: float
    """Share of the rows that have one."""

    negative: float
    """Share of those that are 1; 0 where there is none."""

    length_auc: float
    """AUC of the best guess by lengths; 0.5 where one label is missing."""


def report(assembler: Assembler) -> PairReport:
    """The report of the first rows of the mixture: a fair sample, as windows lie at random."""
    mixture = assembler.mixture
    rows = min(SAMPLE_ROWS, sum(order.num_windows for order in mixture.orders))
    _, spans = assembler.pairs(batch_cells(mixture, 0, rows))
    return report_of(spans)


def report_of(spans: Spans) -> PairReport:
    """The report of these rows, cell after cell."""
    labelled = spans.labels != UNLABELLED
    labels = spans.labels[labelled] == 1
    negative = float(labels.mean()) if labels.size else 0.0
    halves = (np.flatnonzero(labelled) // CELL_ROWS) % 2 == 1  # both rows of a pair in one half
    known = spans.take(np.flatnonzero(labelled))
    return PairReport(float(labelled.mean()), negative, _length_auc(known, labels, halves))


def check_pairs(assembler: Assembler) -> None:
    """Log the report in a line; raises ConfigError if under a fifth of the rows get a label."""
    kind = assembler.data.pair
    if kind == "none":
        return
    found = report(assembler)
    if found.labelled < MIN_LABELLED_SHARE:
        others = "sop | none" if kind == "nsp" else "none"
        raise ConfigError(
            f"data.pair={kind}: only {found.labelled:.0%} of the rows can get a label; at least "
            f"{MIN_LABELLED_SHARE:.0%} must; use data.pair={others}"
        )
    log.info(
        "pairs: %.0f %% of the rows are labelled, %.0f %% of those 1 (%s); guessed by lengths "
        "alone: AUC %.2f (a coin: 0.50)",
        100 * found.labelled,
        100 * found.negative,
        "another's B" if kind == "nsp" else "swapped",
        found.length_auc,
    )


def _length_auc(
    spans: Spans, labels: Bool[np.ndarray, "rows"], halves: Bool[np.ndarray, "rows"]
) -> float:
    """The AUC in each half of a guess fitted on the other, the mean of both."""
    bins = _bins(spans)
    found = [
        _auc(bins[here] @ _fit(bins[~here], labels[~here]), labels[here])
        for here in (halves, ~halves)
    ]
    return float(np.mean(found))


def _bins(spans: Spans) -> Float64[np.ndarray, "rows bins"]:
    """For each row, in which eighth of all rows it is by each of five figures of its lengths."""
    first = (spans.first_stop - spans.first_start).astype(np.float64)
    second = (spans.second_stop - spans.second_start).astype(np.float64)
    share = first / np.maximum(first + second, 1)
    figures = (first, second, first + second, first - second, share)
    return np.concatenate([_one_hot(figure) for figure in figures], axis=1)


def _one_hot(figure: Float64[np.ndarray, "rows"]) -> Float64[np.ndarray, "rows bins"]:
    if not len(figure):
        return np.zeros((0, NUM_BINS))
    edges = np.quantile(figure, np.arange(1, NUM_BINS) / NUM_BINS)
    return np.eye(NUM_BINS)[np.searchsorted(edges, figure, "right")]


def _fit(
    bins: Float64[np.ndarray, "rows bins"], labels: Bool[np.ndarray, "rows"]
) -> Float64[np.ndarray, "bins"]:
    """Weights of the bins: ridge regression of the labels, 1 and -1."""
    matrix = bins.T @ bins + RIDGE * np.eye(bins.shape[1])
    return np.linalg.solve(matrix, bins.T @ np.where(labels, 1.0, -1.0))


def _auc(scores: Float64[np.ndarray, "rows"], labels: Bool[np.ndarray, "rows"]) -> float:
    """The chance that a row of label 1 scores higher than one of label 0; ties count half."""
    ones, zeros = int(labels.sum()), int((~labels).sum())
    if not ones or not zeros:
        return 0.5
    ordered = np.sort(scores)
    below = np.searchsorted(ordered, scores, "left")
    twice_rank = below + np.searchsorted(ordered, scores, "right")  # ties share theirs
    return float((twice_rank[labels].sum() / 2 - ones * ones / 2) / (ones * zeros))
