"""JSON lines of annotation services: the real-world case, and what else their exports may hold."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from tests.formats.cases import CASES, rows
from tests.formats.test_writing import tables

FOLDER = CASES / "MANIFEST-01"


def read(path, **options):
    return formats.read("manifest", path, **options)


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        read(path, **options)
    return caught.value


@pytest.fixture
def file(tmp_path):
    def write(*items):
        path = tmp_path / "lines.jsonl"
        path.write_text("".join(f"{json.dumps(item)}\n" for item in items))
        return path

    return write


def test_manifest_01_sagemaker():
    """Two classes of a person, nothing listed, a class of a machine, and an image without labels."""
    path = FOLDER / "output.manifest"
    table, report = read(path)
    assert table.classes == ("barrow", "hose", "rake")
    assert rows(table) == {"raw/a.jpg": [1, 0, 1], "raw/b.jpg": [0] * 3, "raw/c.jpg": [0] * 3, "raw/d.jpg": [0] * 3}
    assert report.dropped["labels of a model (weak=keep takes them in)"].examples == ["raw/c.jpg: hose"]
    assert report.without_annotations.examples == ["raw/c.jpg", "raw/d.jpg"]
    table, _ = read(path, not_listed="absent")
    assert table.dense().tolist() == [[1, -1, 1], [-1] * 3, [0] * 3, [0] * 3]
    table, _ = read(path, weak="keep", image_names="file")
    assert rows(table)["c.jpg"] == [0, 1, 0]
    assert table.origin.tolist() == [0, 0, 1]
    np.testing.assert_allclose(table.score[2], math.log(0.61 / 0.39), rtol=1e-6)
    table, _ = read(path, weak="keep", not_listed="absent")
    assert table.dense()[2].tolist() == [-1, 1, -1]
    assert table.origin.tolist() == [0] * 6 + [1] * 3  # what the machine did not list is no word of a person
    table, _ = read(path, weak="given", image_names="raw/")
    assert (rows(table)["c.jpg"], table.origin.tolist()) == ([0, 1, 0], [0] * 3)


def test_manifest_01_vertex():
    table, _ = read(FOLDER / "vertex.jsonl", not_listed="absent")
    assert (table.classes, rows(table)) == (("barrow", "rake"), {"a.jpg": [1, 1], "b.jpg": [-1, -1]})
    table, report = read(FOLDER / "vertex.csv")
    assert table.classes == ("barrow", "hose", "rake")
    assert rows(table) == {"a.jpg": [1, 0, 1], "b.jpg": [0] * 3, "c.jpg": [0, 1, 0], "d.jpg": [1, 0, 0]}
    assert "parts: training 1, test 1, validation 1, (no name) 1" in report.notes
    table, report = read(FOLDER / "vertex.csv", split="training,validation")
    assert table.images.to_pylist() == ["a.jpg", "c.jpg"]
    assert report.dropped["lines of other parts"].count == 2
    assert refuse(FOLDER / "vertex.csv", split="train").offenders == ["training", "test", "validation", "(no name)"]


def test_manifest_01_labelbox():
    for not_listed, b in (("unknown", [0, 0]), ("absent", [-1, -1])):
        table, report = read(FOLDER / "labelbox.ndjson", not_listed=not_listed)
        assert (table.classes, rows(table)) == (("barrow", "rake"), {"a.jpg": [1, 1], "b.jpg": b, "c.jpg": [0, 0]})
        assert report.without_annotations.examples == ["c.jpg"]


def test_sagemaker_jobs_of_other_kinds(file):
    about = {
        "class-name": "owl",
        "confidence": 0.8,
        "human-annotated": "yes",
        "type": "groundtruth/image-classification",
    }
    boxes = {"class-map": {"0": "cat"}, "objects": [{"confidence": 0.9}], "human-annotated": "no"}
    path = file(
        {"source-ref": "s3://b/a.jpg", "kind": 3, "kind-metadata": about},
        {"source-ref": "s3://b/b.jpg", "box": {"annotations": [{"class_id": 0}]}, "box-metadata": boxes},
        {"source-ref": "s3://b/c.jpg", "kind-metadata": {**about, "failure-reason": "no worker"}},
        {"source-ref": "s3://b/d.jpg", "ok": 1, "ok-metadata": {"type": "groundtruth/label-verification"}},
    )
    error = refuse(path)
    assert "field=NAME" in error.message
    assert error.offenders == ["kind: groundtruth/image-classification", "box: no type"]
    table, report = read(path, field="kind")
    assert (table.classes, rows(table)["a.jpg"]) == (("owl",), [1])
    assert report.dropped["labels whose making failed"].examples == [f"{path}:3"]
    table, _ = read(path, field="box", weak="keep")
    assert (rows(table)["b.jpg"], table.origin.tolist()) == ([1], [1])
    assert refuse(path, field="ok").offenders == error.offenders


def test_azure(file):
    url = "AmlDatastore://store/yard/"
    path = file(
        {"image_url": f"{url}a.jpg", "label": ["barrow", "rake"], "label_confidence": [1.0, 0.75]},
        {"image_url": "azureml://subscriptions/s/datastores/store/paths/yard/b.jpg", "label": "hose"},
        {"image_url": f"{url}c.jpg", "label": [{"label": "rake", "topX": 0.1}]},
        {"image_url": f"{url}d.jpg", "label": None},
        {"image_url": f"{url}e.jpg", "label": []},
    )
    table, _ = read(path, not_listed="absent")
    assert table.classes == ("barrow", "hose", "rake")
    assert list(rows(table)) == [f"yard/{n}.jpg" for n in "abcde"]
    assert table.dense().tolist() == [[1, -1, 0], [-1, 1, -1], [-1, -1, 1], [0] * 3, [-1] * 3]
    table, _ = read(path, weak="keep")
    np.testing.assert_allclose(table.score[table.origin == 1], [math.log(3)], rtol=1e-6)


def test_labelbox_with_several_people_and_questions(file):
    def label(*names, question="kind", **more):
        answers = [{"name": name} for name in names]
        return {"annotations": {"classifications": [{"name": question, "checklist_answers": answers}]}, **more}

    radio = {"annotations": {"classifications": [{"name": "light", "radio_answer": {"name": "dark"}}]}}
    skipped = label("cat", performance_details={"skipped": True})
    path = file(
        {
            "data_row": {"global_key": "a"},
            "projects": {"p": {"labels": [label("cat"), label("cat", "dog"), label("cat")]}},
        },
        {"data_row": {"row_data": "https://h/x/b.jpg?sig=1"}, "projects": {"p": {"labels": [radio, skipped]}}},
    )
    assert refuse(path).offenders == ["kind: checklist", "light: radio"]
    table, _ = read(path, field="light")
    assert (table.classes, rows(table)) == (("dark",), {"a": [0], "x/b.jpg": [1]})
    assert refuse(path, field="kind", not_listed="absent").offenders == [
        f"a, dog: {path}:1 absent / {path}:1 present / {path}:1 absent"
    ]
    table, report = read(path, field="kind", not_listed="absent", conflicts="majority")
    assert rows(table) == {"a": [1, -1], "x/b.jpg": [-1, -1]}
    assert report.dropped["labels that were skipped"].count == 1


def test_answers_of_prodigy_with_choices(file):
    options = [{"id": "CAT", "text": "a cat"}, {"id": "DOG", "text": "a dog"}, {"id": 3, "text": "owl"}]
    common = {"options": options, "path": "a.jpg", "image": "data:image/jpeg;base64,AAAA"}
    path = file(
        {**common, "accept": ["CAT", 3], "answer": "accept"},
        {**common, "path": "b.jpg", "accept": [], "answer": "accept"},
        {**common, "path": "c.jpg", "accept": ["DOG"], "answer": "reject"},
        {**common, "path": "d.jpg", "accept": ["DOG"], "answer": "ignore"},
    )
    table, report = read(path, not_listed="absent")
    assert table.classes == ("CAT", "DOG", "owl")
    assert rows(table) == {"a.jpg": [1, -1, 1], "b.jpg": [-1] * 3, "c.jpg": [0] * 3, "d.jpg": [0] * 3}
    assert report.dropped["questions that were answered with reject"].examples == [f"{path}:3"]
    assert report.dropped["questions that were answered with ignore"].examples == [f"{path}:4"]


def test_answers_of_prodigy_about_one_class(file):
    path = file(
        *({"image": "a.jpg", "label": name, "answer": a} for name, a in (("cat", "accept"), ("dog", "reject"))),
        {"image": "b.jpg", "label": "dog", "answer": "ignore"},
        {"image": "b.jpg", "label": "cat", "answer": "accept"},
    )
    for not_listed in ("unknown", "absent"):
        assert rows(read(path, not_listed=not_listed)[0]) == {"a.jpg": [1, -1], "b.jpg": [1, 0]}


def test_fields_with_accepted_and_rejected_classes(file):
    path = file({"image": "a", "accept": ["cat"], "reject": ["dog"]}, {"image": "b", "accept": [], "ignore": ["dog"]})
    table, _ = read(path, not_listed="absent")
    assert (table.classes, rows(table)) == (("cat", "dog"), {"a": [1, -1], "b": [-1, 0]})


def test_wrong_lines_are_all_named(file):
    good = {"source-ref": "s3://b/a.jpg", "t": [0], "t-metadata": {"class-map": {"0": "x"}}}
    wrong = [
        {**good, "t": [1]},
        {**good, "source-ref": 3},
        {**good, "t": ["a", {}]},
        {**good, "t-metadata": {"class-map": 3}},
    ]
    path = file(good, *wrong)
    assert refuse(path).offenders == [
        f"{path}:2 class numbers that are not in the class-map: [1]",
        f"{path}:3 source-ref is no name: 3",
        f"{path}:4 class numbers that are not in the class-map: ['a', {{}}]",
        f"{path}:5 not as SageMaker Ground Truth writes it",
    ]
    path.write_text('{"image_url": "a", "label": "x"}\nnull\n\n{"image_url": \n')
    assert [offender.split()[0] for offender in refuse(path).offenders] == [f"{path}:2", f"{path}:4"]
    path.write_text('{"image_url": "a", "label": "x"}\n{"label": "y"}\n')
    assert refuse(path).offenders == [f"{path}:2"]
    path.write_text('{"file_name": "a", "label": "x"}\n')
    assert "read by huggingface" in refuse(path).message
    for content in (b"", b"a,b\n", b"\xff\xfe\n", b'TRAIN,"gs://a\n'):
        path.write_bytes(content)
        assert "neither JSON lines nor a CSV" in refuse(path).message
    assert "cannot be read" in refuse(path.with_name("none")).message
    path.write_text('{"image_url": "a", "label": "x", "width": NaN}\n')
    assert rows(read(path)[0]) == {"a": [1]}


def test_boxes_in_a_csv_file_of_vertex(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("TRAIN,gs://b/a.jpg,cat,0.1,0.1,,,0.2,0.2,,\nTRAIN,gs://b/a.jpg,dog,0,0,,,1,1,,\ngs://b/c.jpg\n")
    table, _ = read(path, not_listed="absent")
    assert (table.classes, rows(table)) == (("cat", "dog"), {"a.jpg": [1, 1], "c.jpg": [0, 0]})


def lines(service, image, present):
    """What a service writes of an image; None: nobody has labelled it."""
    if service == "sagemaker":
        own = {} if present is None else {"t": list(range(len(present)))}
        about = {"t-metadata": {"class-map": {str(i): name for i, name in enumerate(present or ())}}}
        return {"source-ref": image, **own, **(about if own else {})}
    if service == "vertex":
        own = {} if present is None else {"classificationAnnotations": [{"displayName": name} for name in present]}
        return {"imageGcsUri": image, **own}
    if service == "azure":
        return {"image_url": image, "label": present}
    if service == "prodigy":
        return {"image": image, "accept": present or [], "answer": "ignore" if present is None else "accept"}
    answers = [{"name": name} for name in present or ()]
    label = {"annotations": {"classifications": [{"name": "q", "checklist_answers": answers}]}}
    return {"data_row": {"external_id": image}, "projects": {"p": {"labels": [] if present is None else [label]}}}


@given(tables(), st.data(), st.sampled_from(["sagemaker", "vertex", "azure", "prodigy", "labelbox"]))
@settings(max_examples=60, deadline=None)
def test_lines_of_random_tables(table, data, service):
    matrix = np.where(table.dense() > 0, 1, -1)
    if (matrix < 0).all():
        matrix[0, 0] = 1
    images = [f"i{n}" for n in range(len(matrix))]
    seen = [True, *(data.draw(st.booleans()) for _ in images[1:])]
    chosen = [
        [table.classes[c] for c in np.flatnonzero(own > 0)] if s else None for own, s in zip(matrix, seen, strict=True)
    ]
    chosen = [own if own is None else data.draw(st.permutations(own)) for own in chosen]
    if not any(chosen):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        path.write_text(
            "".join(json.dumps(lines(service, i, own)) + "\n" for i, own in zip(images, chosen, strict=True))
        )
        again, _ = read(path, classes=table.classes, not_listed="absent", image_names="url")
    assert again.images.to_pylist() == images
    np.testing.assert_array_equal(again.dense(), matrix * np.array(seen)[:, None])
