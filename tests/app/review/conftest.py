from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from partlabel.app.review.app import REVIEW, make_app
from partlabel.app.review.desk import Desk
from tests.app.review.made import Made, drawn_table, make_run


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A run with 40 images, and classes of which one is named like a tag."""
    return make_run(tmp_path, *drawn_table(40))


@pytest.fixture
def desk(made: Made) -> Iterator[Desk]:
    opened = made.open()
    yield opened
    opened.close()


@pytest.fixture
def client(desk: Desk) -> TestClient:
    """A browser at the page."""
    return TestClient(
        make_app(desk),
        base_url="http://127.0.0.1:8000",
        headers={"Origin": "http://127.0.0.1:8000", REVIEW: desk.identity},
        follow_redirects=False,
    )
