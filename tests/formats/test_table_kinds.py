"""Tables beyond one plain CSV file: several files, workbooks, packed and Parquet tables, lists in cells, list files."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import shlex
import tempfile
import unicodedata
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import LabelTable, formats
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.formats.table import sheets
from tests.formats.cases import CASES, rows
from tests.formats.table_calls import read, refuse


def test_several_files_are_read_as_one(tmp_path):
    (tmp_path / "a.csv").write_text("image,cat,dog\na.jpg,1,0\nb.jpg,,1\n")
    (tmp_path / "b.csv").write_text("name;cow\nb.jpg;0\n")
    (tmp_path / "c.csv").write_text("image,label,value\nc.jpg,cat,1\n")
    first, second = tmp_path / "a.csv", tmp_path / "c.csv"
    table, report = read(first, second, coding="zero-absent")
    assert rows(table) == {"a.jpg": [1, -1], "b.jpg": [0, 1], "c.jpg": [1, 0]}
    assert report.rows == 3
    assert report.layout.endswith("2 files")
    table, _ = read(first, tmp_path / "b.csv", image_column="#1", coding="zero-absent", classes="cow,cat")
    assert (table.classes, rows(table)) == (("cow", "cat"), {"a.jpg": [0, 1], "b.jpg": [-1, 0]})
    assert (
        read(tmp_path / "[ac].csv", coding="zero-absent")[0].content_hash()
        == read(first, second, coding="zero-absent")[0].content_hash()
    )


def test_what_is_wrong_in_several_files_is_placed_in_its_own(tmp_path):
    (tmp_path / "a.csv").write_text("image,cat\na.jpg,1\nb.jpg,-1\n")
    (tmp_path / "b.csv").write_text("image,cat\nb.jpg,1\n")
    (tmp_path / "c.csv").write_text("image,cat\nb.jpg,1\nc.jpg,7\n")
    a, b, c = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv"))
    assert refuse(a, b).offenders == [f"b.jpg, cat: {a}:3 absent / {b}:2 present"]
    assert refuse(a, c).offenders == [f"{c}:3:2 7"]
    assert refuse(a, a, tmp_path, tmp_path / "*.tsv").offenders == [
        f"{a}: named more than once",
        f"{tmp_path}: a folder; name its files, as in {tmp_path}/*.csv",
        f"{tmp_path}/*.tsv: no file fits the pattern",
    ]
    (tmp_path / "d.csv").write_text("image,cat\nd.jpg,0\n")
    assert "not declared" in refuse(a.with_name("[bd].csv")).message  # 1 in one file and 0 in another


def test_other_formats_say_how_several_sources_are_put_together(tmp_path):
    with pytest.raises(UserError, match="partlabel labels merge"):
        formats.read("coco", ["a.json", "b.json"])
    with pytest.raises(UserError, match="no file is named"):
        formats.read("csv", [])
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"ImageID,LabelName,Confidence\n{name},/m/1,1\n")
    assert rows(formats.read("openimages", [tmp_path / "a.csv", tmp_path / "b.csv"])[0]) == {"a": [1], "b": [1]}


def test_the_command_takes_several_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"image,cat\n{name}.jpg,1\n")
    for sources in (["a.csv", "b.csv"], ["*.csv"]):
        assert main(["import", "csv", *sources, "-o", "out.parquet", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["images"] == 2


CELLS = [["image", "cat", "dog", "seen"], ["001.jpg", 1, 0, True], [], ["b.jpg", "", 1.0, False]]


def workbook(path, **sheets):
    """Write a workbook with the least that a reader needs; numbers, text, and true or false."""

    def cell(value, place):
        if isinstance(value, bool):
            return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
        if isinstance(value, str):
            return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        return f'<c r="{place}"><v>{value}</v></c>'

    names = list(sheets)
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
    listed = "".join(f'<sheet name="{n}" sheetId="{i}" r:id="r{i}"/>' for i, n in enumerate(names, 1))
    targets = "".join(
        f'<Relationship Id="r{i}" Type="{relation}/worksheet" Target="worksheets/s{i}.xml"/>'
        for i in range(1, len(names) + 1)
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "[Content_Types].xml",
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="xml" ContentType="application/xml"/></Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships {package}><Relationship Id="r1" Type="{relation}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        archive.writestr(
            "xl/workbook.xml", f'<workbook {main} xmlns:r="{relation}"><sheets>{listed}</sheets></workbook>'
        )
        archive.writestr("xl/_rels/workbook.xml.rels", f"<Relationships {package}>{targets}</Relationships>")
        for i, content in enumerate(sheets.values(), 1):
            lines = "".join(
                f'<row r="{r}">' + "".join(cell(v, f"{chr(65 + c)}{r}") for c, v in enumerate(row)) + "</row>"
                for r, row in enumerate(content, 1)
            )
            archive.writestr(f"xl/worksheets/s{i}.xml", f"<worksheet {main}><sheetData>{lines}</sheetData></worksheet>")
    return path


def test_a_sheet_of_a_workbook(tmp_path):
    path = workbook(tmp_path / "t.xlsx", Labels=CELLS, Empty=[])
    table, report = read(path, coding="zero-absent", ignore="seen")
    assert rows(table) == {"001.jpg": [1, -1], "b.jpg": [0, 1]}
    assert "sheet 'Labels' of a workbook" in report.layout
    assert rows(read(path, coding="words")[0]) == {"001.jpg": [1, -1, 1], "b.jpg": [0, 1, -1]}
    broken = workbook(tmp_path / "u.xlsx", Labels=[*CELLS, ["c.jpg", 5]])
    assert refuse(broken, coding="zero-absent", ignore="seen").offenders == [f"{broken}:5:2 5"]


def test_workbooks_with_several_sheets(tmp_path, monkeypatch):
    path = workbook(tmp_path / "t.xlsx", A=CELLS, B=[["image", "cow"], ["a.jpg", 1]])
    assert refuse(path).offenders == ["A", "B"]
    assert rows(read(path, sheet="B")[0]) == {"a.jpg": [1]}
    assert "no sheet 'C'" in refuse(path, sheet="C").message
    assert "empty" in refuse(workbook(tmp_path / "e.xlsx", A=[])).message
    monkeypatch.setattr(sheets, "_MOST_BYTES", 100)
    assert "unpacks to more than" in refuse(path, sheet="B").message


def test_spread_01_a_workbook_without_content_is_named_as_one():
    error = refuse(CASES / "SPREAD-01" / "sheet.xlsx")
    assert "cannot be read as a workbook" in error.message


TEXT = b"image,cat,dog\n001.jpg,1,0\n\nb.jpg,,1\n"


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst", "zip"])
def test_packed_tables(tmp_path, kind):
    path = tmp_path / f"t.csv.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("t.csv", TEXT)
            archive.writestr("readme.md", "labels")
    elif kind == "zst":
        path.write_bytes(pa.Codec("zstd").compress(TEXT, asbytes=True))
    else:
        path.write_bytes({"gz": gzip, "bz2": bz2, "xz": lzma}[kind].compress(TEXT))
    assert rows(read(path, coding="zero-absent")[0]) == {"001.jpg": [1, -1], "b.jpg": [0, 1]}
    assert refuse(path, coding="1=present,blank=unknown").offenders == [f"{path}:2:3 0"]
    packed = path.read_bytes()
    for cut in (len(packed) // 2, len(packed) - 9):
        path.write_bytes(packed[:cut])
        assert str(path) in str(refuse(path, coding="zero-absent"))


def test_spread_01_packed():
    path = CASES / "SPREAD-01" / "table.csv.gz"
    table, _ = read(path, image_column="study_id", ignore="subject_id")
    assert rows(table) == {"50414267": [0, 1]}


def test_a_zip_with_several_tables(tmp_path):
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", TEXT)
        archive.writestr("b.csv", TEXT)
    error = refuse(path)
    assert "2 tables" in error.message
    assert error.offenders == ["a.csv", "b.csv"]


def test_parquet_with_a_column_for_each_class(tmp_path):
    path = CASES / "SPREAD-01" / "table.parquet"
    table, report = read(path, coding="1=present,0=absent,-1=unknown")
    assert rows(table) == {"a": [1, -1], "b": [-1, 1], "c": [0, 0]}
    assert "Parquet" in report.layout
    own = tmp_path / "t.parquet"
    columns = {"image": [7, 8, 9], "cat": [1.0, None, float("nan")], "dog": [True, False, None], "note": [None] * 3}
    pq.write_table(pa.table(columns), own)
    assert rows(read(own, coding="words", ignore="note")[0]) == {"7": [1, 1], "8": [0, -1], "9": [0, 0]}
    pq.write_table(pa.table({"image": ["a", "b"], "cat": [1, 5]}), own)
    assert refuse(own).offenders == [f"{own}:2:2 5"]
    pq.write_table(pa.table({"image": [{"bytes": b"x"}], "cat": [1]}), own)
    assert "import huggingface" in refuse(own).message
    pq.write_table(pa.table({"image": ["a", "b"], "tags": [["cat", "dog"], []]}), own)
    assert rows(read(own)[0]) == {"a": [1, 1], "b": [0, 0]}
    own.write_bytes(path.read_bytes()[:-200])
    assert "Parquet" in refuse(own).message


@pytest.mark.parametrize("name", ["wider.json", "vaw.json"])
def test_attr_01_json_is_no_table(name):
    error = refuse(CASES / "ATTR-01" / name)
    assert "JSON, not a table" in error.message


NAME = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=5).map(
    "n{}".format
)


@given(
    st.lists(NAME, min_size=1, max_size=6, unique=True),
    st.lists(NAME, min_size=1, max_size=4, unique_by=lambda name: unicodedata.normalize("NFC", name)),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_one_table_is_the_same_in_every_kind(images, classes, data):
    value = st.sampled_from([1, -1, ""])
    labels = data.draw(
        st.lists(
            st.lists(value, min_size=len(classes), max_size=len(classes)), min_size=len(images), max_size=len(images)
        )
    )
    cells = [["image", *classes], *([image, *row] for image, row in zip(images, labels, strict=True))]
    cut = data.draw(st.integers(1, len(images)))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, part in (("all", cells), ("a", cells[: cut + 1]), ("b", [cells[0], *cells[cut + 1 :]])):
            with open(root / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows(part)
        text = (root / "all.csv").read_bytes()
        (root / "t.csv.gz").write_bytes(gzip.compress(text))
        workbook(root / "t.xlsx", A=cells)
        columns = {f"{i}": [row[i] if i == 0 else row[i] or None for row in cells[1:]] for i in range(len(cells[0]))}
        pq.write_table(pa.table(columns).rename_columns(cells[0]), root / "t.parquet")
        options = {"coding": "native", "separator": ",", "image_column": "#1"}
        expected = [[entry or 0 for entry in row] for row in labels]
        for names in (["all.csv"], ["t.csv.gz"], ["t.xlsx"], ["t.parquet"], ["a.csv", "b.csv"]):
            table, report = read(*(root / name for name in names), **options)
            assert (table.images.to_pylist(), table.dense().tolist()) == (images, expected), names
            assert report.rows == len(images)


def test_parts_of_a_coding_without_a_meaning_are_refused():
    for coding in ("1=present,absent", "present,0=absent", "1=present,0=absent,blank"):
        error = refuse(CASES / "LBL-02" / "zero_one.csv", coding=coding)
        assert "coding cannot be read" in error.message
        assert len(error.offenders) == 1


def test_the_options_that_an_error_suggests_can_be_copied(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = 'image,"Age, years",By,cat,dog\na,61,x y,1,0\nb,47,z,-1,\nc,30,z,1,1\n'
    (tmp_path / "t.csv").write_text(text)
    for source in ("t.csv", str(CASES / "LBL-01" / "train.csv"), str(CASES / "LBL-02" / "zero_one.csv")):
        command = ["import", "csv", source, "-o", "out.parquet"]
        assert main(command) == 2
        copied = capsys.readouterr().err.split("To copy and correct: ")[1].splitlines()[0]
        assert main([*command, *shlex.split(copied)]) == 0
    assert main(["import", "csv", "t.csv", "-o", "out.parquet"]) == 2
    assert "--coding 1=present,0=absent,-1=uncertain,blank=unknown --ignore '#2,By'" in capsys.readouterr().err


def test_words_of_a_field_sheet_are_proposed_as_labels(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = "a,M,Y,n,x\nb,S,no,?,0\nc,M,,y,-\n"
    for text in (rows, rows.replace(",0", ",n")):  # with a 0, and in words alone
        (tmp_path / "t.csv").write_text(f"image,Site,cat,dog,owl\n{text}")
        command = ["import", "csv", "t.csv", "-o", "out.parquet"]
        assert main(command) == 2
        error = capsys.readouterr().err
        assert "Site: M (2), S (1) - not labels" in error
        assert error.count("- not labels") == 1
        copied = error.split("To copy and correct: ")[1].splitlines()[0]
        assert copied.endswith("--ignore Site")
        assert main([*command, *shlex.split(copied)]) == 0
        table = LabelTable.read_parquet(tmp_path / "out.parquet")
        assert table.dense().tolist() == [[1, -1, 1], [-1, 0, -1], [0, 1, 0]]


def test_messages_of_the_command_spell_options_as_they_are_typed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("scene,cat\na,1\n")
    assert main(["import", "csv", "t.csv", "-o", "out.parquet"]) == 2
    assert "name it with --image-column NAME" in capsys.readouterr().err
    (tmp_path / "t.csv").write_text("image,cat\na,1\na,-1\n")
    assert main(["import", "csv", "t.csv", "-o", "out.parquet"]) == 2
    assert "settle them with --conflicts unknown, present" in capsys.readouterr().err
    (tmp_path / "where=x.csv").write_text("image,none\na,1\n")
    assert main(["import", "csv", "where=x.csv", "-o", "out.parquet"]) == 0
    assert "--nothing 'none' counts every" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(UserError, match="image_column=NAME"):
        formats.read("csv", CASES / "NIH-01" / "Data_Entry_2017.csv")
