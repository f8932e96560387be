"""What of a run has reached MLflow: `tracking.json` in the run folder, written by the shipper."""

import json
import logging
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from mlmdist import files
from mlmdist.tracking.journal import OUTBOX, to_json

log = logging.getLogger(__name__)

STATE = "tracking.json"


class Point(NamedTuple):
    """One value of one metric; `time_ms` is Unix time in milliseconds."""

    name: str
    value: float
    time_ms: int
    step: int


@dataclass(frozen=True)
class State:
    """How far a run folder and its MLflow run agree."""

    key: str
    """A name of our own that the MLflow run carries as a tag: a run that was created without our
    hearing of it is found by it."""

    folder: str
    outbox_inode: int
    """Where the run folder was; a copy of it has neither the place nor the file of the original."""

    run_id: str | None = None
    """The MLflow run; None until there is one."""

    sent: dict[str, int] = field(default_factory=dict)
    """The last step of each metric that was handed to MLflow, `pending` included."""

    pending: tuple[Point, ...] = ()
    """Points that may or may not have arrived. They are sent again just as they are: MLflow's
    primary key (run, metric, time, step, value) takes an equal point once."""

    num_events: int = 0
    """Lines of the outbox that MLflow knows."""

    artifacts: dict[str, str] = field(default_factory=dict)
    """Fingerprint of what was uploaded, by its place in the MLflow run."""


def fresh(run: Path) -> State:
    """The state of a run folder of which MLflow knows nothing."""
    return State(uuid.uuid4().hex, str(run.resolve()), (run / OUTBOX).stat().st_ino)


def load(run: Path) -> State:
    """The saved state, or a fresh one, with a warning where that means a new MLflow run."""
    try:
        state = _from_json(json.loads((run / STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return fresh(run)
    except (ValueError, KeyError, TypeError):
        log.warning("%s is not readable; a new MLflow run begins with all points", run / STATE)
        return fresh(run)
    return _if_at_home(state, fresh(run))


def save(run: Path, state: State) -> None:
    """Write the state, atomically."""
    pending = [point._replace(value=to_json(point.value)) for point in state.pending]
    files.write_json(run / STATE, {**asdict(state), "pending": pending})


def remove_temporaries(run: Path) -> None:
    """Remove what a shipper left that was killed while it wrote the state."""
    for path in run.glob(f"{STATE}{files.TEMPORARY_MARK}*"):
        path.unlink(missing_ok=True)


def _if_at_home(state: State, here: State) -> State:
    """`state`, moved with its folder; that of a copied folder belongs to the original."""
    if state.folder != here.folder and state.outbox_inode != here.outbox_inode:
        log.warning(
            "%s is a copy of %s, whose MLflow run is %s; a new MLflow run begins with all points",
            here.folder,
            state.folder,
            state.run_id,
        )
        return here
    return replace(state, folder=here.folder, outbox_inode=here.outbox_inode)


def _from_json(values: dict[str, Any]) -> State:
    points = (
        Point(name, float(value), time_ms, step) for name, value, time_ms, step in values["pending"]
    )
    return State(**{**values, "pending": tuple(points)})
