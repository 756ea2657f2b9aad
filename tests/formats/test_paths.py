"""Tables that name images by another path than the disk has, in every reader that meets them."""

from __future__ import annotations

import pytest

from partlabel import formats
from partlabel.core.errors import UserError
from partlabel.images.locate import locate
from tests.formats.cases import CASES, rows

CASE = CASES / "PATH-01"
TAGS = {"tags_column": "Finding Labels", "tag_separator": "pipe", "image_column": "Image Index"}
LIST = {"layout": "list", "classes": "sky,cow,dog", "coding": "zero-absent"}

#: what is read, its options, the folder of the images, the beginning that the error offers, labels
MOVED = {
    "chexpert": (
        ("chexpert", "chexpert/train.csv", {}, "chexpert/root"),
        "CheXpert-v1.0-small/",
        {"train/patient00001/study1/view1_frontal.jpg": [1, 0], "train/patient00002/study2/view2_lateral.jpg": [-1, 0]},
    ),
    "url": (
        ("csv", "url/labels.csv", {"tag_separator": "pipe"}, "windows/images"),
        "https://img.example/",
        {"yard/a.jpg": [1, 1], "yard/b.jpg": [0, 1]},
    ),
    "hashnet": (
        ("csv", "hashnet/train.txt", LIST, "hashnet/images"),
        "./data/nuswide_81/images/",
        {"1_a_m.jpg": [-1, 1, -1], "2_b_m.jpg": [1, -1, -1]},
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_path_01_the_error_says_which_beginning_to_take_away(name):
    (format, source, options, folder), start, expected = MOVED[name]
    with pytest.raises(UserError) as caught:
        formats.read(format, CASE / source, images=CASE / folder, **options)
    assert f"is there: image_names={start} takes the beginning away" in caught.value.message
    assert len(caught.value.offenders) == 2
    table, _ = formats.read(format, CASE / source, images=CASE / folder, image_names=start, **options)
    assert rows(table) == expected


def test_path_01_the_last_part_of_a_name():
    table, _ = formats.read(
        "csv", CASE / "hashnet/train.txt", images=CASE / "hashnet/images", image_names="file", **LIST
    )
    assert rows(table) == MOVED["hashnet"][2]


def test_path_01_backslashes_are_slashes_where_that_finds_the_file():
    table, report = formats.read("csv", CASE / "windows/labels.csv", images=CASE / "windows/images")
    assert rows(table) == {"yard\\a.jpg": [1, 0], "yard\\b.jpg": [0, 1]}
    assert "2 image names have backslashes between folders" in report.notes
    assert locate(table.images.to_pylist(), CASE / "windows/images").files == ["yard/a.jpg", "yard/b.jpg"]


def test_path_01_files_in_folders_below(tmp_path):
    folder = tmp_path / "nih"
    folder.mkdir()
    for file in sorted((CASE / "nih").glob("images_00*/images/*.png")):
        copy = folder / file.relative_to(CASE / "nih")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    table, report = formats.read("csv", CASE / "nih/Data_Entry_2017_v2020.csv", images=folder, **TAGS)
    assert table.num_images == 4
    assert "4 image names have no folder; one file below fits each" in report.notes
    with pytest.raises(UserError, match="4 images fit more than one file") as caught:
        formats.read("csv", CASE / "nih/Data_Entry_2017_v2020.csv", images=CASE / "nih", **TAGS)
    assert caught.value.offenders[0] == (
        "00000101_000.png: images/00000101_000.png, images_001/images/00000101_000.png"
    )


@pytest.mark.parametrize("name", sorted(set(formats.FORMATS) - {"folders"}))
def test_every_reader_has_the_option(name):
    from partlabel.formats.options import option_fields

    assert "image_names" in [field.name for field in option_fields(formats.FORMATS[name].options)]
