"""Predictions as a wide table, in CSV and in a workbook: by hand, with names that a spreadsheet takes for formulas."""

from __future__ import annotations

import csv
import zipfile

import numpy as np
import pytest
from python_calamine import CalamineWorkbook

from partlabel.core.errors import UserError
from partlabel.tasks.predict import Predictions
from partlabel.tasks.sheets import write_workbook

CLASSES = ("cat", "=HYPERLINK(1)", "dog")
NAMES = ("a.jpg", "@SUM(A1).jpg", "https://b.jpg")
FOUND = Predictions(
    NAMES,
    CLASSES,
    np.zeros((3, 3), np.float32),
    np.array([[0.9, 0.25, 0.5], [0.1, 0.2, 0.3], [0, 1, 0.123456789]]),
    np.array([[True, False, True], [False, False, False], [False, True, False]]),
)


def test_wide_csv_by_hand(tmp_path):
    FOUND.write(tmp_path / "p.csv", wide=True)
    with open(tmp_path / "p.csv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["image", "present", "cat", "'=HYPERLINK(1)", "dog"],
            ["a.jpg", "cat; dog", "0.9", "0.25", "0.5"],
            ["'@SUM(A1).jpg", "", "0.1", "0.2", "0.3"],
            ["https://b.jpg", "'=HYPERLINK(1)", "0", "1", "0.123457"],
        ]


def test_workbook_by_hand(tmp_path):
    FOUND.write(tmp_path / "p.xlsx")
    rows = CalamineWorkbook.from_path(tmp_path / "p.xlsx").get_sheet_by_index(0).to_python()
    assert rows == [
        ["image", "present", *CLASSES],
        ["a.jpg", "cat; dog", 0.9, 0.25, 0.5],
        ["@SUM(A1).jpg", "", 0.1, 0.2, 0.3],
        ["https://b.jpg", "=HYPERLINK(1)", 0, 1, 0.123456789],
    ]
    with zipfile.ZipFile(tmp_path / "p.xlsx") as file:
        sheet = file.read("xl/worksheets/sheet1.xml").decode()
        assert "<f>" not in sheet  # no formula
        assert "hyperlink" not in sheet.lower().replace("=hyperlink(1)", "")


def test_more_than_a_sheet_holds_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"a sheet holds 1,048,575 images and 16,382 classes"):
        write_workbook(tmp_path / "p.xlsx", ["a"], ["x"] * 16_383, np.zeros((1, 16_383)), np.zeros((1, 16_383), bool))
    assert not list(tmp_path.iterdir())
