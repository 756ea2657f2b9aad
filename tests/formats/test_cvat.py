"""CVAT for images: the real-world case, and what else an export may hold."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from tests.formats.cases import CASES, case, rows
from tests.formats.test_writing import tables

LABELS = "<label><name>wet</name></label><label><name>dark</name></label>"


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("cvat", path, **options)
    return caught.value


@pytest.fixture
def file(tmp_path):
    def write(images, labels=LABELS, owner="task"):
        path = tmp_path / "annotations.xml"
        meta = f"<meta><{owner}><labels>{labels}</labels></{owner}></meta>"
        path.write_text(f"<annotations>\n<version>1.1</version>\n{meta}\n{images}\n</annotations>", encoding="utf-8")
        return path

    return write


def test_cvat_01_tags():
    folder, expected = case("CVAT-01")
    for kind, not_listed in (("open_list", None), ("open_list", "unknown"), ("complete_list", "absent")):
        table, report = formats.read("cvat", folder / "annotations.xml", not_listed=not_listed)
        assert list(table.classes) == expected["classes"]
        assert rows(table) == expected[kind]
        assert f"not listed     {not_listed or 'unknown'}" in report.text()
    assert report.without_annotations.examples == ["day1/c.png"]


def test_cvat_01_the_coco_export_has_lost_the_tags():
    folder, _ = case("CVAT-01")
    with pytest.raises(
        UserError, match="2 categories, 3 images, 0 annotations: image tags are not part of this format"
    ):
        formats.read("coco", folder / "instances_default.json")
    _, report = formats.read("coco", folder / "instances_default.json", not_listed="absent")
    assert "tags are not part" in report.warnings[0]


def test_zip_and_folder_read_the_same(tmp_path):
    folder, expected = case("CVAT-01")
    for inside in ("annotations.xml", "task 1/annotations.xml"):
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(folder / "annotations.xml", inside)
            archive.writestr("images/a.png", b"")
        assert rows(formats.read("cvat", path)[0]) == expected["open_list"]
    assert rows(formats.read("cvat", folder)[0]) == expected["open_list"]
    path.write_bytes(path.read_bytes()[:-30])
    assert "damaged" in refuse(path).message
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.xml", "")
    assert "0 files annotations.xml" in refuse(path).message
    shutil.rmtree(tmp_path)
    assert "No such file" in refuse(path).message


def test_classes_that_are_never_used_are_kept_and_parts_of_skeletons_are_not(file):
    labels = (
        "<label><name> wet\n</name><type>tag</type><attributes><attribute><name>how</name></attribute></attributes>"
        "</label><label><name>nose</name><parent>person</parent></label><label><name>person</name></label>"
    )
    images = '<image name="a"><skeleton label="person"><points label="nose"/></skeleton></image>'
    for owner in ("task", "job", "project"):
        table, _ = formats.read("cvat", file(images, labels, owner), not_listed="absent")
        assert (table.classes, rows(table)) == (("wet", "person"), {"a": [-1, 1]})


def test_shapes_are_present_or_not_read_but_never_absent(file):
    images = (
        '<image name="a"><box label="wet" xtl="1"><attribute name="k">v</attribute></box><polygon label="wet"/></image>'
        '<image name="b"><tag label="wet"/><mask label="wet"/></image>'
    )
    table, report = formats.read("cvat", file(images), not_listed="absent")
    assert rows(table) == {"a": [1, -1], "b": [1, -1]}
    assert "labels by kind: tag 1, box 1, mask 1, polygon 1" in report.notes
    assert "1 attribute of tags and shapes are not read" in report.notes
    table, _ = formats.read("cvat", file(images), not_listed="absent", shapes="unknown")
    assert rows(table) == {"a": [0, -1], "b": [1, -1]}


def test_classes_outside_the_labels_block(file):
    path = file('<image name="a"><tag label="new"/><tag label="wet"/></image>')
    table, report = formats.read("cvat", path)
    assert (table.classes, rows(table)) == (("wet", "dark", "new"), {"a": [1, 0, 1]})
    assert "labels that the labels block does not list: new" in report.warnings
    table, report = formats.read("cvat", path, classes="dark,wet")
    assert (table.classes, rows(table)) == (("dark", "wet"), {"a": [0, 1]})
    assert report.dropped["labels of 1 classes that are not in the class list"].examples == ["new"]
    assert formats.read("cvat", path, rename="new=wet")[0].classes == ("wet", "dark")
    table, report = formats.read("cvat", file('<image name="a"><tag label="z"/><tag label="b"/></image>', labels=""))
    assert table.classes == ("b", "z")


def test_images_and_labels_without_a_name_are_all_listed(file):
    path = file('<image name=" "/>\n<image name="a"><tag/>\n<box label=""/></image>')
    assert refuse(path).offenders == [
        f"{path}:4 <image> without a name",
        f"{path}:5 <tag> without a label",
        f"{path}:6 <box> without a label",
    ]


def test_one_name_for_images_of_two_tasks_is_refused(file):
    images = '<image name="a" task_id="1"><tag label="wet"/></image>\n<image name="a" task_id="{}" subset="Train"/>'
    assert refuse(file(images.format(2))).offenders == ["a: line 4 task 1 and line 5 task 2 subset Train"]
    table, report = formats.read("cvat", file(images.format(1).replace(' subset="Train"', "")))
    assert rows(table) == {"a": [1, 0]}
    assert any("1 image element with the name of an earlier one" in note for note in report.notes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid XML"),
        (b"{}", "not valid XML"),
        (b"<annotations><image name='a'><tag label='", "not valid XML"),
        (b"<annotation/>", "looks like Pascal VOC"),
        (b"<html/>", "not a file of CVAT"),
        (b"<annotations><track id='0' label='x'/></annotations>", "CVAT for video"),
        (b"<?xml version='1.0' encoding='klingon'?><annotations/>", "encoding"),
        (b"<?xml version='1.0' encoding='shift-jis'?><annotations>\x80\xff</annotations>", "encoding"),
        (b"<annotations><image name='\xe9'/></annotations>", "not valid XML"),
        (b"<!DOCTYPE a [<!ENTITY x 'y'>]><annotations>&x;</annotations>", "entity"),
        (b"<a>" * 200_000, "not a file of CVAT"),
        (b"PK\x03\x04 and so on", "archive"),
    ],
)
def test_files_that_are_no_exports(tmp_path, content, message):
    path = tmp_path / "a.xml"
    path.write_bytes(content)
    error = refuse(path)
    assert message in error.message
    assert str(path) in error.message


def test_encodings_that_python_knows_are_read(tmp_path):
    path = tmp_path / "a.xml"
    for codec in ("utf-8-sig", "utf-16", "iso-8859-1", "cp437", "utf-7", "mac-roman", "gb18030"):
        head = "" if codec.startswith("utf-8") or codec == "utf-16" else f'<?xml version="1.0" encoding="{codec}"?>'
        path.write_bytes(f'{head}<annotations><image name="é.png"><tag label="ü"/></image></annotations>'.encode(codec))
        table, _ = formats.read("cvat", path)
        assert (rows(table), table.classes) == ({"é.png": [1]}, ("ü",))
    text = '<?xml version="1.0" encoding="shift-jis"?><annotations><image name="日.png"><tag label="本"/></image>'
    path.write_bytes((text + "</annotations>").encode("shift-jis"))
    assert rows(formats.read("cvat", path)[0]) == {"日.png": [1]}


def test_nesting_without_end_is_refused(tmp_path):
    path = tmp_path / "a.xml"
    path.write_text("<annotations>" + "<x>" * 100_000 + "</x>" * 100_000 + "</annotations>")
    assert "inside each other without end" in refuse(path).message


def test_attr_01_checkboxes_are_classes_by_option():
    folder = CASES / "ATTR-01"
    table, report = formats.read("cvat", folder / "cvat_attributes.xml", attributes="classes")
    assert table.classes == ("wet", "lit")
    assert rows(table) == {"a.jpg": [1, -1], "b.jpg": [-1, 1], "c.jpg": [0, 0]}
    table, report = formats.read("cvat", folder / "cvat_attributes.xml")
    assert rows(table) == {"a.jpg": [1], "b.jpg": [1], "c.jpg": [0]}
    assert "checkboxes can be read as classes: attributes=classes" in report.notes
    assert "4 attributes of tags and shapes are not read" in report.notes


def test_a_checkbox_is_absent_where_no_object_of_the_image_has_it_ticked(file):
    def box(kind, **values):
        inside = "".join(f'<attribute name="{name}">{value}</attribute>' for name, value in values.items())
        return f'<{kind} label="car">{inside}</{kind}>'

    attributes = "".join(
        f"<attribute><name>{name}</name><input_type>{kind}</input_type></attribute>"
        for name, kind in (("lost", "checkbox"), ("wet", "checkbox"), ("true", "select"), ("unused", "checkbox"))
    )
    labels = f"<label><name>car</name><attributes>{attributes}</attributes></label>"
    images = (
        f'<image name="a">{box("box", wet="false", lost="true", true="true")}'
        f"{box('box', wet='true', lost='true')}</image>"
        f'<image name="b">{box("tag", wet="False")}{box("box", wet="false", lost="red")}</image>'
    )
    path = file(images, labels)
    table, report = formats.read("cvat", path, attributes="classes")
    assert table.classes == ("lost", "wet", "unused")
    assert rows(table) == {"a": [1, 1, 0], "b": [0, -1, 0]}
    assert "2 attributes of tags and shapes are not read" in report.notes
    assert report.conflicts == []
    table, _ = formats.read("cvat", path, attributes="classes", shapes="unknown")
    assert rows(table) == {"a": [0, 0, 0], "b": [0, -1, 0]}
    assert formats.read("cvat", file(images, ""), attributes="classes")[0].classes == ("lost", "true", "wet")


def as_xml(table, draw) -> str:
    """Write the present labels as CVAT would, with one of the things that exports differ in."""
    quirk = draw(st.sampled_from(["", " ", "\n  "]))
    labels = "".join(f"<label>{quirk}<name>{escape(name)}</name></label>" for name in table.classes)
    kinds = st.sampled_from(["tag", "box", "mask", "cuboid"])
    images = []
    for name, labelled in zip(table.images.to_pylist(), table.dense().tolist(), strict=True):
        own = [
            f"<{kind} source='manual' label={quoteattr(table.classes[c])}>{quirk}</{kind}>"
            for c, value in enumerate(labelled)
            for kind in draw(st.lists(kinds, min_size=1, max_size=2) if value > 0 else st.just([]))
        ]
        images.append(f"<image id='7' name={quoteattr(name)}>{quirk.join(draw(st.permutations(own)))}</image>")
    meta = f"<meta><task><labels>{labels}</labels></task></meta>"
    return f"<annotations>{meta}{quirk.join(images)}</annotations>"


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_round_trip(data):
    table = data.draw(tables())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.xml"
        path.write_text(as_xml(table, data.draw), encoding="utf-8")
        again, _ = formats.read("cvat", path)
        complete, _ = formats.read("cvat", path, not_listed="absent")
    assert again.images.to_pylist() == table.images.to_pylist()
    assert again.classes == table.classes
    np.testing.assert_array_equal(again.dense(), table.dense() > 0)
    np.testing.assert_array_equal(complete.dense() > 0, table.dense() > 0)
    assert complete.num_known == complete.num_images * complete.num_classes


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_files_are_refused_or_read(data):
    content = bytearray((case("CVAT-01")[0] / "annotations.xml").read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    for _ in range(data.draw(st.integers(0, 3)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "annotations.xml"
        path.write_bytes(content)
        try:
            outcome = str(formats.read("cvat", path)[1].source)
        except UserError as error:
            outcome = str(error)
    assert str(path) in outcome


def test_what_automatic_annotation_found_is_a_models(tmp_path):
    """A person's tag stays before that of a model; an image that only a model looked at has no word of a person."""
    path = tmp_path / "a.xml"
    path.write_text(
        '<annotations><image name="a"><tag label="cat" source="auto"/><tag label="dog" source="manual"/>'
        '<box label="cat" source="manual" xtl="0" ytl="0" xbr="1" ybr="1"/></image>'
        '<image name="b"><tag label="cat" source="auto"/></image><image name="c"/></annotations>'
    )
    table, report = formats.read("cvat", path)
    assert (rows(table), table.origin.tolist()) == ({"a": [1, 1], "b": [1, 0], "c": [0, 0]}, [0, 0, 1])
    assert "2 labels of automatic annotation, kept as labels of a model" in report.notes
    table, _ = formats.read("cvat", path, not_listed="absent")
    assert (rows(table)["b"], table.origin.tolist()) == ([1, -1], [0, 0, 1, 1, 0, 0])
