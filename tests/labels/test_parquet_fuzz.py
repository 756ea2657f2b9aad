"""A few of the damaged Parquet files of fuzz_parquet.py, in each kind."""

from __future__ import annotations

import pytest

from tests.labels.fuzz_parquet import KINDS, fuzz

pytestmark = [pytest.mark.slow, pytest.mark.linux]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_refused_or_read_as_they_were(kind):
    found = fuzz(kind, 400, seed=1)
    assert found.wrong == []
    assert found.ends["refused"] > 100
