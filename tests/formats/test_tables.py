"""What label tables may look like beyond the real-world cases, and the mistakes in them."""

from __future__ import annotations

import pytest

from partlabel import formats
from partlabel.core.errors import UserError
from partlabel.formats.table import delimited
from tests.formats.cases import rows


@pytest.fixture
def file(tmp_path):
    def write(text: str, encoding: str = "utf-8"):
        path = tmp_path / "t.csv"
        path.write_bytes(text.encode(encoding))
        return path

    return write


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("csv", path, **options)
    return caught.value


def at(error: UserError, path) -> list[str]:
    return [line.removeprefix(f"{path}:") for line in error.offenders]


@pytest.mark.parametrize(
    "text",
    [
        "image,cat,dog\na,1,-1\nb,,1\n",
        "image,cat,dog\r\na,1,-1\r\nb,,1",
        "image,cat,dog\ra,1,-1\rb,,1\r",
        "image\tcat\tdog\na\t1\t-1\nb\t\t1\n",
        "image|cat|dog\na|1|-1\nb||1\n",
        "\n\nimage,cat,dog\n\na,1,-1\n  \nb,,1\n\n",
        '"image","cat","dog"\n"a","1","-1"\n"b","","1"\n',
        "image,cat,dog,\na,1,-1,\nb,,1,\n",
        "image,cat,dog\na,1,-1\n,,\nb,,1\n,,\n",
        "image ,cat, dog\na , 1,-1 \nb,,+1.0\n",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_one_table_in_many_forms(file, text, encoding):
    table, _ = formats.read("csv", file(text, encoding))
    assert table.classes == ("cat", "dog")
    assert rows(table) == {"a": [1, -1], "b": [0, 1]}


def test_other_encodings_are_declared(file):
    path = file("image,café\na,1\nb,-1\n", "cp1252")
    error = refuse(path)
    assert "encoding=cp1252" in error.message
    assert formats.read("csv", path, encoding="cp1252")[0].classes == ("café",)
    path = file("image,cat\né,1\nb,ü\n", "cp1252")
    assert at(refuse(path), path) == ["2:1 b'\\xe9' is not utf-8", "3:2 b'\\xfc' is not utf-8"]
    assert "encoding=utf-16-le" in refuse(file("image,cat\na,1\n", "utf-16-le")).message
    for name in ("utf-16", "utf-16-le", "UTF16"):
        assert rows(formats.read("csv", file("image,cat\na,1\n", "utf-16"), encoding=name)[0]) == {"a": [1]}
    path = file("image,caf\u00e9\na,1\nb,-1\n", "cp1252")
    assert "'klingon' is not known" in refuse(path, encoding="klingon").message


def test_lines_are_those_of_the_file_in_spite_of_quoted_line_breaks(file):
    path = file('image,cat\n"a\nb.png",1\n\n"c.png",7\n"d\r\n\r\n.png",-1\nf.png,8\n')
    assert at(refuse(path), path) == ["5:2 7", "9:2 8"]


def test_quotes_that_close_too_early_do_not_hide_a_mistake(file):
    path = file('image,cat\n"5" pipe.png,1\nb.png,7\n')
    assert at(refuse(path), path) == ["3:2 7"]


def test_rows_of_another_length_are_refused_with_all_their_lines(file):
    path = file("image,cat,dog\na,1,1\nb,1\nc,1,1,1\n")
    assert at(refuse(path), path) == ["3 2 cells, the header has 3", "4 4 cells, the header has 3"]
    path = file('image,cat\na,1\n"b,1\nc,1\n')
    assert "quote that is not closed" in refuse(path).offenders[-1]


@pytest.mark.parametrize("quote", ["", '"'])
def test_rows_longer_than_a_block(file, monkeypatch, quote):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 32)
    name = "x" * 200
    path = file(f"image,cat\na.png,1\nb.png,-1\n\n\nc.png,1\nd.png,1\n{quote}{name}{quote},-1\nf,1\n" + "\n" * 40)
    table, _ = formats.read("csv", path)
    assert table.images.to_pylist() == ["a.png", "b.png", "c.png", "d.png", name, "f"]
    assert table.dense().ravel().tolist() == [1, -1, 1, 1, -1, 1]


def test_separators(file):
    error = refuse(file("image;cat,dog\na;1,1\n"))
    assert "comma or semicolon are both possible" in error.message
    assert rows(formats.read("csv", file("image cat\na 1\n"), separator="space")[0]) == {"a": [1]}
    assert rows(formats.read("csv", file("image;cat,dog\na;1\n"), separator=";")[0]) == {"a": [1]}


def test_the_image_column_is_found_or_named(file):
    path = file("scene,cat\na,1\n")
    assert "image_column=" in refuse(path).message
    for name in ("scene", "#1"):
        assert rows(formats.read("csv", path, image_column=name)[0]) == {"a": [1]}
    assert "2 columns" in refuse(file("image,path,cat\na,a,1\n")).message
    assert "no column named 'foto'" in refuse(path, image_column="foto").message


def test_columns_without_a_name(file):
    path = file(",image,cat\n0,a,1\n1,b,-1\n")
    assert "ignore=#1" in refuse(path).message
    assert rows(formats.read("csv", path, ignore="#1")[0]) == {"a": [1], "b": [-1]}


def test_labels_without_an_image_name(file):
    path = file("image,cat\na,1\n,1\n  ,-1\n,\n")
    assert at(refuse(path), path) == ["3", "4"]


def test_chosen_classes_give_the_order(file):
    path = file("image,cat,dog,car\na,1,-1,\n")
    table, report = formats.read("csv", path, classes=["car", "cat"])
    assert (table.classes, rows(table)) == (("car", "cat"), {"a": [0, 1]})
    assert "columns not used: dog" in report.notes
    assert refuse(path, classes="cat,dgo").offenders == ["dgo (did you mean dog?)"]


def test_two_columns_of_one_class_are_put_together(file):
    table, report = formats.read("csv", file("image,cat,cats\na,1,\nb,,-1\n"), rename="cats=cat")
    assert (table.classes, rows(table)) == (("cat",), {"a": [1], "b": [-1]})
    assert any("cat (2)" in note for note in report.notes)


def test_a_big_column_of_something_else_is_one_line_of_the_error(file):
    path = file("image,age,cat\n" + "".join(f"{n},{n},{n % 2 or -1}\n" for n in range(500)))
    error = refuse(path)
    assert error.offenders == ["column 2 'age': 0, 1, 2, 3, 4, ..."]
    assert formats.read("csv", path, ignore="age")[0].num_images == 500


def test_many_bad_cells_are_counted(file):
    error = refuse(file("image,cat\n" + "".join(f"{n},1\n{n}b,5\n" for n in range(3000))))
    assert "3,000 cells" in error.message
    assert len(error.offenders) == 1000


def test_long_tables(file):
    path = file("ImageID,Source,LabelName,Confidence\nx,v,b,1\nx,v,a,0\ny,v,,\nz,v,c,\n")
    table, report = formats.read("csv", path, coding="zero-absent")
    assert (table.classes, rows(table)) == (("a", "b", "c"), {"x": [-1, 1, 0], "y": [0, 0, 0], "z": [0, 0, 0]})
    assert report.rows == 4
    assert "columns not used: Source" in report.notes
    table, report = formats.read("csv", path, coding="zero-absent", classes="b,d")
    assert (table.classes, rows(table)) == (("b", "d"), {"x": [1, 0], "y": [0, 0], "z": [0, 0]})
    dropped = report.dropped["labels of 2 classes that are not in the class list"]
    assert (dropped.count, dropped.examples) == (1, ["a", "c"])
    path = file("image,label,value\nx,cat,1\ny,,1\n")
    assert at(refuse(path), path) == ["3"]


def test_long_tables_without_values_list_what_is_present(file):
    path = file("image,label\nx,cat\ny,dog\ny,\n")
    table, report = formats.read("csv", path, layout="long", not_listed="absent")
    assert rows(table) == {"x": [1, -1], "y": [-1, 1]}
    assert report.coding == "each row = present"


def test_tags(file):
    path = file("file,labels,by\na,cat; dog;,x\nb,,x\na,dog,y\n")
    table, report = formats.read("csv", path, tag_separator=";", separator=",")
    assert rows(table) == {"a": [1, 1], "b": [0, 0]}
    assert report.repeats == 1
    assert "columns not used: by" in report.notes


def test_list_files(file):
    options = {"layout": "list", "classes": ["cat", "dog"], "coding": "zero-absent"}
    assert rows(formats.read("csv", file("p/a b.jpg,1,0\n"), separator=",", **options)[0]) == {"p/a b.jpg": [1, -1]}
    path = file("a.jpg 1 5\n1 0\nb 1 1 0\n\nc.jpg 0 1\n")
    assert [line.split(" at")[0] for line in at(refuse(path, **options), path)] == [
        "1 0 values",
        "2 2 values",
        "3 3 values",
    ]
    assert "class names" in refuse(path, layout="list").message
    path = file("a.jpg 1 0\nb.jpg 0 1\na.jpg 0 0\n")
    assert refuse(path, **options).offenders == [f"a.jpg, cat: {path}:1 present / {path}:3 absent"]
    assert "not declared" in refuse(path, layout="list", classes="cat,dog").message
    assert rows(formats.read("csv", file("a 1 -1\n"), layout="list", classes="cat,dog")[0]) == {"a": [1, -1]}


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "empty"), ("\n \n", "only blank lines"), (None, "cannot be read"), ("image\n", "separator")],
)
def test_files_that_are_no_tables(tmp_path, content, message):
    path = tmp_path / "t.csv"
    if content is not None:
        path.write_text(content)
    assert message in refuse(path).message


