"""The counters of a run: where it is, what it has seen, and which batches taught it nothing."""

import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import zip_longest
from typing import Any

from mlmdist.errors import NoProgress

log = logging.getLogger(__name__)

MAX_SKIPPED_IN_A_ROW = 20


@dataclass(frozen=True)
class Counts:
    """A batch counted over all ranks: what losses are divided by, and who asks to stop."""

    num_labels: int
    num_pairs: int
    num_tokens: int
    num_stops: int = 0
    num_left_out: int = 0
    """Rows of bad blocks, which the other counts leave out."""

    corpus_tokens: tuple[int, ...] = ()
    """`num_tokens` by corpus."""

    clock_ms: int = 0
    """Rank 0's clock when the batch was counted: time the run has taken so far."""

    num_rows: int = 0
    """Rows that count."""

    sum_squares: int = 0
    """Of the rows' lengths in tokens: what attention costs."""


@dataclass
class TrainState:
    """`batch` is the number of batches done; it advances also when a step updated nothing."""

    batch: int = 0
    num_tokens: int = 0
    skipped: tuple[int, ...] = ()
    num_rows: int = 0
    num_left_out: int = 0
    corpus_tokens: tuple[int, ...] = ()
    """Tokens of each corpus in this phase."""

    at_start: Mapping[str, float] = field(default_factory=dict)
    """The held-out figures of the weights that the run began from; none for new weights."""

    phase: int = 0
    begins: tuple[int, ...] = (0,)
    """Number of the first batch of each phase begun so far."""

    rows_read: Mapping[str, int] = field(default_factory=dict)
    """Rows of each shard set that the phases before this one have read."""

    clock_ms: int = 0
    """Time the run has taken, over all its parts; what was lost with a killed one left out."""

    look_ms: float = 0.0
    save_ms: float = 0.0
    """The longest evaluation and the longest checkpoint so far."""

    best_loss: float = math.inf
    best_step: int = 0
    worse_looks: int = 0
    hopeless_readings: int = 0
    """The lowest held-out loss of this phase, its step, and evaluations since then."""

    def advance(self, counts: Counts, *, skipped: bool) -> int:
        """Count one batch as done and return the number of batches done.

        Raises NoProgress if its step, like those of the batches before, was not finite.
        """
        number, self.batch = self.batch, self.batch + 1
        self.num_tokens += counts.num_tokens
        self.num_rows += counts.num_rows
        self.num_left_out += counts.num_left_out
        both = zip_longest(self.corpus_tokens, counts.corpus_tokens, fillvalue=0)
        self.corpus_tokens = tuple(map(sum, both))
        if skipped:
            self.skipped = (*self.skipped, number)
            log.warning("batch %d gave a loss or gradient that is not finite: skipped", number)
            self._refuse_endless_skipping()
        return self.batch

    def next_phase(self, rows_read: Mapping[str, int]) -> None:
        """Begin the phase behind this one, in front of the batch that comes next."""
        self.phase, self.rows_read = self.phase + 1, rows_read
        self.begins = (*self.begins, self.batch)
        self.best_loss, self.best_step, self.worse_looks = math.inf, self.batch, 0
        self.corpus_tokens = ()

    def judge(self, loss: float, improvement: float) -> None:
        """Take a held-out loss in: better than all before by `improvement`, or one more worse."""
        if loss < self.best_loss - improvement:
            self.best_loss, self.best_step, self.worse_looks = loss, self.batch, 0
        else:
            self.worse_looks += 1

    def _refuse_endless_skipping(self) -> None:
        last = self.skipped[-MAX_SKIPPED_IN_A_ROW:]
        if len(last) == MAX_SKIPPED_IN_A_ROW and self.batch - last[0] == MAX_SKIPPED_IN_A_ROW:
            raise NoProgress(
                f"the last {MAX_SKIPPED_IN_A_ROW} steps gave no finite gradient (batches {last[0]} "
                f"to {last[-1]}); lower optimizer.learning_rate or use train.precision=fp32, in a "
                "new run folder"
            )

    def to_json(self) -> dict[str, Any]:
        """The counters as JSON values."""
        values = asdict(self)
        return values | {"best_loss": None if math.isinf(self.best_loss) else self.best_loss}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TrainState":
        """The counters that `to_json` gave; an older one left some out."""
        known = {one.name for one in fields(cls)}
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
            if name in known and value is not None
        }
        return cls(**given)
