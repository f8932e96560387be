"""An MLflow store, made once: its tables take longer than all that a test does in it."""

import shutil
from pathlib import Path

import pytest

from mlmdist.tracking.mlflow_client import MlflowRun, Target


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow store on SQLite in which no run of the tests stands."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowRun.open(Target(f"sqlite:///{path}", "other", "other"), "key", None)
    return path


@pytest.fixture
def uri(empty_store: Path, tmp_path: Path) -> str:
    """A store of the test's own."""
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"