def test_a_table_without_rows(file):
    table, report = formats.read("csv", file("image,cat\n"))
    assert (table.num_images, table.classes) == (0, ("cat",))
    assert "the source holds no image" in report.warnings
    assert "no column is left" in refuse(file("image,age\na,1\n"), ignore="age").message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("image,cat,note\n" + "a,1,x\n" * 3 + 'b,1,"dark\n' + "c,1,x\n" * 3000, 5),
        ('image,cat,note\na,1,"dark\nb,1,"light"\nc,1,x\n', 2),
        ('image,cat,note\na,1,x\nb,1,"dark\nc,1,light"\nd,1,x\n', 3),
        ('image,note,cat\na,"dark\nb,"light",1\nc,,1\n', 2),
        ('image,note,cat\na,"dark,1\nb,light,1\nc,"",1\n', 2),
        ('image,note\na,1\nb,"1\nc,1\nd,1"\n', 3),
        ('image,cat,note\na,1,x\nb,"1","', 3),
        ('image,cat,note\na,1,6" pipe\nb,1,""\n"\n', 4),
    ],
)
def test_a_forgotten_quote_never_swallows_rows(file, text, line):
    path = file(text)
    for options in ({}, {"ignore": "note"}) if "cat" in text else ({"tags_column": "note", "tag_separator": ";"},):
        error = refuse(path, **options)
        assert at(error, path)[0].startswith(f"{line} a row over")
        assert "quote that is not closed" in error.offenders[0]


