"""What every test may use: the shared photographs and cases, skipped or demanded, and settings of hypothesis."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

# The tensors of the tests are tiny: threads bring nothing, and on a busy machine they wait for each other for minutes.
# Set before anything imports torch, and inherited by the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

#: Photographs, labels and cases that are not in the repository lie beside it.
SHARED = Path(__file__).resolve().parents[2] / "shared"
#: Set by CI: a missing shared folder is then a failure, so that no test is skipped there unnoticed.
DEMANDED = "PARTLABEL_DEMAND_SHARED"
#: The same for the browser of the tests marked ``browser``.
BROWSER_DEMANDED = "PARTLABEL_DEMAND_BROWSER"
#: Milliseconds that a browser, or a page in it, may take on a busy machine.
PATIENCE = 300_000
#: No sandbox, as root runs the tests in containers; no traffic of the browser's own.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Examples are drawn anew on each local run; CI draws the same ones every time. A slow machine fails no example.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _lacks(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """What the marks of a test ask for and this machine lacks, and the variable by which CI demands it."""
    if item.get_closest_marker("shared_data"):
        absent = [str(folder) for folder in (SHARED / "data", SHARED / "cases") if not folder.is_dir()]
        if absent:
            yield f"needs {' and '.join(absent)}", DEMANDED
    if item.get_closest_marker("browser") and _chromium() is None:
        yield "needs Chromium", BROWSER_DEMANDED


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose system, photographs or browser are missing, or fail it where the last two are demanded."""
    if item.get_closest_marker("linux") and sys.platform != "linux":
        pytest.skip("needs Linux")
    for reason, demanded in _lacks(item):
        if os.environ.get(demanded):
            pytest.fail(f"{reason}, and {demanded} is set", pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests and the processes that they start neither read nor fill the cache of the person who runs them."""
    os.environ["PARTLABEL_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with ``data`` and ``cases``; a test that asks for it is marked ``shared_data``."""
    return SHARED


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless Chromium; a test that asks for it is marked ``browser`` and opens a context of its own."""
    from playwright.sync_api import sync_playwright

    options: dict[str, Any] = {"executable_path": _chromium(), "args": CHROMIUM_FLAGS, "timeout": PATIENCE}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**options)
        impatient = browser.new_context

        def patient(**given: Any) -> BrowserContext:
            context = impatient(**given)
            context.set_default_timeout(PATIENCE)
            return context

        browser.new_context = patient  # type: ignore[method-assign]
        yield browser
        browser.close()
