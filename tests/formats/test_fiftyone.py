"""FiftyOne: the real-world case, and what else its files may hold."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import LabelTable, formats
from partlabel.core.errors import UserError
from tests.formats.cases import case, rows
from tests.formats.test_writing import tables


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("fiftyone", path, **options)
    return caught.value


def save(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def one(label, **more):
    return {"_id": {"$oid": "5f9"}, "_cls": "Classification", "tags": [], "label": label, **more}


def several(*labels):
    entries = [one(label) if isinstance(label, str) else label for label in labels]
    return {"_cls": "Classifications", "classifications": entries}


def sample(name, **fields):
    return {"_id": {"$oid": "1"}, "filepath": name, "_rand": 0.5, "metadata": None, "tags": [], **fields}


def test_fo_01_two_files_for_one_data_set():
    folder, expected = case("FO-01")
    for paths in (("pos/labels.json", "neg/labels.json"), ("pos", "neg")):
        table, report = formats.read("fiftyone", folder / paths[0], negative=folder / paths[1])
        assert list(table.classes) == expected["classes"]
        assert rows(table) == expected["labels"]
        assert report.without_annotations is not None
        assert report.without_annotations.examples == ["im3"]
    table, _ = formats.read("fiftyone", folder / "pos", negative=folder / "neg", not_listed="absent")
    assert rows(table) == {"im1": [1, -1, 1], "im2": [-1, -1, -1], "im3": [0, 0, 0]}


def test_fo_01_a_pair_in_both_files_is_a_conflict(tmp_path):
    positive = save(tmp_path / "pos.json", {"classes": ["Dog", "Cat"], "labels": {"a": [1], "b": 0}})
    negative = save(tmp_path / "neg.json", {"labels": {"a": ["Cat", "Dog"]}})
    error = refuse(positive, negative=negative)
    assert error.offenders == [f"a, Cat: {positive} present / {negative} absent"]
    table, report = formats.read("fiftyone", positive, negative=negative, conflicts="absent")
    assert rows(table) == {"a": [-1, -1], "b": [1, 0]}
    assert len(report.conflicts) == 1


def test_class_numbers_need_a_class_in_the_list_of_their_own_file(tmp_path):
    path = save(tmp_path / "labels.json", {"classes": ["Dog"], "labels": {"a": [0, 1], "b": -1, "c": [True, 1.5, {}]}})
    assert refuse(path).offenders == [
        f"{path}: a: class number 1, 0 to 0 are known",
        f"{path}: b: class number -1, 0 to 0 are known",
        f"{path}: c: True is no class",
        f"{path}: c: 1.5 is no class",
    ]
    bare = save(tmp_path / "bare.json", {"labels": {"a": [0, 1]}})
    assert "no class list" in refuse(bare).offenders[0]
    table, _ = formats.read("fiftyone", bare, classes="cat,dog")
    assert (table.classes, rows(table)) == (("cat", "dog"), {"a": [1, 1]})
    wrong = save(tmp_path / "wrong.json", {"classes": ["Dog", 3], "labels": {}})
    assert refuse(wrong).offenders == [f"{wrong}: 3 in the class list is no name"]


def test_names_confidences_and_attributes_in_labels_json(tmp_path):
    labels = {
        "a": [{"label": "dog", "confidence": 1.0}, {"label": "cat", "confidence": 0.75}],
        "b": {"label": 0, "attributes": {"origin": "review"}},
        "c": [None, " "],
        "d": "2",
    }
    path = save(tmp_path / "labels.json", {"classes": ["cat"], "labels": labels})
    table, report = formats.read("fiftyone", path)
    assert table.classes == ("cat", "dog", "2")
    assert rows(table) == {"a": [0, 1, 0], "b": [1, 0, 0], "c": [0, 0, 0], "d": [0, 0, 1]}
    assert table.origin.tolist() == [0, 2, 0]
    assert report.dropped["labels of a model (weak=keep takes them in)"].examples == ["a: cat"]
    assert report.dropped["labels without a class name"].count == 2
    assert any("class list lacks: dog, 2" in note for note in report.notes)

    table, report = formats.read("fiftyone", path, weak="keep")
    assert rows(table)["a"] == [1, 1, 0]
    assert table.score is not None
    assert table.score[0] == pytest.approx(math.log(3))
    assert table.origin.tolist() == [1, 0, 2, 0]
    assert (report.present, report.without_known.count) == (4, 1)
    assert formats.read("fiftyone", path, weak="given")[0].origin.tolist() == [0, 0, 2, 0]
    assert formats.read("fiftyone", path, classes="dog")[0].origin.tolist() == [0]


def test_a_confidence_outside_0_and_1_is_refused(tmp_path):
    labels = {"a": {"label": "dog", "confidence": 10}, "b": {"label": "cat", "confidence": "high"}}
    path = save(tmp_path / "labels.json", {"labels": labels})
    assert refuse(path).offenders == [
        f"{path}: a, dog: the confidence 10 is not between 0 and 1",
        f"{path}: b, cat: the confidence 'high' is not between 0 and 1",
    ]
    assert rows(formats.read("fiftyone", path, weak="given")[0]) == {"a": [0, 1], "b": [1, 0]}


def test_positive_and_negative_fields_as_in_open_images_of_the_zoo(tmp_path):
    samples = [
        sample(
            "/pics/a.jpg",
            positive_labels=several(one("Dog", confidence=1.0)),
            negative_labels=several(one("Cat", confidence=0.0)),
            detections={"_cls": "Detections", "detections": [{"label": "Car", "bounding_box": [0, 0, 1, 1]}]},
        ),
        sample("/pics/b.jpg", positive_labels=several(), negative_labels=None),
        sample("/pics/c.jpg", positive_labels=None),
    ]
    save(tmp_path / "samples.json", {"samples": samples})
    save(tmp_path / "metadata.json", {"version": "1.22", "default_classes": ["Dog", "Cat", "Car"], "classes": {}})
    table, report = formats.read("fiftyone", tmp_path)
    assert table.classes == ("Dog", "Cat", "Car")
    assert rows(table) == {"/pics/a.jpg": [1, -1, 0], "/pics/b.jpg": [0, 0, 0], "/pics/c.jpg": [0, 0, 0]}
    assert "positive_labels and negative_labels" in report.layout
    table, _ = formats.read("fiftyone", tmp_path, not_listed="absent")
    assert table.dense().tolist() == [[1, -1, -1], [-1, -1, -1], [0, 0, 0]]
    table, _ = formats.read("fiftyone", tmp_path, field="detections")
    assert table.dense().tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_fields_are_chosen_by_what_they_hold(tmp_path):
    samples = [sample("a.jpg", ground_truth=one("dog"), predictions=several(one("cat", confidence=0.9)), note="x")]
    path = save(tmp_path / "samples.json", {"samples": samples})
    error = refuse(path)
    assert "field=NAME" in error.message
    assert error.offenders == ["ground_truth: Classification", "predictions: Classifications"]
    assert refuse(path, field="note").offenders == error.offenders
    assert "both" in refuse(path, field="ground_truth", negative_field="ground_truth").message
    assert rows(formats.read("fiftyone", path, field="ground_truth")[0]) == {"a.jpg": [1]}
    table, _ = formats.read("fiftyone", path, negative_field="ground_truth")
    assert rows(table) == {"a.jpg": [-1]}
    assert "no field has labels" in refuse(save(tmp_path / "s.json", {"samples": []})).message


def test_a_model_never_overrules_a_person_and_its_pairs_are_never_absent(tmp_path):
    samples = [
        sample("a", labels=several("dog", one("dog", confidence=0.2), one("cat", confidence=0.6))),
        sample("b", labels=several("car")),
    ]
    path = save(tmp_path / "samples.json", {"samples": samples})
    table, _ = formats.read("fiftyone", path, not_listed="absent")
    assert (table.classes, rows(table)) == (("car", "cat", "dog"), {"a": [-1, 0, 1], "b": [1, -1, -1]})
    table, _ = formats.read("fiftyone", path, not_listed="absent", weak="keep")
    assert rows(table) == {"a": [-1, 1, 1], "b": [1, -1, -1]}
    assert table.origin.tolist() == [0, 1, 0, 0, 0, 0]


def test_one_file_for_each_sample(tmp_path):
    for number, name in enumerate(("a.jpg", "b.jpg")):
        save(tmp_path / "samples" / f"{number:06}-5f.json", sample(name, labels=several("dog")))
    assert rows(formats.read("fiftyone", tmp_path)[0]) == {"a.jpg": [1], "b.jpg": [1]}
    (bad := tmp_path / "samples" / "2.json").write_text('{"filepath":\n 3, "labels": null}')
    assert refuse(tmp_path).offenders[0].startswith(f"{bad}: filepath: text is expected, not a whole number")


def test_absolute_paths_become_relative_to_the_pictures(tmp_path):
    (tmp_path / "pics" / "x").mkdir(parents=True)
    (tmp_path / "pics" / "x" / "a.jpg").touch()
    names = [str(tmp_path / "pics" / "x" / "a.jpg"), "/elsewhere/b.jpg"]
    path = save(tmp_path / "samples.json", {"samples": [sample(name, labels=one("dog")) for name in names]})
    table, report = formats.read("fiftyone", path, images=tmp_path / "pics", missing="skip", not_listed="absent")
    assert rows(table) == {"x/a.jpg": [1]}
    assert report.missing == ["/elsewhere/b.jpg"]


def test_wrong_samples_are_all_listed(tmp_path):
    samples = [
        sample("a", labels=several("dog")),
        {"labels": None},
        sample(" ", labels=several("dog")),
        sample("c", labels=[1]),
        sample("d", labels={"_cls": "Regression", "value": 3}),
    ]
    path = save(tmp_path / "samples.json", {"samples": samples})
    places = [line.split(": ")[1] for line in refuse(path).offenders]
    assert places == ["sample 2", "sample 3", "sample 4", "sample 5"]
    path = save(tmp_path / "samples.json", {"samples": [1, "x", sample("a", labels=several("dog"))]})
    assert [line.split(": ")[1] for line in refuse(path).offenders] == ["sample 1", "sample 2"]


def test_options_of_the_other_layout_are_refused(tmp_path):
    labels = save(tmp_path / "labels.json", {"labels": {}})
    samples = save(tmp_path / "samples.json", {"samples": [sample("a", labels=one("dog"))]})
    assert "no fields" in refuse(labels, field="x").message
    assert "negative_field" in refuse(samples, negative=labels).message
    assert "has no labels" in refuse(labels, negative=samples).message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"samples": [\n{"filepath": }]}', "not valid JSON"),
        ("[]", "not a file of FiftyOne"),
        ("{}", "neither samples nor labels"),
        ("", "not valid JSON"),
        ('{"labels": [1]}', "not a file of FiftyOne"),
        ('{"labels": ' + "[" * 5000, "not"),
        ('{"labels": {"a": NaN,\n "b": }}', "not valid JSON"),
    ],
)
def test_broken_files(tmp_path, content, message):
    path = tmp_path / "labels.json"
    path.write_text(content)
    error = refuse(path)
    assert message in error.message
    assert str(path) in error.message
    assert "cannot be read" in refuse(tmp_path / "none.json").message
    (tmp_path / "empty").mkdir()
    assert "no samples.json" in refuse(tmp_path / "empty").message


def test_python_nan_and_a_byte_order_mark_are_no_mistakes(tmp_path):
    path = tmp_path / "labels.json"
    path.write_bytes(b'\xef\xbb\xbf{"labels": {"a": {"label": "NaN", "confidence": NaN}}}')
    assert rows(formats.read("fiftyone", path)[0]) == {"a": [1]}


@given(tables(), st.data())
@settings(max_examples=40, deadline=None)
def test_labels_json_round_trip_with_quirks(table, data):
    """Numbers or names, with and without class list, single labels outside lists, repeats, null for no label."""
    numbers = data.draw(st.booleans())
    contents = []
    for value in (1, -1):
        labels = {}
        for image, line in zip(table.images.to_pylist(), table.dense().tolist(), strict=True):
            own = [c if numbers else table.classes[c] for c, label in enumerate(line) if label == value]
            own = data.draw(st.permutations(own + own[:1])) if data.draw(st.booleans()) else own
            entries = [{"label": c, "confidence": None} if data.draw(st.booleans()) else c for c in own]
            empty = data.draw(st.sampled_from([None, []]))
            labels[image] = entries[0] if len(entries) == 1 and data.draw(st.booleans()) else entries or empty
        keep_list = numbers or data.draw(st.booleans())
        contents.append({"classes": list(table.classes) if keep_list else None, "labels": labels})
    with tempfile.TemporaryDirectory() as folder:
        positive, negative = (save(Path(folder) / f"{n}.json", content) for n, content in enumerate(contents))
        again, _ = formats.read("fiftyone", positive, negative=negative, classes=list(table.classes))
    assert rows(again) == rows(table)


@given(tables(), st.data())
@settings(max_examples=40, deadline=None)
def test_written_tables_lose_nothing_but_what_the_writer_says(table, data):
    size = table.num_known
    origin = np.array(data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size)), np.uint8)
    score = np.where(origin == 1, np.linspace(-60, 60, size) if size else 0, np.nan).astype(np.float32)
    number = np.where(origin == 1, 3, -1)
    table = LabelTable.from_pairs(
        table.images,
        table.classes,
        table.pair_images(),
        table.indices,
        table.values,
        origin=origin,
        score=score,
        round=number,
    )
    with tempfile.TemporaryDirectory() as folder:
        formats.write("fiftyone", table, Path(folder) / "out")
        again, _ = formats.read("fiftyone", Path(folder) / "out", weak="keep")
    assert again.images.to_pylist() == table.images.to_pylist()
    assert again.classes == table.classes
    np.testing.assert_array_equal(again.dense(), table.dense())
    np.testing.assert_array_equal(again.origin, table.origin)
    if (origin == 1).any():
        assert again.score is not None
        assert again.round is not None
        np.testing.assert_array_equal(again.score, score)
        np.testing.assert_array_equal(again.round, number)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_files_give_an_error_or_a_table(data):
    samples = [sample("a.jpg", labels=several("dog", one("cat", confidence=0.5))), sample("b.jpg", labels=one("cat"))]
    content = data.draw(st.sampled_from([{"samples": samples}, {"classes": ["x"], "labels": {"a": [0], "b": None}}]))
    text = bytearray(json.dumps(content).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(text) - 1, 0)))
        text[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.json"
        path.write_bytes(text)
        images, problem = 0, ""
        try:
            images = formats.read("fiftyone", path)[0].num_images
        except UserError as error:
            problem = error.message
        assert str(path) in problem or (images <= 3 and not problem)


def test_what_is_written(tmp_path):
    table = LabelTable.from_dense(["a.jpg", "b.jpg"], ["cat", "dog", "car"], [[1, -1, 0], [0, 0, 0]])
    table = table.with_labels([0], [2], [-1], origin="model", score=[-2.0], round=4)
    formats.write("fiftyone", table, tmp_path / "out.json")
    content = json.loads((tmp_path / "out.json").read_text())
    first, second = content["samples"]
    assert content["default_classes"] == ["cat", "dog", "car"]
    assert set(content["sample_fields"]) == {"positive_labels", "negative_labels"}
    assert first["filepath"] == "a.jpg"
    assert first["positive_labels"]["classifications"] == [{"_cls": "Classification", "tags": [], "label": "cat"}]
    weak = first["negative_labels"]["classifications"][1]
    assert weak["confidence"] == pytest.approx(1 / (1 + math.exp(2)))
    assert {name: weak[name] for name in ("label", "origin", "score", "round")} == {
        "label": "car",
        "origin": "model",
        "score": -2.0,
        "round": 4,
    }
    assert second["positive_labels"] is None
    assert second["negative_labels"] is None


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    table = LabelTable.from_dense(["a"], ["cat"], [[1]])
    (tmp_path / "out.json").write_text("old")
    monkeypatch.setattr("partlabel.formats.fiftyone.writing._label", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        formats.write("fiftyone", table, tmp_path / "out.json")
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("out.json", "old")]
    with pytest.raises(UserError, match="does not exist"):
        formats.write("fiftyone", table, tmp_path / "none" / "out.json")