def test_quoted_cells_over_several_lines_are_read(file):
    text = 'image,cat,note\n"a\nb.png",1,"dark, wet\nat night, with ""rain"""\nc.png,-1,"x"\n\n'
    text += 'd.png,,"one\r\ntwo\r\n\r\nthree"\n'
    text += 'g.png,1,6" pipe\n"5" h.png,-1,\n'
    text += 'e.png,1,"one\ntwo, three, four"\nf.png,1,"1\na,1,b"\n'
    for encoding in ("utf-8", "utf-16"):
        table, _ = formats.read("csv", file(text, encoding), ignore="note")
        assert rows(table) == {
            "a\nb.png": [1],
            "c.png": [-1],
            "d.png": [0],
            "g.png": [1],
            "5 h.png": [-1],
            "e.png": [1],
            "f.png": [1],
        }


def test_headers_of_many_classes(file):
    names = [f"a class with quite a long name {n}" for n in range(7000)]
    table, _ = formats.read("csv", file(",".join(["image", *names]) + "\na" + ",1,-1" * 3500 + "\n"))
    assert len(",".join(names)) > 131_072
    assert table.classes == tuple(names)
    assert table.dense()[0, :4].tolist() == [1, -1, 1, -1]


@pytest.mark.parametrize(
    "name", ["Photo", "PICTURE", "Filename", "File name", "Image-Name", "URL", "Foto", " image url"]
)
def test_the_column_of_images_is_found_by_its_name(file, name):
    table, _ = formats.read("csv", file(f"cat,{name},dog\n1,a.jpg,-1\n"))
    assert rows(table) == {"a.jpg": [1, -1]}
    assert table.classes == ("cat", "dog")


def test_a_usual_name_goes_before_one_that_may_be_a_class(file):
    table, _ = formats.read("csv", file("file,photo,drawing\na.jpg,1,-1\n"))
    assert table.classes == ("photo", "drawing")
    assert "2 columns in the header for the image" in str(refuse(file("photo,url,cat\na.jpg,b.jpg,1\n")))
