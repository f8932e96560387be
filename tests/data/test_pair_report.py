"""The report on pair labels says what there is, and hears it if lengths tell the label (P4)."""

import logging
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mlmdist.data.pair_report import report_of
from mlmdist.data.pairs import UNLABELLED, Spans, pair
from tests.data.corpus import CAPACITY, cell_ptr, random_block, windows_of, write_set
from tests.data.test_loader import make


def spans_of(kind: str = "nsp", seed: int = 1) -> Spans:
    windows = windows_of(random_block(4096, seed))
    return pair(kind, windows, cell_ptr(4096), 0, CAPACITY)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", ["nsp", "sop"])
def test_shares_are_counted_and_our_lengths_tell_little(kind: str) -> None:
    spans = spans_of(kind)
    found = report_of(spans)
    labelled = spans.labels[spans.labels != UNLABELLED]
    assert found.labelled == len(labelled) / len(spans.labels)
    assert found.negative == labelled.mean()
    assert 0.4 < found.length_auc < (0.55 if kind == "nsp" else 1.0)


def test_p4_a_label_that_follows_the_lengths_is_heard() -> None:
    """Labels of which two in three say whether B is short: the best guess has AUC 2/3."""
    spans = spans_of()
    known = spans.labels != UNLABELLED
    second = spans.second_stop - spans.second_start
    short = second < np.median(second[known])
    honest = np.random.default_rng(0).random(len(short)) < 2 / 3
    found = report_of(replace(spans, labels=np.where(known, short == honest, UNLABELLED)))
    assert found.length_auc == pytest.approx(2 / 3, abs=0.03)
    whole = report_of(replace(spans, labels=np.where(known, short, UNLABELLED)))
    assert whole.length_auc > 0.97


def test_without_labels_the_guess_is_a_coin() -> None:
    spans = spans_of()
    for label in (UNLABELLED, 0):
        found = report_of(replace(spans, labels=np.full_like(spans.labels, label)))
        assert (found.negative, found.length_auc) == (0.0, 0.5)


def test_a_line_at_the_start_says_it_in_under_a_second(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_set(tmp_path, random_block(5000, windows_per_document=2)).close()
    started = time.process_time()
    with caplog.at_level(logging.INFO):
        make(tmp_path)
    assert time.process_time() - started < 1.5  # with the checks of every shape, in tests
    (line,) = [r.getMessage() for r in caplog.records if r.getMessage().startswith("pairs:")]
    assert "% of the rows are labelled" in line
    assert "guessed by lengths alone: AUC 0.5" in line or "AUC 0.4" in line
