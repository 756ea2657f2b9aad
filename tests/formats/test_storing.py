"""What an import leaves on the disk: table and report, all of it or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partlabel import LabelTable, formats
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.formats.report import ImportReport, store


def stored(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_import_stores_what_it_prints(tmp_path, capsys):
    source, place = tmp_path / "birds.csv", tmp_path / "out"
    source.write_text("image,owl,Owl\nä.jpg,1,-1\nb.jpg,,1\n", encoding="utf-8")
    place.mkdir()
    assert main(["import", "csv", str(source), "-o", str(place / "my.labels.parquet")]) == 0
    assert stored(place) == ["my.labels.parquet", "my.labels.report.json", "my.labels.report.txt"]
    text = (place / "my.labels.report.txt").read_text(encoding="utf-8")
    assert capsys.readouterr().out.startswith(text)
    table, report = formats.read("csv", source)
    content = json.loads((place / "my.labels.report.json").read_text(encoding="utf-8"))
    assert content == json.loads(json.dumps(report.to_dict()))
    assert (content["rows"], content["known"], content["look_alikes"]) == (2, 3, [["owl", "Owl"]])
    assert LabelTable.read_parquet(place / "my.labels.parquet").content_hash() == table.content_hash()


def test_the_json_on_standard_output_names_the_files(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("image,owl\na,1\nb,-1\n")
    assert main(["import", "csv", str(tmp_path / "a.csv"), "-o", str(tmp_path / "t.parquet"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["output"], said["report"]) == (str(tmp_path / "t.parquet"), str(tmp_path / "t.report.json"))


@pytest.mark.parametrize("broken", ["write_parquet", "to_dict", "text"])
def test_nothing_is_stored_by_halves(tmp_path, monkeypatch, broken):
    table, report = LabelTable.from_dense(["a"], ["cat"], [[1]]), ImportReport("a.csv", "csv")
    store(table, report, tmp_path / "t.parquet")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(LabelTable if broken == "write_parquet" else ImportReport, broken, lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store(LabelTable.from_dense(["b"], ["dog"], [[1]]), report, tmp_path / "t.parquet")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_places_that_cannot_hold_it(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("image,owl\na,1\n")
    (tmp_path / "t.report.txt").mkdir()
    (tmp_path / "full.parquet").mkdir()
    for output in ("t.parquet", "full.parquet", "none/t.parquet", "."):
        assert main(["import", "csv", str(tmp_path / "a.csv"), "-o", str(tmp_path / output)]) == 2
        assert "folder" in capsys.readouterr().err
    assert stored(tmp_path) == ["a.csv", "full.parquet", "t.report.txt"]
    with pytest.raises(UserError, match="folder"):
        store(LabelTable.from_dense(["a"], ["cat"], [[1]]), ImportReport("a", "csv"), tmp_path)
