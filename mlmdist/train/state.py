"""The counters of a run: where it is, what it has seen, and which batches taught it nothing."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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


@dataclass
class TrainState:
    """`batch` is the number of batches done; it advances also when a step updated nothing."""

    batch: int = 0
    num_tokens: int = 0
    skipped: tuple[int, ...] = ()
    num_left_out: int = 0
    corpus_tokens: tuple[int, ...] = ()
    at_start: Mapping[str, float] = field(default_factory=dict)
    """The held-out figures of the weights that the run began from; none for new weights."""

    def advance(self, counts: Counts, *, skipped: bool) -> int:
        """Count one batch as done and return the number of batches done.

        Raises NoProgress if its step, like those of the batches before, was not finite.
        """
        number, self.batch = self.batch, self.batch + 1
        self.num_tokens += counts.num_tokens
        self.num_left_out += counts.num_left_out
        both = zip_longest(self.corpus_tokens, counts.corpus_tokens, fillvalue=0)
        self.corpus_tokens = tuple(map(sum, both))
        if skipped:
            self.skipped = (*self.skipped, number)
            log.warning("batch %d gave a loss or gradient that is not finite: skipped", number)
            self._refuse_endless_skipping()
        return self.batch

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
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TrainState":
        """The counters that `to_json` gave; an older one left some out."""
        return cls(
            batch=values["batch"],
            num_tokens=values["num_tokens"],
            skipped=tuple(values["skipped"]),
            num_left_out=values.get("num_left_out", 0),
            corpus_tokens=tuple(values.get("corpus_tokens", ())),
            at_start=values.get("at_start", {}),
        )
