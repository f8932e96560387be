"""A run's openings: the lines of its outbox, one a start, that say where the run is tracked."""

import os
from pathlib import Path

from mlmdist.tracking.journal import OUTBOX, Record, read_all


def last_opening(run: Path) -> Record | None:
    """What the run's last start said of its tracking; None if it was never tracked."""
    openings = [event for event in read_all(run / OUTBOX) if event["event"] == "open"]
    return openings[-1] if openings else None


def tracking_uri(opening: Record) -> str:
    """The MLflow server or store of a run: the config's, the environment's, or the default."""
    return opening["uri"] or os.environ.get("MLFLOW_TRACKING_URI") or opening["default_uri"]
