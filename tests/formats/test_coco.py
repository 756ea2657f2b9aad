"""COCO: the real-world cases, and what else a COCO file may hold."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from partlabel import formats
from partlabel.core.errors import UserError
from tests.formats.cases import CASES, case, rows


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("coco", path, **options)
    return caught.value


@pytest.fixture
def file(tmp_path):
    def write(images=None, annotations=(), categories=None, **more):
        images = [{"id": 1, "file_name": "a.png"}] if images is None else images
        categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}] if categories is None else categories
        path = tmp_path / "coco.json"
        path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories, **more}))
        return path

    return write


def test_coco_01_ids_with_gaps():
    folder, expected = case("COCO-01")
    for kind, not_listed in (("exhaustive", None), ("exhaustive", "absent"), ("not_exhaustive", "unknown")):
        table, report = formats.read("coco", folder / "instances.json", not_listed=not_listed)
        assert list(table.classes) == expected["classes"]
        assert table.class_ids == tuple(map(str, expected["category_ids"]))
        assert rows(table) == expected[kind]
        assert report.not_listed == not_listed or not_listed is None
        assert ("default" in report.text()) == (not_listed is None)
    assert report.repeats == 1


def test_coco_02_images_without_annotation_are_kept():
    folder, expected = case("COCO-02")
    for kind, not_listed in (("exhaustive", "absent"), ("not_exhaustive", "unknown")):
        table, report = formats.read("coco", folder / "instances.json", not_listed=not_listed)
        assert rows(table) == expected[kind]
        assert report.without_annotations is not None
        assert report.without_annotations.count == expected["without_annotations"]
        assert f"not listed     {not_listed}" in report.text()


def test_coco_03_a_crowd_is_never_absent():
    folder, expected = case("COCO-03")
    for kind, crowd in (("default", None), ("crowd_as_unknown", "unknown")):
        table, _ = formats.read("coco", folder / "instances.json", crowd=crowd)
        assert rows(table) == expected[kind] != expected["forbidden"]


def test_coco_05_ids_and_references():
    folder, expected = case("COCO-05")
    table, report = formats.read("coco", folder / "ids.json")
    assert list(table.classes) == expected["classes"]
    assert rows(table) == expected["ids.json"]
    assert any("whole numbers" in note for note in report.notes)
    assert refuse(folder / "bad_ref.json").offenders == expected["bad_ref.json"]["errors"]
    assert "no categories block" in refuse(folder / "no_categories.json").message
    for classes in ("1=person,3=car,90=toothbrush", {1: "person", 3: "car", 90: "toothbrush"}):
        table, report = formats.read("coco", folder / "no_categories.json", classes=classes)
        assert rows(table) == {"a.png": [1, -1, -1]}
        assert table.class_ids == ("1", "3", "90")
        assert not any("whole numbers" in note for note in report.notes)


def test_a_file_without_annotations_is_refused_until_somebody_says_what_it_means(file):
    path = file()
    assert "2 categories, 1 images, 0 annotations: image tags are not part of this format" in refuse(path).message
    table, report = formats.read("coco", path, not_listed="absent")
    assert rows(table) == {"a.png": [-1, -1]}
    assert "0 annotations" in report.warnings[0]


def test_crowd_and_single_object_of_one_class_is_present(file):
    annotations = [{"image_id": 1, "category_id": 1, "iscrowd": crowd} for crowd in (1, 0, 1)]
    table, _ = formats.read("coco", file(annotations=annotations), crowd="unknown")
    assert rows(table) == {"a.png": [1, -1]}


def test_negative_categories_make_the_rest_unknown(file):
    images = [{"id": 1, "file_name": "a.png", "neg_category_ids": [2]}, {"id": 2, "file_name": "b.png"}]
    categories = [{"id": n, "name": name} for n, name in ((1, "cat"), (2, "dog"), (3, "car"))]
    path = file(images, [{"image_id": 1, "category_id": 1}], categories)
    table, report = formats.read("coco", path)
    assert rows(table) == {"a.png": [1, -1, 0], "b.png": [0, 0, 0]}
    assert report.not_listed == "unknown"


def test_an_annotation_of_a_negative_category_is_a_contradiction(file):
    images = [{"id": 7, "file_name": "a.png", "neg_category_ids": [1]}]
    path = file(images, [{"id": 5, "image_id": 7, "category_id": 1}])
    assert refuse(path).offenders == ["a.png, cat: annotation 5 present / neg_category_ids of image 7 absent"]
    table, _ = formats.read("coco", path, conflicts="unknown")
    assert rows(table) == {"a.png": [0, 0]}


def test_text_ids_that_are_no_numbers(file):
    path = file([{"id": "x1", "file_name": "a.png"}], [{"image_id": "x1", "category_id": "1"}])
    assert rows(formats.read("coco", path)[0]) == {"a.png": [1, -1]}
    assert refuse(file(annotations=[{"image_id": "01", "category_id": 1}])).offenders == [
        "annotation entry 1: image 01"
    ]


def test_two_images_of_one_file_are_refused_by_name_and_ids(file):
    images = [{"id": 10, "file_name": "a.png"}, {"id": 20, "file_name": "a.png"}, {"id": 5, "file_name": "b.png"}]
    annotations = [{"image_id": n, "category_id": c} for n, c in ((10, 1), (20, 2), (5, 2))]
    error = refuse(file(images, annotations))
    assert "1 file name of more than one image" in error.message
    assert error.offenders == ["a.png: image ids 10, 20"]


def test_twin_categories_are_told_apart_by_their_id(file):
    twins = [{"id": 1, "name": "crane"}, {"id": 2, "name": "crane "}, {"id": 3, "name": "dog"}]
    path = file(annotations=[{"image_id": 1, "category_id": 2}], categories=twins)
    error = refuse(path)
    assert "tell them apart by id, as in rename=ID=NAME" in error.message
    assert error.offenders == ["crane : ids 1 and 2"]
    table, report = formats.read("coco", path, rename="2=crane (bird),dog=hound")
    assert (table.classes, table.class_ids) == (("crane", "crane (bird)", "hound"), ("1", "2", "3"))
    assert rows(table) == {"a.png": [-1, 1, -1]}
    assert not any("do not occur" in warning for warning in report.warnings)
    merged, _ = formats.read("coco", path, rename={"1": "lift", "2": "lift"})
    assert (merged.classes, rows(merged)) == (("lift", "dog"), {"a.png": [1, -1]})


def test_a_name_that_is_a_number_is_renamed_as_a_name(file):
    path = file(
        annotations=[{"image_id": 1, "category_id": 1}], categories=[{"id": 1, "name": "7"}, {"id": 7, "name": "x"}]
    )
    assert formats.read("coco", path, rename="7=seven")[0].classes == ("seven", "x")


def test_nan_and_infinity_that_python_writes_are_read(file):
    annotations = [{"image_id": 1, "category_id": 1, "bbox": [0, float("nan"), float("-inf"), 1], "note": "NaN \\"}]
    path = file(annotations=annotations)
    assert "NaN, -Infinity" in path.read_text()
    assert rows(formats.read("coco", path)[0]) == {"a.png": [1, -1]}


def test_lvis_01_names_come_from_the_address():
    folder = CASES / "LVIS-01"
    table, report = formats.read("coco", folder / "lvis_v1_train.json", images=folder / "images")
    assert table.classes == ("kettle", "dustpan", "ladle")
    assert rows(table) == {
        "train2017/000000000011.jpg": [1, 0, -1],
        "val2017/000000000012.jpg": [-1, -1, 1],
        "train2017/000000000013.jpg": [0, 0, 0],
    }
    assert report.not_listed == "unknown"
    assert "3 image names taken from coco_url (folder/name)" in report.notes


def test_images_without_any_name_are_all_listed(file):
    path = file([{"id": 3}, {"id": 4, "file_name": "a.png"}, {"id": 5}], [])
    error = refuse(path, not_listed="absent")
    assert "2 images without a file_name" in error.message
    assert error.offenders == ["image 3: neither file_name nor coco_url", "image 5: neither file_name nor coco_url"]


def test_repeated_ids_and_names_are_refused(file):
    twice = [{"id": 1, "file_name": "a.png"}, {"id": "1", "file_name": "b.png"}]
    assert refuse(file(twice), not_listed="absent").offenders == ["image id 1: entries 1 and 2"]
    named = [{"id": 1, "name": "cat"}, {"id": 2, "name": "cat"}]
    assert refuse(file(annotations=[{"image_id": 1, "category_id": 1}], categories=named)).offenders == [
        "cat: ids 1 and 2"
    ]


def test_choosing_and_renaming_classes(file):
    path = file(annotations=[{"image_id": 1, "category_id": 1}, {"image_id": 1, "category_id": 2}])
    table, report = formats.read("coco", path, classes="dog,bird")
    assert (table.classes, rows(table)) == (("dog", "bird"), {"a.png": [1, -1]})
    assert report.dropped["labels of 1 classes that are not in the class list"].count == 1
    assert any("bird" in warning for warning in report.warnings)
    table, _ = formats.read("coco", path, rename="dog=pet,cat=pet")
    assert (table.classes, table.class_ids, rows(table)) == (("pet",), ("1",), {"a.png": [1]})


@pytest.mark.parametrize(
    ("content", "message", "place"),
    [
        ('{"images": [],\n "annotations": [}', "not valid JSON", ":2 "),
        ('{"images": [{"id": 1}], "categories": [{"id": 1, "name": "a"}], "annotations": [{}]}', "image_id", ""),
        ("[]", "not a COCO file", ""),
        ("", "not valid JSON", ":1 "),
    ],
)
def test_broken_files(tmp_path, content, message, place):
    path = tmp_path / "broken.json"
    path.write_text(content)
    error = refuse(path)
    assert message in error.message
    assert not place or place in error.offenders[0]
    assert "cannot be read" in refuse(tmp_path / "none.json").message


def test_a_byte_order_mark_is_no_mistake(file, tmp_path):
    path = file(annotations=[{"image_id": 1, "category_id": 1}])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert rows(formats.read("coco", path)[0]) == {"a.png": [1, -1]}


@pytest.mark.shared_data
def test_coco_mini_gives_the_labels_of_its_csv(shared):
    folder = shared / "data" / "coco-mini"
    coco, _ = formats.read("coco", folder / "annotations" / "instances_test.json")
    table, report = formats.read("csv", folder / "labels.csv")
    assert report.known_proportion == 1
    assert coco.classes == table.classes
    np.testing.assert_array_equal(coco.dense(), table.dense(table.image_index(coco.images)))


def test_annotations_with_a_score_are_a_models(tmp_path):
    """0.75 is log 3 before the sigmoid; the surest of several stays, and a person's annotation stays before them."""
    annotations = [(1, 1, 0.5), (1, 1, 0.75), (1, 2, 0.75), (1, 2, None), (2, 2, 1.0)]
    content = {
        "images": [{"id": 1, "file_name": "a"}, {"id": 2, "file_name": "b"}],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [
            {"image_id": image, "category_id": category} | ({} if score is None else {"score": score})
            for image, category, score in annotations
        ],
    }
    path = tmp_path / "coco.json"
    path.write_text(json.dumps(content))
    table, report = formats.read("coco", path, not_listed="unknown")
    assert (rows(table), table.origin.tolist()) == ({"a": [1, 1], "b": [0, 1]}, [1, 0, 0])
    assert table.score[0] == pytest.approx(math.log(3))
    assert "3 annotations with a score, kept as labels of a model" in report.notes
