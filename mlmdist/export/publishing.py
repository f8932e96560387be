"""An exported model as an artifact of its run in MLflow."""

import logging
from pathlib import Path

from mlmdist.config.loading import load
from mlmdist.config.pretrain import Pretrain
from mlmdist.errors import ConfigError
from mlmdist.scoring.run import find_checkpoint
from mlmdist.tracking.metrics import add_artifact
from mlmdist.tracking.opening import last_opening
from mlmdist.tracking.shipper import ship
from mlmdist.train.folder import CONFIG

log = logging.getLogger(__name__)

FOLDER = "model"


def publish(source: Path, out: Path) -> None:
    """Store the exported directory `out` beside its run in MLflow, if the run is tracked.

    A server that is away costs a warning: `mlmdist track RUN` sends it later.
    """
    run, _ = find_checkpoint(source)
    is_tracked = load(Pretrain, run / CONFIG, []).tracking.enabled
    if not is_tracked or last_opening(run) is None:
        return
    add_artifact(run, out, FOLDER)
    try:
        ship(run)
    except ConfigError as error:
        log.warning("the model is not in MLflow yet: %s", error)
