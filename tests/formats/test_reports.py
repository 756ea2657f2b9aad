"""Whatever the format, the report says how it was read, what the values mean, and which class names look alike."""

from __future__ import annotations

import pytest

from partlabel import LabelTable, formats
from tests.formats.test_fuzz import NAMES, WRITTEN, prepared

#: format -> files in which one image is Owl and one owl, what is read of them, options
TWINS = {
    "cvat": (
        {
            "a.xml": '<annotations><image name="a"><tag label="Owl"/></image><image name="b"><tag label="owl"/></image>'
            "</annotations>"
        },
        "a.xml",
    ),
    "voc": (
        {f"{n}.xml": f"<annotation><object><name>{n}</name></object></annotation>" for n in ("Owl", "owl")},
        "",
    ),
    "yolo": (
        {
            "data.yaml": "names: [Owl, owl]\ntrain: images\n",
            "images/a.jpg": "",
            "labels/a.txt": "0 1 1 1 1\n",
            "labels/b.txt": "1 1 1 1 1\n",
        },
        "",
    ),
    "labelme": (
        {f"{n}.json": f'{{"imagePath": "{n}.jpg", "flags": {{"{n}": true}}, "shapes": []}}' for n in ("Owl", "owl")},
        "",
    ),
    "folders": ({"Owl/a.png": "1", "owl/b.png": "2"}, ""),
    "nuswide": ({"Imagelist.txt": "a\nb\n", "Labels_Owl.txt": "1\n0\n", "Labels_owl.txt": "0\n1\n"}, ""),
    "chexpert": ({"t.csv": "Path,Owl,owl\na,1,0\nb,0,1\n"}, "t.csv"),
    "manifest": (
        {"a.jsonl": "".join(f'{{"image_url": "{n}.jpg", "label": "{n}"}}\n' for n in ("Owl", "owl"))},
        "a.jsonl",
    ),
    "huggingface": (
        {"metadata.jsonl": '{"file_name": "a", "labels": ["Owl"]}\n{"file_name": "b", "labels": ["owl"]}\n'},
        "",
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_each_reading_fills_the_report(name):
    with prepared(name) as (format, _, source, options):
        table, report = formats.read(format, source, **options)
    assert report.format == format
    assert report.layout
    assert report.coding
    assert report.rows
    assert report.not_listed == options.get("not_listed", report.not_listed) != ""
    assert (report.images, report.known) == (table.num_images, table.num_known)
    assert report.without_known.count == (table.image_counts()[0] + table.image_counts()[1] == 0).sum()
    assert "rows" in report.to_dict()


@pytest.mark.parametrize("name", formats.FORMATS)
def test_names_that_look_alike_are_reported_in_each_format(name, tmp_path):
    source, options = tmp_path / "in", dict(WRITTEN.get(name, {}))
    if name in WRITTEN:
        formats.write(name, LabelTable.from_dense(["a", "b"], ["Owl", "owl"], [[1, -1], [-1, 1]]), source)
    else:
        contents, below = TWINS[name]
        for file, text in contents.items():
            (source / file).parent.mkdir(parents=True, exist_ok=True)
            (source / file).write_text(text, encoding="utf-8")
        source = source / below
        options |= {"classes": "Owl,owl"} if name == "chexpert" else {}
    _, report = formats.read(name, source, **options)
    assert report.look_alikes == [["Owl", "owl"]]
    assert "look alike: Owl / owl" in report.text()
