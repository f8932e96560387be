"""Shapes in signatures are checked while tests run; the parts below are shared by the rooms."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

from jaxtyping import install_import_hook

import tests.typecheck

install_import_hook(["mlmdist", "data_prep"], f"{tests.typecheck.__name__}.check")

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that the processes come to their ends together."""
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: ("test_main_job" not in item.nodeid, item.path not in long))
