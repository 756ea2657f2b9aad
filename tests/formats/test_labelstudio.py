"""Label Studio: the real-world case, and what else an export may hold."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from partlabel import formats
from partlabel.core.errors import UserError
from tests.formats.cases import case, rows


def read(path, **options):
    return formats.read("labelstudio", path, **options)


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        read(path, **options)
    return caught.value


def choice(*names, control="tag", **value):
    return {"from_name": control, "to_name": "image", "type": "choices", "value": {"choices": list(names), **value}}


def task(number, *annotations, image=None, **more):
    """Make a task; an annotation is a list of results, or a dict."""
    listed = [
        entry if isinstance(entry, dict) else {"id": 10 * number + n, "result": entry, "was_cancelled": False}
        for n, entry in enumerate(annotations)
    ]
    address = image or f"/data/upload/1/0123abcd-{number}.png"
    return {"id": number, "data": {"image": address}, "annotations": listed, **more}


@pytest.fixture
def file(tmp_path):
    def write(content, name="export.json"):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def test_ls_01_one_choice_is_text_and_two_are_an_object():
    folder, expected = case("LS-01")
    for name in ("min.json", "export.csv"):
        for kind, not_listed in (("open_list", None), ("open_list", "unknown"), ("complete_list", "absent")):
            table, report = read(folder / name, not_listed=not_listed)
            assert list(table.classes) == expected["classes"]
            assert table.images.to_pylist() == ["aa-a.png", "bb-b.png", "cc-c.png"]
            assert table.dense().tolist() == list(expected[kind].values())
            assert report.without_annotations.examples == ["cc-c.png"]
            assert f"not listed     {not_listed or 'unknown'}" in report.text()
            assert report.coding == "a choice of tag = present"


def test_ls_01_as_a_full_export_gives_the_same(file):
    folder, expected = case("LS-01")
    records = json.loads((folder / "min.json").read_text(encoding="utf-8"))
    names = [("cat",), ("cat", "hibou é"), None]
    tasks = [
        task(r["id"], *([[choice(*own)]] if own else []), image=r["image"])
        for r, own in zip(records, names, strict=True)
    ]
    for kind, not_listed in (("open_list", "unknown"), ("complete_list", "absent")):
        table, report = read(file(tasks), not_listed=not_listed)
        assert table.dense().tolist() == list(expected[kind].values())
        assert report.layout == "full JSON export"


def test_nobody_looked_is_not_nothing_chosen(file):
    tasks = [task(1, [choice("cat")]), task(2, []), task(3)]
    assert rows(read(file(tasks))[0]) == {"1.png": [1], "2.png": [0], "3.png": [0]}
    assert rows(read(file(tasks), not_listed="absent")[0]) == {"1.png": [1], "2.png": [-1], "3.png": [0]}
    records = [
        {"id": 1, "image": "a", "tag": "cat", "annotation_id": 7},
        {"id": 2, "image": "b", "annotation_id": 8},
        {"id": 3, "image": "c", "annotation_id": None},
    ]
    assert rows(read(file(records), not_listed="absent")[0]) == {"a": [1], "b": [-1], "c": [0]}
    text = 'id,image,tag,annotation_id\n1,a,cat,7\n2,b,"",8\n3,c,,\n'
    assert rows(read(file(text), not_listed="absent")[0]) == {"a": [1], "b": [-1], "c": [0]}


def test_skipped_annotations_say_nothing(file):
    skipped = {"id": 5, "result": [choice("dog")], "was_cancelled": True}
    old = {"id": 1, "data": {"image": "old"}, "completions": [{"result": [choice("cat")], "skipped": True}]}
    table, report = read(file([task(1, [choice("cat")]), task(2, skipped), old]), not_listed="absent")
    assert (table.classes, rows(table)) == (("cat",), {"1.png": [1], "2.png": [0], "old": [0]})
    assert report.dropped["annotations that were skipped"].examples == ["task 2", "task 1"]
    text = "image\ttag\twas_cancelled\tannotation_id\na\tcat\tFalse\t1\nb\tdog\tTrue\t2\n"
    table, report = read(file(text), not_listed="absent", classes="cat,dog")
    assert rows(table) == {"a": [1, -1], "b": [0, 0]}
    assert report.dropped["annotations that were skipped"].count == 1


def test_several_annotators(file):
    path = file([task(1, [choice("cat")], [choice("cat", "dog")], [choice("cat"), choice("cat")]), task(2, [])])
    table, report = read(path)
    assert rows(table) == {"1.png": [1, 1], "2.png": [0, 0]}
    assert "1 image with more than one annotation" in report.notes
    assert refuse(path, not_listed="absent").offenders == [
        "1.png, dog: task 1, annotation 10 absent / task 1, annotation 11 present / task 1, annotation 12 absent"
    ]
    for policy, dog in (("majority", -1), ("unknown", 0), ("present", 1), ("absent", -1)):
        table, _ = read(path, not_listed="absent", conflicts=policy)
        assert rows(table) == {"1.png": [1, dog], "2.png": [-1, -1]}


def test_an_annotation_has_one_vote_even_when_it_says_a_thing_twice(file):
    path = file([task(1, [choice("cat"), choice("cat", "kitten")], [], [])])
    table, _ = read(path, not_listed="absent", conflicts="majority", rename="kitten=cat")
    assert rows(table) == {"1.png": [-1]}


def test_records_of_one_picture_are_its_annotators(file):
    records = [{"id": 1, "image": "a", "tag": t, "annotation_id": n} for n, t in enumerate(["cat", "dog", "cat"])]
    path = file(records)
    assert refuse(path, not_listed="absent").offenders[0].startswith("a, cat: task 1, annotation 0 present / task 1")
    assert rows(read(path, not_listed="absent", conflicts="majority")[0]) == {"a": [1, -1]}
    path = file("image,tag,annotation_id\na,cat,1\na,dog,2\n")
    assert refuse(path, not_listed="absent").offenders == [
        f"a, cat: {path}:2 present / {path}:3 absent",
        f"a, dog: {path}:2 absent / {path}:3 present",
    ]


def test_which_control_holds_the_classes(file):
    results = [choice("good", control="quality"), choice("cat"), choice("dog", control="missing")]
    path = file([task(1, results)])
    error = refuse(path)
    assert "control=quality" in error.message
    assert error.offenders == ["quality: 1 answer", "tag: 1 answer", "missing: 1 answer"]
    table, report = read(path, control="tag")
    assert (table.classes, rows(table)) == (("cat",), {"1.png": [1]})
    assert "Choices controls that are not read: quality 1, missing 1" in report.notes
    table, report = read(path, control="tag", absent_control="missing")
    assert (table.classes, rows(table)) == (("cat", "dog"), {"1.png": [1, -1]})
    assert report.coding == "a choice of tag = present, a choice of missing = absent"
    assert "'no'" in refuse(path, control="tag", absent_control="no").message
    path = file([{"image": "a", "quality": "good", "tag": {"choices": ["cat", "dog"]}}, {"image": "b", "tag": "cat"}])
    table, report = read(path)
    assert rows(table) == {"a": [1, 1], "b": [1, 0]}
    assert "columns not used: quality" in report.notes
    path = file([{"image": "a", "quality": "good", "tag": "cat"}])
    assert "several Choices controls" in refuse(path).message
    assert rows(read(path, control="tag", absent_control="quality")[0]) == {"a": [1, -1]}


def test_a_choice_may_say_that_a_class_is_absent(file):
    path = file([task(1, [choice("no cat", "dog")]), task(2, [choice("nothing")]), task(3, [choice("cat")])])
    table, report = read(path, absent_choices="no cat=cat,nothing=*")
    assert (table.classes, rows(table)) == (
        ("cat", "dog"),
        {"1.png": [-1, 1], "2.png": [-1, -1], "3.png": [1, 0]},
    )
    assert report.coding == "a choice of tag = present, no cat = cat absent, nothing = every class absent"
    path = file([task(1, [choice("no cat", "cat")])])
    assert refuse(path, absent_choices={"no cat": "cat"}).offenders == [
        "1.png, cat: task 1, annotation 10 absent / task 1, annotation 10 present"
    ]


def test_results_that_are_no_choices_for_the_image_are_not_read(file):
    box = {"from_name": "box", "type": "rectanglelabels", "value": {"x": 1, "rectanglelabels": ["dog"]}}
    relation = {"type": "relation", "from_id": "a", "to_id": "b"}
    table, report = read(file([task(1, [box, relation, choice("old", x=3.5, control="age"), choice("cat")])]))
    assert table.classes == ("cat",)
    assert "results that are not read: rectanglelabels 1, relation 1, choices for regions 1" in report.notes
    assert "rectanglelabels 1" in refuse(file([task(1, [box])])).message


def test_predictions_are_read_on_request_only(file):
    predictions = [{"id": 3, "score": 0.7, "result": [choice("dog")], "model_version": "m"}]
    path = file([task(1, [choice("cat")], predictions=predictions), task(2, predictions=[])])
    table, report = read(path)
    assert table.classes == ("cat",)
    assert "predictions in 1 task are not read" in report.notes
    table, report = read(path, answers="predictions")
    assert (table.classes, rows(table)) == (("dog",), {"1.png": [1], "2.png": [0]})
    assert any("predictions of a model" in warning for warning in report.warnings)
    path = file([task(1, predictions=predictions)])
    assert "answers=predictions reads those" in refuse(path).message
    assert "only the full JSON" in refuse(file([{"image": "a", "tag": "b"}]), answers="predictions").message
    assert "task 1: predictions" in refuse(file([task(1, predictions=[8])]), answers="predictions").offenders[0]
    assert rows(read(file([task(1, [choice("cat")], predictions=[8])]))[0]) == {"1.png": [1]}


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("/data/upload/1/1a2b3c4d-my%20cat.jpg", ("my cat.jpg", "1a2b3c4d-my cat.jpg")),
        ("/data/upload/1a2b3c4d-cat.jpg", ("cat.jpg", "1a2b3c4d-cat.jpg")),
        ("http://localhost:8080/data/upload/12/cat.jpg", ("cat.jpg", "cat.jpg")),
        ("/studio/data/upload/1/1a2b3c4d-cat.jpg", ("cat.jpg", "1a2b3c4d-cat.jpg")),
        ("/data/local-files/?d=pets/a%20b/cat%23.jpg", ("pets/a b/cat#.jpg", "cat#.jpg")),
        ("/data/local-files/?d=pets%5Ccat.jpg", ("pets/cat.jpg", "cat.jpg")),
        ("https://ls.org/data/local-files/?d=/pets/cat.jpg", ("pets/cat.jpg", "cat.jpg")),
        ("s3://bucket/pets/a #1.jpg", ("pets/a #1.jpg", "a #1.jpg")),
        ("gs://bucket/cat.jpg", ("cat.jpg", "cat.jpg")),
        ("azure-blob://box/pets/cat.jpg", ("pets/cat.jpg", "cat.jpg")),
        ("https://x.org/pets/my%20cat.jpg?Signature=a/b", ("pets/my cat.jpg", "my cat.jpg")),
        ("pets/1a2b3c4d-cat.jpg", ("pets/1a2b3c4d-cat.jpg", "1a2b3c4d-cat.jpg")),
    ],
)
def test_image_names(file, address, names):
    path = file([task(1, [choice("cat")], image=address)])
    for rule, name in zip(("path", "file", "url", None), (*names, address, names[0]), strict=True):
        assert read(path, image_names=rule)[0].images.to_pylist() == [name]


def test_different_pictures_never_get_one_name(file):
    one, two = "/data/upload/1/11111111-a.jpg", "/data/upload/1/22222222-a.jpg"
    path = file([task(1, [choice("cat")], image=one), task(2, [choice("dog")], image=two)])
    error = refuse(path)
    assert "image_names=file" in error.message
    assert error.offenders == [f"a.jpg: {one} and {two}"]
    assert rows(read(path, image_names="file")[0]) == {"11111111-a.jpg": [1, 0], "22222222-a.jpg": [0, 1]}
    signed = [task(n, [choice("cat")], image=f"https://x.org/a.jpg?sign={n}") for n in (1, 2)]
    assert rows(read(file(signed))[0]) == {"a.jpg": [1]}
    path = file(
        [task(n, [choice("cat")], image=address) for n, address in enumerate(["https://[x/a.jpg", "http://x/"])]
    )
    assert [line.split(" (")[0] for line in refuse(path).offenders] == [
        "task 0, annotation 0: https://[x/a.jpg",
        "task 1, annotation 10: http://x/",
    ]


def test_the_key_of_the_picture_is_found_or_named(file):
    def tasks(**data):
        return file([{"id": 1, "data": data, "annotations": [{"id": 1, "result": [choice("cat")]}]}])

    assert rows(read(tasks(image="a", other="b.jpg"))[0]) == {"a": [1]}
    assert rows(read(tasks(photo="s3://b/a.JPG", title="x"))[0]) == {"a.JPG": [1]}
    assert rows(read(tasks(left="/data/local-files/?d=a.png", n=3, m=None))[0]) == {"a.png": [1]}
    path = tasks(left="a.png", right="b.png")
    assert "image_column=" in refuse(path).message
    assert rows(read(path, image_column="right")[0]) == {"b.png": [1]}
    assert "there are: left, right" in refuse(path, image_column="up").message
    assert "no key looks like" in refuse(tasks(text="hello")).message
    assert rows(read(file("#,photo,kind\n1,a.png,cat\n"), control="kind")[0]) == {"a.png": [1]}


def test_classes_that_are_wanted_and_renamed(file):
    path = file([task(1, [choice("Cat ", "dog")]), task(2, [choice("cat", "bird")])])
    table, report = read(path)
    assert report.look_alikes == [["Cat", "cat"]]
    table, report = read(path, rename="Cat=cat", classes="dog,cat,fox")
    assert (table.classes, rows(table)) == (("dog", "cat", "fox"), {"1.png": [1, 1, 0], "2.png": [0, 1, 0]})
    assert report.dropped["labels of 1 classes that are not in the class list"].examples == ["bird"]


def test_cells_of_a_csv_export(file, tmp_path):
    cells = {
        '{"choices": ["a", "b"]}': {"a", "b"},
        '{"choices":["a\\u00e9"]}': {"aé"},
        "{'choices': ['a', 'b']}": {"a", "b"},
        '["a", {"choices": ["b", "c"]}]': {"a", "b", "c"},
        "[other]": {"[other]"},
        "plain, text": {"plain, text"},
        "  ": set(),
    }
    path = tmp_path / "t.csv"
    for separator in ",\t;":
        with open(path, "w", newline="", encoding="utf-8") as target:
            writer = csv.writer(target, delimiter=separator, quoting=csv.QUOTE_ALL)
            writer.writerows([["id", "image", "tag"], *([n, f"{n}.png", cell] for n, cell in enumerate(cells))])
        table, _ = read(path)
        found = [{name for name, v in zip(table.classes, own, strict=True) if v} for own in table.dense().tolist()]
        assert found == list(cells.values())
    for cell in ('{"choices": ["a"', '{"choices": [1]}', '{"text": ["a"]}', "[{'choices': 3}]", '[["a"]]'):
        with open(path, "w", newline="", encoding="utf-8") as target:
            csv.writer(target).writerows([["image", "tag"], ["a.png", "x"], ["b.png", cell]])
        assert refuse(path, control="tag").offenders[0].startswith(f"{path}:3 tag: ")
    text = "image,tag\na.png,hibou \u00e9\n"
    assert read(file(text.encode("cp1252")), encoding="cp1252")[0].classes == ("hibou é",)
    assert read(file(text.encode("utf-16")))[0].classes == ("hibou é",)
    assert "encoding=cp1252" in refuse(file(text.encode("cp1252"))).message


def test_predictions_are_a_models_labels_with_their_score(file):
    """c = 0.75 is log 3 for a present class and -log 3 for an absent one; a result's score stands before the task's."""
    predictions = [
        {"score": 0.75, "result": [choice("cat"), choice("dog", control="missing")]},
        {"score": 0.5, "result": [choice("owl") | {"score": 0.25}]},
    ]
    path = file(
        [task(1, predictions=predictions), task(2, predictions=[{"score": 3, "result": [choice("cat")]}]), task(3)]
    )
    options = {"answers": "predictions", "control": "tag", "absent_control": "missing"}
    table, report = read(path, **options)
    assert (table.classes, rows(table)) == (
        ("cat", "dog", "owl"),
        {"1.png": [1, -1, 1], "2.png": [1, 0, 0], "3.png": [0] * 3},
    )
    assert table.origin.tolist() == [1] * 4
    np.testing.assert_allclose(table.score, [math.log(3), -math.log(3), -math.log(3), math.nan], rtol=1e-6)
    assert report.dropped == {}
    table, _ = read(path, **options, not_listed="absent", conflicts="majority")
    assert rows(table) == {"1.png": [0, -1, 0], "2.png": [1, -1, -1], "3.png": [0] * 3}
    assert set(table.origin.tolist()) == {1}
    assert read(file([task(1, [choice("cat")])]))[0].score is None
