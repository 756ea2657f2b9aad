"""Files with names that no friend gives."""

from __future__ import annotations

import csv
import os
import shutil

import pytest

from partlabel.app.cli import main


@pytest.fixture
def photos(place, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in (b"=1+1.png", b"-2.png", b"plain.png", b"\xff\xfe.png"):
        shutil.copy(place / "pictures" / "000.png", os.path.join(os.fsencode(folder), name))
    return folder


@pytest.mark.linux  # Windows and macOS have no such names
def test_a_name_that_is_not_utf_8_is_said_before_the_scoring(place, photos, tmp_path, capsys):
    out = tmp_path / "out.csv"
    assert main(["predict", str(place / "run"), str(photos), "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert "1 of 4 images cannot be used" in said
    assert r"\xff\xfe.png: its name is not UTF-8" in said
    assert not out.exists()
    assert main(["predict", str(place / "run"), str(photos), "-o", str(out), "--on-bad", "skip"]) == 0
    assert r"\xff\xfe.png: its name is not UTF-8" in capsys.readouterr().out
    with open(out, encoding="utf-8", newline="") as file:
        names = {row["image"] for row in csv.DictReader(file)}
    assert names == {"'=1+1.png", "'-2.png", "plain.png"}


def test_a_list_whose_names_lead_out_of_the_folder_is_refused(place, tmp_path, capsys):
    names = tmp_path / "names.txt"
    names.write_text("000.png\n../labels.csv\n/etc/passwd\na/../../x.png\n")
    words = [
        "predict",
        str(place / "run"),
        str(names),
        "--images",
        str(place / "pictures"),
        "-o",
        str(tmp_path / "o.csv"),
    ]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "3 image names lead out of the image folder" in said
    for name in ("../labels.csv", "/etc/passwd", "a/../../x.png"):
        assert f"  {name}\n" in said
