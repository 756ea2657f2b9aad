"""Pascal VOC: the real-world cases, both layouts, quirks and damage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from partlabel import formats
from partlabel.formats.voc import tree
from partlabel.images.locate import locate
from tests.formats.cases import case, rows
from tests.formats.voc_made import refuse, thing


@pytest.fixture
def root(tmp_path):
    """A VOC folder: ``add(images={id: [objects]}, lists={file name: text})``."""

    def add(images=(), lists=()):
        for name, objects in dict(images).items():
            file = tmp_path / "Annotations" / f"{name}.xml"
            file.parent.mkdir(parents=True, exist_ok=True)
            body = f"<filename>{name.rpartition('/')[2]}.jpg</filename>\n" + "\n".join(objects)
            file.write_text(f"<annotation>{body}</annotation>")
        for name, text in dict(lists).items():
            file = tmp_path / "ImageSets" / "Main" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        return tmp_path

    return add


def test_voc_01_zero_is_difficult_and_unknown():
    folder, expected = case("VOC-01")
    for path in (folder, folder / "Main"):
        table, report = formats.read("voc", path)
        assert list(table.classes) == expected["classes"]
        assert rows(table) == expected["labels"]
        assert report.cells("uncertain") == expected["difficult_cells"]
        assert expected["report"] in report.warnings


def test_voc_02_optional_tags():
    folder, expected = case("VOC-02")
    for options in ({}, {"classes": folder / "classes.txt"}):
        table, _ = formats.read("voc", folder, **options)
        assert list(table.classes) == expected["classes"]
        assert rows(table) == expected["labels"]


def test_voc_03_names_of_files_and_a_stray_class():
    folder, expected = case("VOC-03")
    options = {"classes": folder / "classes.txt", "images": folder / "images"}
    error = refuse(folder, **options)
    assert error.offenders == [f"{folder}/Annotations/000377.xml:4 dog"]
    assert "other_classes=skip" in error.message

    table, report = formats.read("voc", folder, other_classes="skip", **options)
    assert list(table.classes) == expected["classes"]
    files = locate(table.images.to_pylist(), folder / "images").files
    assert dict(zip(files, table.dense().tolist(), strict=True)) == expected["ignore_undeclared"]
    assert any("have no ending" in note for note in report.notes)
    assert any("upper and lower case" in note for note in report.notes)
    ((reason, tally),) = report.dropped.items()
    assert "not in the class list" in reason
    assert (tally.count, tally.examples) == (1, ["dog"])


def test_voc_05_all_broken_files_are_named():
    folder, expected = case("VOC-05")
    error = refuse(folder)
    assert [Path(line.split(":")[0]).name for line in error.offenders] == expected["bad"]
    assert [line.split("Annotations/")[1] for line in error.offenders] == [
        "cut.xml:3:18 is no XML",
        "noname.xml:4 object without a name",
    ]
    table, report = formats.read("voc", folder, bad_files="skip")
    assert list(table.classes) == expected["skip_bad"]["classes"]
    assert rows(table) == expected["skip_bad"]["labels"]
    assert report.dropped["XML files that cannot be read"].count == 2


def test_difficult_by_option_in_both_layouts(root):
    path = root(
        {"1": [thing("cat", 1)], "2": [thing("cat", 1), thing("cat", 0)], "3": [thing("dog", 0)]},
        {"cat_train.txt": "1  0\n2  1\n3 -1\n", "dog_train.txt": "1 -1\n2 -1\n3  1\n", "train.txt": "1\n2\n3\n"},
    )
    for word, value in (("unknown", 0), ("present", 1), ("absent", -1)):
        for layout in ("xml", "lists"):
            table, _ = formats.read("voc", path, layout=layout, difficult=word)
            assert table.dense().tolist() == [[value, -1], [1, -1], [-1, 1]]


def test_a_class_renamed_into_another_does_not_contradict_it(root):
    path = root({"1": [thing("kitty", 1), thing("cat", 0)], "2": [thing("dog")]})
    table, _ = formats.read("voc", path, rename="kitty=cat", difficult="absent")
    assert rows(table) == {"1.jpg": [1, -1], "2.jpg": [-1, 1]}


def test_not_listed(root):
    path = root({"1": [thing("cat")], "2": []}, {"cat_val.txt": "1 1\n", "dog_val.txt": "2 -1\n"})
    table, report = formats.read("voc", path)
    assert rows(table) == {"1.jpg": [1], "2.jpg": [-1]}
    assert report.without_annotations.examples == ["2.jpg"]
    assert rows(formats.read("voc", path, not_listed="unknown")[0]) == {"1.jpg": [1], "2.jpg": [0]}
    assert rows(formats.read("voc", path, layout="lists")[0]) == {"1": [1, 0], "2": [0, -1]}
    table, _ = formats.read("voc", path, layout="lists", not_listed="absent")
    assert rows(table) == {"1": [1, -1], "2": [-1, -1]}


def test_an_image_set_chooses_the_files(root):
    lists = {"train.txt": "2\r\n\r\n1 \r\n", "val.txt": "3\n", "broken.txt": "1\n9\n"}
    path = root({name: [thing("cat" if name < "3" else "dog")] for name in "1234"}, lists)
    assert rows(formats.read("voc", path, set="train")[0]) == {"2.jpg": [1], "1.jpg": [1]}
    assert formats.read("voc", path)[0].num_images == 4
    assert formats.read("voc", path / "Annotations", set="train")[0].num_images == 2
    assert refuse(path, set="test").offenders == ["broken", "train", "val"]
    assert refuse(path, set="broken").offenders == [
        f"{path}/Annotations/9.xml cannot be read (No such file or directory)"
    ]
    assert rows(formats.read("voc", path, set="broken", bad_files="skip")[0]) == {"1.jpg": [1]}


def test_a_set_needs_its_list(tmp_path):
    (tmp_path / "a.xml").write_text(f"<annotation>{thing('cat')}</annotation>")
    assert "no folder ImageSets/Main" in refuse(tmp_path, set="train").message


def test_the_set_of_class_lists(root):
    lists = {
        f"{name}_{part}.txt": f"{number}  1\n"
        for name in ("train", "traffic_light")
        for number, part in enumerate(("train", "trainval"))
    }
    path = root((), {**lists, "train.txt": "0\n5\n", "trainval.txt": "1\n"})
    table, report = formats.read("voc", path, set="train")
    assert rows(table) == {"0": [1, 1], "5": [0, 0]}
    assert table.classes == ("traffic_light", "train")
    assert report.warnings[:2] == ["5 not listed in traffic_light_train.txt", "5 not listed in train_train.txt"]
    assert rows(formats.read("voc", path, set="trainval")[0]) == {"1": [1, 1]}
    assert refuse(path).offenders == ["train", "trainval"]
    assert refuse(path, set="val").offenders == ["train", "trainval"]
    assert "no class lists" in refuse(root((), {"part_2_a.txt": "1 1"}), set="b").message


def test_a_set_with_underscores(root):
    path = root((), {"train_2.txt": "a\n", "cat_train_2.txt": "a 1\nb -1\n"})
    table, report = formats.read("voc", path, set="train_2")
    assert rows(table) == {"a": [1], "b": [-1]}
    assert "images of class lists that are not in train_2.txt: b" in report.warnings


def test_lines_of_class_lists(root):
    path = root((), {"cat_t.txt": '\ufeff"my cat 1"   1 \r\n a/b\t-1\r\n\r\nc  +1\r\n\r\n'})
    assert rows(formats.read("voc", path)[0]) == {"my cat 1": [1], "a/b": [-1], "c": [1]}
    path = root((), {"cat_t.txt": "a 1\nb\nc 2\n", "dog_t.txt": "1\n", "owl_t.txt": ""})
    lists = path / "ImageSets" / "Main"
    assert refuse(path).offenders == [
        f"{lists}/cat_t.txt:2 b",
        f"{lists}/cat_t.txt:3 c 2",
        f"{lists}/dog_t.txt:1 1",
        f"{lists}/owl_t.txt: the file is empty",
    ]


def test_an_image_twice_in_a_list(root):
    path = root((), {"cat_t.txt": "a 1\na 1\nb 1\nb -1\n"})
    (offender,) = refuse(path).offenders
    file = f"{path}/ImageSets/Main/cat_t.txt"
    assert offender == f"b, cat: {file}:3 present / {file}:4 absent"
    assert rows(formats.read("voc", path, conflicts="unknown")[0]) == {"a": [1], "b": [0]}


def test_class_lists_of_other_classes(root):
    path = root((), {"cat_t.txt": "a 1\n", "dog_t.txt": "a 1\n", "bird_t.txt": "a -1\n"})
    assert [Path(line).name for line in refuse(path, classes="dog,cat").offenders] == ["bird_t.txt"]
    table, report = formats.read("voc", path, classes="dog,cat", other_classes="skip", rename="cat=tiger")
    assert table.classes == ("dog", "cat")
    assert rows(table) == {"a": [1, 0]}
    assert report.dropped["lists of classes that are not in the class list"].examples == ["bird", "cat"]


def test_parts_and_owners_are_no_objects(root):
    more = "<part><name>head</name><difficult>1</difficult></part>"
    path = root({"1": [thing("person", 0, more), "<owner><name>Joe</name></owner>"]})
    table, _ = formats.read("voc", path)
    assert (table.classes, rows(table)) == (("person",), {"1.jpg": [1]})


@pytest.mark.parametrize(
    "text",
    [
        "<Annotation><Filename>x.jpg</Filename><OBJECT><Name> cat </Name></OBJECT></Annotation>",
        '<?xml version="1.0" encoding="ISO-8859-1"?><!DOCTYPE annotation>'
        "<annotation><filename>x.jpg</filename><object><name>cat</name><difficult>no</difficult></object></annotation>",
    ],
)
def test_tags_in_any_case_and_a_doctype(tmp_path, text):
    (tmp_path / "x.XML").write_text(text)
    assert rows(formats.read("voc", tmp_path)[0]) == {"x.jpg": [1]}


def test_encodings_of_xml(tmp_path):
    for name, encoding in (
        ("a", "utf-8"),
        ("b", "utf-16"),
        ("c", "iso-8859-1"),
        ("d", "utf-8-sig"),
        ("e", "cp437"),
        ("f", "mac-roman"),
        ("g", "gb18030"),
        ("h", "utf-7"),
    ):
        declared = encoding.removesuffix("-sig")
        text = f'<?xml version="1.0" encoding="{declared}"?><annotation>{thing("café")}</annotation>'
        (tmp_path / f"{name}.xml").write_bytes(text.encode(encoding))
    table, report = formats.read("voc", tmp_path)
    assert table.classes == ("café",)
    assert rows(table) == {name: [1] for name in "abcdefgh"}
    assert "their own name was taken: a.xml, b.xml, c.xml, d.xml, e.xml" in " ".join(report.notes)
    for name in ("x-none", "rot13", "hex", "zip"):
        (tmp_path / "x.xml").write_bytes(f'<?xml version="1.0" encoding="{name}"?><annotation/>'.encode())
        assert refuse(tmp_path).offenders == [f"{tmp_path}/x.xml:1 unknown encoding: {name}"]
    (tmp_path / "x.xml").write_bytes(b'<?xml version="1.0" encoding="shift-jis"?><annotation>\x80\xff</annotation>')
    assert "its encoding cannot be read" in refuse(tmp_path).offenders[0]


BOMB = "<!DOCTYPE annotation [" + "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9)) + "]>"


@pytest.mark.parametrize(
    "start",
    [
        BOMB,
        '<!DOCTYPE annotation [<!ENTITY a9 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE annotation [<!ENTITY % a9 SYSTEM "file:///etc/passwd"> %a9;]>',
        '<!DOCTYPE annotation SYSTEM "file:///etc/passwd">',
    ],
)
def test_entities_are_refused(tmp_path, start):
    (tmp_path / "a.xml").write_text(f"{start}\n<annotation><object><name>&a9;</name></object></annotation>")
    (offender,) = refuse(tmp_path).offenders
    assert offender.startswith(f"{tmp_path}/a.xml:")
    assert "entit" in offender


def test_a_deep_file_takes_no_time(tmp_path):
    (tmp_path / "a.xml").write_text("<annotation>" + "<a>" * 200_000)
    (offender,) = refuse(tmp_path).offenders
    assert "inside each other without end" in offender


def test_all_mistakes_of_a_folder_are_in_one_error(root):
    path = root(
        {"a": [thing("cat", "maybe")], "b": [thing("dog")], "c": [thing("cat"), "<object/>", thing("")], "sub/b": []}
    )
    (path / "Annotations" / "d.xml").write_text("<html><body/></html>")
    (path / "Annotations" / "e.xml").write_text("<annotation><filename>b.jpg</filename></annotation>")
    (path / "Annotations" / "f.xml").write_text("")
    error = refuse(path, classes="cat")
    here = f"{path}/Annotations"
    assert error.offenders == [
        f"{here}/a.xml:2 difficult is 0 or 1, not maybe",
        f"{here}/c.xml:3 object without a name",
        f"{here}/c.xml:4 object without a name",
        f"{here}/d.xml:1 the root is <html>, not <annotation>",
        f"{here}/f.xml:1:1 is empty",
        f"b.jpg: {here}/b.xml, {here}/e.xml",
        f"{here}/b.xml:2 dog",
    ]
    assert "4 XML files cannot be read" in error.message


def test_subfolders_and_hidden_files(root):
    path = root({"a": [thing("cat")], "x/a": [thing("dog")], "x/._a": ["<"]})
    (path / "Annotations" / "x" / "b.xml").write_text("<annotation><filename>y/b.jpg</filename></annotation>")
    table, _ = formats.read("voc", path)
    assert rows(table) == {"a.jpg": [1, -1], "x/a.jpg": [-1, 1], "y/b.jpg": [-1, -1]}
    (path / "Annotations" / "x" / "b.xml").write_text("<annotation><filename>c.jpg</filename></annotation>")
    assert "named otherwise than their image: x/b.xml: c.jpg" in " ".join(formats.read("voc", path)[1].notes)


def test_images_that_were_renamed_with_their_files(root):
    path = root({"a": [thing("cat")], "x/b": [thing("dog")]})
    for name in ("a", "x/b"):
        file = path / "Annotations" / f"{name}.xml"
        file.write_text(re.sub("<filename>.*<", "<filename>x/old.jpg<", file.read_text()))
    error = refuse(path)
    assert error.offenders == [f"x/old.jpg: {path}/Annotations/a.xml, {path}/Annotations/x/b.xml"]
    assert "image_name=file" in error.message
    table, report = formats.read("voc", path, image_name="file")
    assert rows(table) == {"a": [1, -1], "x/b": [-1, 1]}
    assert any("named otherwise than their image" in note for note in report.notes)


def test_no_object_at_all(root):
    path = root({"a": []})
    assert "not one object" in refuse(path).message
    assert "not one object" in refuse(path, not_listed="absent").message
    assert "not one object" in refuse(path, classes="cat").message
    assert rows(formats.read("voc", path, classes="cat", not_listed="absent")[0]) == {"a.jpg": [-1]}


def test_where_the_parts_are(root, tmp_path):
    assert "not a folder" in refuse(tmp_path / "none").message
    assert "no XML files" in refuse(tmp_path).message
    path = root({"a": [thing("cat")]})
    (path / "VOC2007").mkdir()
    for part in ("Annotations",):
        (path / part).rename(path / "VOC2007" / part)
    assert formats.read("voc", path)[0].num_images == 1
    assert formats.read("voc", path / "VOC2007" / "Annotations")[0].num_images == 1
    assert "no folder ImageSets/Main" in refuse(path, layout="lists").message
    (path / "VOC2012" / "ImageSets" / "Main").mkdir(parents=True)
    assert refuse(path).offenders == [f"{path}/VOC2007", f"{path}/VOC2012"]
    assert "no XML files" in refuse(path / "VOC2012", layout="xml").message
    assert "no class lists" in refuse(path / "VOC2012").message
    (path / "VOC2012" / "Annotations").mkdir()
    assert "no XML file can be read" in refuse(path / "VOC2012", layout="xml").message


def test_sets_of_a_folder(tmp_path):
    for name in ("train.txt", "val.txt", "cat_train.txt", "big_cat_val.txt", "dog_test.txt", ".x_y.txt", "notes.md"):
        (tmp_path / name).write_text("a 1")
    assert tree.image_sets(str(tmp_path)) == ["test", "train", "val"]
    assert list(tree.class_lists(str(tmp_path), "val")) == ["big_cat"]
