"""The import report: JSON and the text on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

from partlabel import formats
from tests.formats.cases import CASES


def test_text_and_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("labels.csv")
    path.write_text(
        "image,cat,dog,Dog,car\n a.png,1,-1,,\nb.png,1,,-1,\na.png,-1,,1,\nc.png,,,,\nd.png,-1,-1,,\n", encoding="utf-8"
    )
    _, report = formats.read("csv", path, conflicts="unknown")
    assert report.text().splitlines() == [
        "labels.csv (csv: wide table, separated by comma, UTF-8, 5 rows)",
        "  images         4  1 without a known label (c.png); 1 with known labels but none present",
        "  classes        4  cat, dog, Dog, car",
        "  labels         6 of 16 pairs known (37.5%): 2 present, 4 absent",
        "  coding         1 = present; -1 = absent; 0, blank = unknown (implied by the values)",
        "  cells          1: 3   -1: 5   blank: 12",
        "  not listed     unknown (pairs about which the source says nothing)",
        "  contradicting  1 label, settled as asked",
        "                 a.png, cat: labels.csv:2 present / labels.csv:4 absent -> unknown",
        "  note           image names with outer blanks were trimmed",
        "  warning        no known present label for dog",
        "  warning        no known label at all for car",
        "  warning        look alike: dog / Dog; a rename table merges them",
    ]
    read = json.loads(json.dumps(report.to_dict()))
    assert (read["images"], read["known"], read["known_proportion"]) == (4, 6, 0.375)
    assert read["without_known"] == {"count": 1, "examples": ["c.png"]}
    assert read["conflicts"][0]["class_name"] == "cat"
    assert read["values"]["blank"] == {"meaning": "unknown", "cells": 12}


def test_long_lists_are_cut(tmp_path):
    path = tmp_path / "labels.csv"
    names = [f"class {n}" for n in range(30)]
    path.write_text("image," + ",".join(names) + "\na.png" + ",1" * 30 + "\n")
    _, report = formats.read("csv", path)
    assert "class 9, ... 20 more" in " ".join(report.text().split())
    assert len(report.to_dict()["classes"]) == 30


def test_names_with_a_comma_are_quoted():
    _, report = formats.read("csv", CASES / "CSV-04" / "wide.csv")
    assert 'classes        6  "Sauce, hot", 5" pipe, café' in report.text()
