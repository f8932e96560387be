"""A training process without the training: `tests.tracking.training RUN URI LAST SECONDS`.

Logs steps 1 to LAST, prints "logged", and then waits to be killed. SECONDS is the time that MLflow
has at the end.
"""

import sys
import time
from pathlib import Path

from mlmdist import logs
from mlmdist.config.job import Tracking
from mlmdist.tracking.metrics import Sink

if __name__ == "__main__":
    logs.set_up()
    run, uri, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    tracking = Tracking(uri=uri, timeout_seconds=float(sys.argv[4]))
    sink = Sink.open(run, tracking, parameters={}, tags={}, resume_step=0, enabled=True)
    for step in range(1, last + 1):
        sink.log(step, {"train/mlm_loss": 1.0 / step})
    heavy = [name for name in ("mlflow", "matplotlib", "torch", "requests") if name in sys.modules]
    print("logged", *heavy, flush=True)
    time.sleep(60)
