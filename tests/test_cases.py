"""Every real-world case has a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
#: areas of the catalogue whose cases all have to be tested here
AREAS = "ABCDEFGHIJKL"


def catalogue(text: str) -> dict[str, list[str]]:
    """Return area -> ids of its cases, in the order of the headings."""
    cases: dict[str, list[str]] = {}
    area = ""
    for line in text.splitlines():
        if found := re.match(r"## ([A-Z]) ", line):
            area = found[1]
        elif found := re.match(r"### ([A-Z]+-\d+) ", line):
            cases.setdefault(area, []).append(found[1])
    return cases


def untested(cases: list[str], code: str) -> list[str]:
    """Return the cases that no test names, as ``case("CSV-01")`` or in its own name as ``test_csv_01``."""
    return [name for name in cases if name not in code and f"test_{name.lower().replace('-', '_')}" not in code]


def test_a_case_without_a_test_is_found():
    text = "## A labels\n### LBL-01 one\n### LBL-02 two\n## B boxes\n### BOX-03 three\n"
    assert catalogue(text) == {"A": ["LBL-01", "LBL-02"], "B": ["BOX-03"]}
    assert untested(["LBL-01", "LBL-02", "BOX-03"], 'case("LBL-02")\ndef test_box_03_small():') == ["LBL-01"]


@pytest.mark.shared_data
def test_every_case_has_a_test(shared):
    cases = catalogue((shared / "cases" / "README.md").read_text(encoding="utf-8"))
    assert set(AREAS) <= set(cases)
    # this file and the fuzz test only borrow the files of cases, so naming one there is no test of it
    files = [path for path in TESTS.rglob("test_*.py") if path.name not in (Path(__file__).name, "test_fuzz.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert untested([name for area in AREAS for name in cases[area]], code) == []


@pytest.mark.shared_data
def test_the_files_of_the_cases_are_those_of_the_catalogue(shared):
    """The copies in the repository are what was catalogued, so a test cannot pass on changed files."""
    for copy in sorted(path for path in (TESTS / "cases").rglob("*") if path.is_file()):
        original = shared / "cases" / copy.relative_to(TESTS / "cases")
        assert original.is_file(), f"{copy} is not in the catalogue"
        assert copy.read_bytes() == original.read_bytes(), f"{copy} was changed"
