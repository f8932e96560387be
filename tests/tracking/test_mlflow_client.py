import subprocess
import sys
from pathlib import Path

import pytest

from mlmdist.tracking.mlflow_client import MlflowRun, Target
from tests.tracking.recorded import MLFLOW_WARNINGS, wait_until

pytestmark = MLFLOW_WARNINGS

OPEN = """
import sys
from mlmdist.tracking.mlflow_client import MlflowRun, Target
MlflowRun.open(Target(sys.argv[1], "mlmdist", "run"), "key", None)
"""


@pytest.mark.slow
def test_a_store_is_there_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "new" / "mlflow.db"
    uri = f"sqlite:///{path}"
    with subprocess.Popen([sys.executable, "-c", OPEN, uri]) as process:
        wait_until(lambda: any(file.stat().st_size for file in path.parent.rglob("mlflow.db")), 60)
        process.kill()
    assert not path.exists()
    made = MlflowRun.open(Target(uri, "mlmdist", "run"), "key", None)
    assert MlflowRun.open(Target(uri, "mlmdist", "run"), "key", None).run_id == made.run_id
    assert path.exists()
