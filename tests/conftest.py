"""What every test may use: the shared photographs and cases, skipped or demanded, and settings of hypothesis."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The tensors of the tests are tiny: threads bring nothing, and on a busy machine they wait for each other for minutes.
# Set before anything imports torch, and inherited by the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

#: Photographs, labels and cases that are not in the repository lie beside it.
SHARED = Path(__file__).resolve().parents[2] / "shared"
#: Set by CI: a missing shared folder is then a failure, so that no test is skipped there unnoticed.
DEMANDED = "PARTLABEL_DEMAND_SHARED"

# Examples are drawn anew on each local run; CI draws the same ones every time. A slow machine fails no example.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def _missing() -> str:
    absent = [str(folder) for folder in (SHARED / "data", SHARED / "cases") if not folder.is_dir()]
    return f"needs {' and '.join(absent)}" if absent else ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked ``shared_data`` where the shared folders are missing, or fail it where they are demanded."""
    if item.get_closest_marker("shared_data") is None or not (reason := _missing()):
        return
    if os.environ.get(DEMANDED):
        pytest.fail(f"{reason}, and {DEMANDED} is set", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with ``data`` and ``cases``; a test that asks for it is marked ``shared_data``."""
    return SHARED
