"""The faults of `make mutations` are those of the code as it is; whether they are caught takes half an hour."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults import FAULTS
from tests.mutations import stale

ROOT = Path(__file__).resolve().parents[1]


def test_no_fault_is_stale():
    assert [(fault.file, fault.what) for fault in FAULTS if stale(fault)] == []
    assert [path for fault in FAULTS for path in fault.tests if not (ROOT / path).exists()] == []


def test_the_page_lists_them_and_names_tests_that_are_there():
    page = (ROOT / "docs" / "mutations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| (.*?) \| `([^`]+)` \|$", page, re.MULTILINE)
    assert [row[:2] for row in rows] == [(fault.file, fault.what) for fault in FAULTS]
    for _, what, name in rows:
        path, _, test = name.partition("::")
        assert f"def {test.rpartition('::')[2]}(" in (ROOT / path).read_text(encoding="utf-8"), what
