"""Cells and files that hold lists: of values, of class numbers, of names."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from partlabel.formats.table.entries import parse_list
from tests.formats.cases import CASES, rows
from tests.formats.table_calls import read, refuse


def test_list_01():
    folder = CASES / "LIST-01"
    options = {"image_column": "filepath", "tags_column": "label"}
    for more in ({}, {"layout": "tags", "tag_separator": ","}):
        table, _ = read(folder / "nus_wid_data.csv", **options, **more)
        assert table.classes == ("clouds", "sky", "valley", "water")
        assert table.dense().tolist() == [[1, 1, 0, 0], [0, 0, 0, 1], [0, 1, 1, 1]]
    assert "tags_column='label'" in refuse(folder / "nus_wid_data.csv", layout="long").message
    for not_listed, nothing in (("unknown", [0, 0]), ("absent", [-1, -1])):
        table, _ = read(folder / "json.csv", not_listed=not_listed)
        assert table.classes == ("cat", "dog")
        assert rows(table)["c.jpg"] == nothing
    table, report = read(folder / "padchest.csv")
    assert table.classes == ("cardiomegaly", "costophrenic angle blunting", "normal", "pleural effusion")
    assert report.dropped["blank names in lists"].count == 1
    assert any("nothing='normal'" in warning for warning in report.warnings)
    table, _ = read(folder / "genres.csv", image_column="Id", tags_column="Genre")
    assert table.classes == ("Action", "Comedy", "Drama")


def test_lists_of_values_and_of_class_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('image,labels\na,"[1, 0, 1]"\nb,"[0, 0, 0]"\nc,\n')
    for options in ({}, {"tag_separator": ","}):
        error = refuse(path, **options)
        assert "lists of numbers" in error.message
        assert "entries=values" in error.message
        assert error.offenders == [f"{path}:2:2 [1, 0, 1]"]
    assert "classes=" in refuse(path, entries="values").message
    table, _ = read(path, entries="values", classes="cat,dog,cow", coding="zero-absent")
    assert rows(table) == {"a": [1, -1, 1], "b": [-1, -1, -1], "c": [0, 0, 0]}
    assert "not declared" in refuse(path, entries="values", classes="cat,dog,cow").message
    error = refuse(path, entries="values", classes="cat,dog", coding="zero-absent")
    assert error.offenders == [f"{path}:2:2 3 values, 2 classes", f"{path}:3:2 3 values, 2 classes"]
    table, _ = read(path, entries="numbers", classes="cat,dog,cow", not_listed="absent")
    assert rows(table) == {"a": [1, 1, -1], "b": [1, -1, -1], "c": [-1, -1, -1]}
    assert refuse(path, entries="numbers", classes="cat").offenders == [
        f"{path}:2:2 1 is no number of a class, 0 to 0",
        f"{path}:2:2 1 is no number of a class, 0 to 0",
    ]
    assert read(path, entries="names")[0].classes == ("0", "1")
    for text in ("image,labels\na,0 1 1\nb,1 0 0\n", "image,labels\na,\"['0', '1']\"\n"):
        path.write_text(text)
        assert "every entry is 0, 1 or -1" in refuse(path, tag_separator=" ").message


def test_cells_that_are_half_a_list_never_become_classes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('image,labels\na,"[cat, dog]"\nb,[cow]\n')
    assert refuse(path, tag_separator=",").offenders == [
        f"{path}:2:2 [cat begins or ends with a bracket",
        f"{path}:2:2 dog] begins or ends with a bracket",
    ]
    path.write_text("image,labels\na,\"['cat']\"\nb,dog\nc,\"[['cat'], 'cow']\"\n")
    assert refuse(path, tag_separator=",").offenders == [
        f"{path}:4:2 [['cat'], 'cow'] is not a list of names or numbers",
        f"{path}:3:2 dog beside lists",
    ]
    path.write_text("image,labels\na,[x]|dog (wet) [old]\n")
    assert read(path, tag_separator="|")[0].classes == ("[x]", "dog (wet) [old]")


@given(st.lists(st.text(max_size=8), max_size=5))
def test_lists_are_parsed_as_they_are_written(entries):
    assert parse_list(repr(entries)) == parse_list(f" {json.dumps(entries)} ") == entries
    assert parse_list(repr(entries)[1:]) is None


def test_celeba_01(tmp_path):
    path = CASES / "CELEBA-01" / "list_attr_celeba.txt"
    expected = {
        "000001.jpg": [-1, 1, 1, -1],
        "000002.jpg": [-1, -1, -1, 1],
        "000003.jpg": [1, -1, -1, -1],
        "000004.jpg": [-1, -1, 1, -1],
    }
    names = ("Bald", "Big_Nose", "Smiling", "Wearing_Hat")
    for options in ({}, {"layout": "list", "classes": ",".join(names), "coding": "native"}, {"layout": "list"}):
        table, report = read(path, **options)
        assert (table.classes, rows(table)) == (names, expected)
        assert not report.warnings
    table, _ = read(path, classes="Smiling,Bald")
    assert rows(table) == {name: [labels[2], labels[0]] for name, labels in expected.items()}
    short = tmp_path / "short.txt"
    short.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert "the first line says 4 images, 3 follow" in read(short)[1].warnings
    short.write_text(path.read_text().replace("000002.jpg -1", "000002.jpg"))
    assert refuse(short).offenders[0].startswith(f"{short}:4 3 values at the end, 4 classes")


def test_paddle_01():
    folder = CASES / "PADDLE-01"
    options = {"layout": "list", "classes": "a,b,c", "coding": "zero-absent"}
    assert "tag_separator=comma" in refuse(folder / "zero_one.txt", **options).offenders[0]
    table, _ = read(folder / "zero_one.txt", tag_separator=",", **options)
    assert rows(table) == {"img/a.jpg": [-1, 1, 1], "img/b.jpg": [1, -1, -1]}
    options = {"layout": "list", "classes": "a,b,c,d,e"}
    assert "entries=numbers" in refuse(folder / "numbers.txt", coding="zero-absent", **options).offenders[0]
    table, _ = read(folder / "numbers.txt", entries="numbers", **options)
    assert rows(table) == {"img/a.jpg": [1, 0, 0, 0, 1], "img/b.jpg": [1, 0, 0, 0, 0]}
    table, _ = read(folder / "mmpretrain.txt", entries="numbers", tag_separator=",", **options)
    assert rows(table) == {"a.jpg": [1, 0, 0, 1, 0], "b.jpg": [0, 0, 1, 0, 0]}


def test_list_files_of_numbers_and_names(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("my photo.jpg 0 2\nb.jpg\nc.jpg 7\n")
    options = {"layout": "list", "entries": "numbers", "classes": "a,b,c"}
    assert refuse(path, **options).offenders == [f"{path}:3 7 is no number of a class, 0 to 2"]
    path.write_text("my photo.jpg 0 2\nb.jpg\n0 1\n")
    assert refuse(path, **options).offenders == [f"{path}:3 no image name: 0 1"]
    path.write_text("my photo.jpg 0 2\nb.jpg\n")
    assert rows(read(path, **options)[0]) == {"my photo.jpg": [1, 0, 1], "b.jpg": [0, 0, 0]}
    path.write_text("a b.jpg\tcat,dog\nc.jpg\tdog\n")
    table, _ = read(path, layout="list", entries="names", separator="tab", tag_separator=",")
    assert (table.classes, rows(table)) == (("cat", "dog"), {"a b.jpg": [1, 1], "c.jpg": [0, 1]})


def test_nih_01():
    folder = CASES / "NIH-01"
    options = {"image_column": "Image Index", "tags_column": "Finding Labels", "tag_separator": "|"}
    table, report = read(folder / "Data_Entry_2017.csv", nothing="No Finding", group="Patient ID", **options)
    assert table.classes == ("Cardiomegaly", "Emphysema", "Hernia", "Pleural_Thickening")
    assert list(rows(table).values()) == [[1, 0, 0, 0], [1, 1, 0, 0], [-1, -1, -1, -1], [0, 0, 1, 1]]
    assert "images with No Finding: 1" in report.notes
    assert table.groups.to_pylist() == ["101", "101", "102", "103"]
    table, report = read(folder / "Data_Entry_2017.csv", **options)
    assert "No Finding" in table.classes
    assert any("nothing='No Finding'" in warning for warning in report.warnings)
    table, _ = read(folder / "vinbig.csv", layout="long", nothing="no finding")
    assert rows(table) == {"0a1b": [1, 1], "0c2d": [-1, -1]}
    table, _ = read(folder / "plant.csv", tag_separator="space", nothing="healthy")
    assert list(rows(table).values()) == [[-1, -1, -1], [1, 1, 1], [0, 0, 1]]


def test_nothing_beside_a_class_is_a_contradiction(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("image,tags\na,cat|none\nb,none\nc,dog\n")
    error = refuse(path, tag_separator="|", nothing="none")
    assert error.offenders == [f"a, cat: {path}:2 present / {path}:2 absent"]
    table, _ = read(path, tag_separator="|", nothing="none", conflicts="present", classes="dog,cat,cow")
    assert rows(table) == {"a": [-1, 1, -1], "b": [-1, -1, -1], "c": [1, 0, 0]}
    assert any("no class has such a name" in w for w in read(path, tag_separator="|", nothing="nil")[1].warnings)


def test_nothing_in_wide_and_long_tables(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("image,cat,dog,None\na,1,,0\nb,,,1\nc,,,\n")
    for options in ({}, {"classes": "cat,dog"}, {"classes": "cat,dog,None"}):
        table, _ = read(path, coding="zero-absent", nothing="none", **options)
        assert table.classes == ("cat", "dog")
        assert rows(table) == {"a": [1, 0], "b": [-1, -1], "c": [0, 0]}
    path.write_text("image,label,value\na,cat,1\na,none,0\nb,none,1\n")
    assert rows(read(path, coding="zero-absent", nothing="none")[0]) == {"a": [1], "b": [-1]}


def test_split_02(tmp_path):
    folder = CASES / "SPLIT-02"
    table, report = read(folder / "fastai.csv", tag_separator="space", where="is_valid=true")
    assert rows(table) == {"000005.jpg": [0, 1], "000007.jpg": [1, 0]}
    assert report.rows == 2
    assert report.dropped["rows with is_valid=False"].count == 2
    options = {"image_column": "filepath", "tags_column": "label"}
    table, _ = read(folder / "nus_wid_data.csv", where="split_name=train", **options)
    assert table.images.to_pylist() == ["images/0101_111.jpg", "images/0102_222.jpg"]
    error = refuse(folder / "nus_wid_data.csv", where={"split_name": ["test", "dev"]}, **options)
    assert "no row has split_name=test or dev" in error.message
    assert error.offenders == ["split_name=train (2)", "split_name=val (1)"]
    path = tmp_path / "wide.csv"
    path.write_text("image,cat,fold,by\na,1,1,x\nb,5,2,x\nc,-1,1,y\nd,1,3,x\ne,7,3,x\n")
    assert rows(read(path, where="fold=1, by=x")[0]) == {"a": [1]}
    assert rows(read(path, where={"fold": 1, "by": ["x", "y"]})[0]) == {"a": [1], "c": [-1]}
    assert refuse(path, where="fold=1,fold=3,by=x").offenders == [f"{path}:6:2 7"]
    assert "no column named" in refuse(path, where="part=1").message
    assert refuse(path, where="fold,by=x").offenders == ["fold"]
