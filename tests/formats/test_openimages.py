"""Open Images: the real-world cases, and what else the annotation files of its releases may hold."""

from __future__ import annotations

import csv
import gzip
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from partlabel import LabelTable, formats
from partlabel.core.errors import UserError
from partlabel.formats.reading import watched
from tests.formats.cases import case, rows
from tests.reference import formats as naive

HEADER = "ImageID,Source,LabelName,Confidence\n"


def read(path, **options):
    return formats.read("openimages", path, **options)


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        read(path, **options)
    return caught.value


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "labels.csv", header: str = HEADER) -> Path:
        path = tmp_path / name
        path.write_text(header + text, encoding="utf-8")
        return path

    return write


def test_oid_01_persons_and_machines():
    folder, expected = case("OID-01")
    options = {"descriptions": folder / "class-descriptions.csv"}
    table, report = read(folder / "human.csv", **options)
    assert list(table.classes) == expected["classes"]
    assert table.class_ids == ("/m/01g317", "/m/0bt9lr", "/m/01yrx")
    assert rows(table) == expected["human_only"]
    assert any("verification 2, crowdsource-verification 1" in note for note in report.notes)

    table, report = read(folder / "machine.csv", **options)
    assert table.num_known == 0
    assert report.dropped["machine labels"].count == 3

    table, report = read(folder / "machine.csv", machine_threshold="0.4", **options)
    weak = [
        [table.images[int(i)].as_py(), table.classes[c], round(1 / (1 + math.exp(-s)), 6)]
        for i, c, s in zip(table.pair_images(), table.indices, table.score, strict=True)
    ]
    assert weak == expected["weak"]
    assert (table.origin == 1).all()
    assert (table.values == 1).all()

    table, report = read(folder / "machine.csv", machine_threshold=0.5, **options)
    assert rows(table)["0a00000000000003"] == [0, 0, 0]
    assert report.dropped["machine labels below 0.5"].count == 1

    error = refuse(folder / "bad_scale.csv", **options)
    assert error.offenders == [f"{folder / 'bad_scale.csv'}:2 confidence 10 outside 0..1"]


def test_oid_03_ids_without_description():
    folder, expected = case("OID-03")
    options = {"descriptions": folder / "class-descriptions.csv"}
    error = refuse(folder / "human.csv", **options)
    assert f"human.csv: {len(expected['undescribed'])} label id without description" in error.message
    assert error.offenders == [f"{name} ({count} rows)" for name, count in expected["undescribed"].items()]
    table, report = read(folder / "human.csv", undescribed="keep", **options)
    assert list(table.classes) == expected["keep_by_id"]["classes"]
    assert rows(table) == expected["keep_by_id"]["labels"]
    assert "1 label id without description, called by the id: /m/03s2xy (2 rows)" in report.warnings


def test_oid_04_listed_images_that_are_not_there(tmp_path):
    folder, expected = case("OID-04")
    options = {"descriptions": folder / "class-descriptions.csv", "images": folder / "images"}
    error = refuse(folder / "human.csv", missing_list=tmp_path / "missing.txt", **options)
    assert "1 of 3 images missing" in error.message
    assert error.offenders == expected["missing"]
    assert (tmp_path / "missing.txt").read_text().splitlines() == expected["missing"]
    table, report = read(folder / "human.csv", missing="skip", **options)
    assert report.missing == report.to_dict()["missing"] == expected["missing"]
    present, absent = table.class_counts()
    counts = {"images": table.num_images, "known": table.num_known}
    assert {**counts, "present_Person": present[0], "absent_Person": absent[0]} == expected["skip_missing"]


def test_oid_05_some_of_the_classes():
    folder, expected = case("OID-05")
    options = {"descriptions": folder / "class-descriptions.csv", "classes": folder / "classes.txt"}
    table, report = read(folder / "human.csv", **options)
    assert list(table.classes) == expected["classes"]
    assert rows(table) == expected["labels"]
    dropped = report.dropped["labels of 2 classes that are not in the class list"]
    assert (dropped.count, sorted(dropped.examples)) == (expected["dropped_rows"], expected["dropped_classes"])
    assert report.without_known.examples == expected["no_known_label"]
    assert "listed classes that do not occur in the source: Unicorn" in report.warnings


def test_oid_06_the_first_release():
    folder, expected = case("OID-06")
    error = refuse(folder / "labels_v1.csv")
    assert "ImageID,Source,LabelName,Confidence form" in error.message
    assert "first release" in error.message
    assert error.offenders[0].startswith(f"{folder / 'labels_v1.csv'}:1 ")
    human = case("OID-01")[0] / "human.csv"
    table, report = read(human, image_list=folder / "images.csv")
    assert table.images.to_pylist() == ["106528377697029"]
    assert int("106528377697029") == int(expected["hex_of_106528377697029"], 16)
    assert any(w.startswith("1 image id of the image list without a match: 106528377697029") for w in report.warnings)


def test_several_files(file, tmp_path):
    file("a,verification,/m/1,1\nb,verification,/m/1,0\n", "train-human.csv")
    file("b,machine,/m/2,0.9\nb,machine,/m/1,0.9\nc,machine,/m/1,1.0\n", "train-machine.csv")
    file("/m/1,Cat\n/m/2,Dog\n", "class-descriptions.csv", header="")
    options = {"descriptions": tmp_path / "class-descriptions.csv", "machine_threshold": 0.8}
    for path in (tmp_path, tmp_path / "train-*.csv"):
        table, report = read(path, **options)
        assert rows(table) == {"a": [1, 0], "b": [-1, 1], "c": [1, 0]}
        assert table.origin.tolist() == [0, 0, 1, 1]
        assert np.isfinite(table.score[2:]).all()
        dropped = report.dropped["machine labels of pairs that a person judged"]
        assert (dropped.count, dropped.examples) == (1, ["b, Cat"])
    assert any("class-descriptions.csv" in note for note in read(tmp_path, **options)[1].notes)
    assert "1 of 3 files" in refuse(tmp_path / "*.csv").message
    file("a,verification,/m/1,0\nb,verification,/m/2,0.5\n", "val.csv")
    assert refuse(tmp_path, **options).offenders == [
        f"{tmp_path / 'val.csv'}:3 confidence 0.5 of a person (verification) is neither 1 nor 0"
    ]
    file("a,verification,/m/1,0\n", "val.csv")
    assert refuse(tmp_path, **options).offenders == [
        f"a, Cat: {tmp_path / 'train-human.csv'}:2 present / {tmp_path / 'val.csv'}:2 absent"
    ]


def test_packed_files_of_a_folder(file, tmp_path):
    text = (HEADER + "b,verification,/m/1,0\n").encode()
    (tmp_path / "val.csv.gz").write_bytes(gzip.compress(text))
    file("a,verification,/m/1,1\n", "train.csv")
    assert rows(read(tmp_path)[0]) == {"a": [1], "b": [-1]}


def test_the_surest_of_repeated_machine_labels_stays(file):
    path = file("a,machine,/m/1,0.6\na,machine,/m/1,0.9\na,machine,/m/1,0.7\n")
    table, report = read(path, machine_threshold=0.5)
    assert table.score[0] == pytest.approx(math.log(9))
    assert report.repeats == 2
    table, _ = read(path, machine_threshold=0.5, not_listed="absent")
    assert table.origin.tolist() == [1]


def test_what_a_machine_is_not_believed_stays_unknown(file):
    path = file(
        "a,machine,/m/1,0.4\na,verification,/m/2,1\nb,verification,/m/1,1\nb,machine,/m/1,0.3\na,machine,/m/3,0.9\n"
    )
    expected = {None: {"a": [0, 1, 0], "b": [1, -1, -1]}, 0.5: {"a": [0, 1, 1], "b": [1, -1, -1]}}
    for threshold, labels in expected.items():
        assert rows(read(path, machine_threshold=threshold, not_listed="absent")[0]) == labels


def test_memory_that_does_not_suffice(file, monkeypatch):
    path = file("a,verification,/m/1,1\n")
    monkeypatch.setattr(LabelTable, "from_pairs", lambda *_, **__: np.empty(1 << 60, np.int8))
    assert "choose classes with classes=FILE" in refuse(path).message


def test_boxes_say_present(file):
    header = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf\n"
    path = file(
        "a,xclick,/m/1,1,0,1,0,1,0,0,1\na,activemil,/m/1,1,0,.5,0,1,0,0,0\nb,freeform,/m/2,1,0,1,0,1,1,0,0\n",
        header=header,
    )
    table, report = read(path)
    assert rows(table) == {"a": [1, 0], "b": [0, 1]}
    assert report.repeats == 1


def test_a_file_without_sources_holds_labels_of_persons(file):
    table, _ = read(file("a,/m/1,1\na,/m/2,0\n", header="ImageID,LabelName,Confidence\n"))
    assert rows(table) == {"a": [1, -1]}
    error = refuse(file("a,/m/1,0.3\n", header="ImageID,LabelName,Confidence\n"))
    assert "neither 1 nor 0" in error.offenders[0]


def test_every_wrong_row_is_listed(file):
    wrong = ["a,verification,/m/1,2", ",machine,/m/1,1", "a,robot,/m/1,1", "a,machine,,0.5", "a,machine,/m/1,x"]
    wrong += ["a,verification,/m/1,", "a,machine,/m/1,nan", "a,machine,/m/1,-0.1"]
    path = file("b,verification,/m/1,1\n" + "\n\n".join(wrong) + "\n")
    error = refuse(path)
    assert "8 rows" in error.message
    assert [line.removeprefix(f"{path}:") for line in error.offenders] == [
        "3 confidence 2 outside 0..1",
        "5 no image id",
        "7 source robot is not known",
        "9 no label id",
        "11 confidence x outside 0..1",
        "13 confidence blank outside 0..1",
        "15 confidence nan outside 0..1",
        "17 confidence -0.1 outside 0..1",
    ]


def test_class_lists(file):
    path = file("a,verification,/m/1,1\na,verification,/m/2,0\na,verification,/m/3,1\n")
    names = file('/m/1,Crane\n/m/2,Crane\n/m/3,"Sauce, hot"\n', "names.csv", header="LabelName,DisplayName\n")
    table, report = read(path, descriptions=names)
    assert table.classes == ("Crane (/m/1)", "Crane (/m/2)", "Sauce, hot")
    assert any("several ids" in note for note in report.notes)
    assert refuse(path, descriptions=names, classes=["Crane"]).offenders == ["Crane: /m/1, /m/2"]
    assert read(path, descriptions=names, classes=["/m/2", "Sauce, hot"])[0].class_ids == ("/m/2", "/m/3")
    boxable = file("/m/3,Sauce\n/m/9,None\n", "class-descriptions-boxable.csv", header="")
    table, report = read(path, classes=boxable)
    assert (table.classes, table.class_ids) == (("Sauce", "None"), ("/m/3", "/m/9"))
    assert report.dropped["labels of 2 classes that are not in the class list"].count == 2
    table, report = read(
        path, descriptions=names, rename={"Crane (/m/1)": "Crane", "Crane (/m/2)": "Crane"}, conflicts="absent"
    )
    assert (table.classes, table.class_ids) == (("Crane", "Sauce, hot"), ("/m/1", "/m/3"))
    assert rows(table) == {"a": [-1, 1]}


@pytest.mark.parametrize(
    ("text", "place"),
    [("/m/1\n", "1 "), ("/m/1,A\n/m/1,B\n", "2 /m/1 is A and B"), ('/m/1,"A\n', "1 "), ("/m/1,A\n/m/2,B,C\n", "2 ")],
)
def test_broken_descriptions(file, text, place):
    path = file("a,verification,/m/1,1\n")
    names = file(text, "names.csv", header="")
    assert refuse(path, descriptions=names).offenders[0].startswith(f"{names}:{place}")


def test_image_lists(file):
    path = file("a,verification,/m/1,1\nb,verification,/m/1,0\n")
    for content in (
        "ImageID,Subset\nc,train\nb,train\n",
        "c\nb\n",
        "c,x.jpg\nb,y.jpg\n",
        'Subset,ImageID\n"train","c"\nval,b\n',
    ):
        table, report = read(path, image_list=file(content, "images.csv", header=""))
        assert rows(table) == {"c": [0], "b": [-1]}
        assert report.dropped["images that are not in the image list, with 1 label"].examples == ["a"]
    assert "only blank lines" in refuse(path, image_list=file("\n", "images.csv", header="")).message


def test_wrong_options_and_places(file, tmp_path):
    path = file("a,verification,/m/1,1\n")
    for value in ("0", "1.5", "much"):
        assert "above 0 and up to 1" in refuse(path, machine_threshold=value).message
    assert "no annotation file" in refuse(tmp_path / "*.tsv").message
    (tmp_path / "empty").mkdir()
    assert "no annotation file" in refuse(tmp_path / "empty").message
    assert "cannot be read" in refuse(tmp_path / "none.csv").message


IDS = st.text("ab01.-_é \u00fc", min_size=1, max_size=4).map(str.strip).filter(bool)
SAID = st.sampled_from(
    [("verification", "1", "present"), ("crowdsource-verification", "0", "absent"), (" Verification", "1.0", "present")]
)


@given(
    st.lists(st.tuples(IDS, st.sampled_from(["/m/1", "/m/2", "/m/3"]), SAID), min_size=1, max_size=12),
    st.sampled_from(["unknown", "present", "absent", "majority"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.booleans(),
    st.permutations(["ImageID", "Source", "LabelName", "Confidence", "Other"]),
)
@settings(max_examples=30, deadline=None)
def test_files_with_quirks_agree_with_the_naive_reading(said, policy, ending, encoding, quoted, columns):
    settled = naive.settle([(image, label, word) for image, label, (_, _, word) in said], policy)
    images = list(dict.fromkeys(image for image, _, _ in said))
    labels = sorted({label for _, label, _ in said})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        with open(path, "w", encoding=encoding, newline="") as out:
            writer = csv.writer(out, lineterminator=ending, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
            writer.writerow(columns)
            for image, label, (source, cell, _) in said:
                line = {"ImageID": f" {image}", "Source": source, "LabelName": label, "Confidence": cell, "Other": "x"}
                writer.writerow([line[name] for name in columns])
        table, report = read(path, conflicts=policy)
    assert table.images.to_pylist() == images
    assert list(table.classes) == labels
    assert table.dense().tolist() == naive.matrix(images, labels, settled, "unknown")
    assert report.rows == len(said)


NAME = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=6)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_what_is_written_is_read_back(data):
    images = data.draw(st.lists(NAME, min_size=1, max_size=5, unique=True))
    ids = data.draw(st.lists(NAME, min_size=1, max_size=4, unique=True))
    labels = data.draw(arrays(np.int8, (len(images), len(ids)), elements=st.sampled_from([-1, 0, 1])))
    table = LabelTable.from_dense(images, [f"class {n}" for n in range(len(ids))], labels, class_ids=ids)
    free = np.argwhere(labels == 0)[:1]
    table = table.with_labels(free[:, 0], free[:, 1], np.ones(len(free)), origin="model", score=np.full(len(free), 2.0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        formats.write("openimages", table, path)
        again, _ = read(path, descriptions=dict(zip(ids, table.classes, strict=True)), machine_threshold=0.5)
        clean, _ = read(path, descriptions=dict(zip(ids, table.classes, strict=True)))
    stated = np.flatnonzero((table.dense() != 0).any(1))
    assert again.images.to_pylist() == [images[i] for i in stated]
    assert (again.classes, again.class_ids) == (table.classes, table.class_ids)
    np.testing.assert_array_equal(again.dense(), table.dense(stated))
    np.testing.assert_array_equal(again.origin, table.origin)
    np.testing.assert_allclose(again.score[again.origin == 1], 2.0, atol=1e-4) if len(free) else None
    np.testing.assert_array_equal(clean.dense(), labels[stated])


def test_model_labels_without_score_and_names_without_ids(tmp_path):
    table = LabelTable.from_dense(['a,"b"', "x"], ["Sauce, hot", '5"'], [[1, -1], [0, 0]])
    table = table.with_labels([1, 1], [0, 1], [1, -1], origin="model")
    formats.write("openimages", table, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == (
        HEADER + '"a,""b""",verification,"Sauce, hot",1\n"a,""b""",verification,"5""",0\n'
        'x,machine,"Sauce, hot",1\nx,machine,"5""",0\n'
    )
    again, _ = read(tmp_path / "t.csv", classes=["Sauce, hot", '5"'], machine_threshold=1)
    assert rows(again) == {'a,"b"': [1, -1], "x": [1, 0]}


GOOD = (HEADER + "".join(f"{n:04x},verification,/m/{n % 3},{n % 2}\n" for n in range(40))).encode()


@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=4), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_damaged_files_give_an_error_or_a_table(at, put, cut):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        path.write_bytes(GOOD[:at] + put + GOOD[at + cut :])
        try:
            table, report = read(path)
        except UserError as error:
            report, table, text = None, None, str(error)
        if table is None:
            assert "labels.csv" in text
        else:
            assert report.rows >= table.num_known == report.known


def test_a_million_pairs_in_small(tmp_path, monkeypatch):
    """100,000 rows of 9,605 classes: the counts are those of the rows, and no matrix is ever built."""
    rng = np.random.default_rng(0)
    key = np.unique(rng.integers(0, 10_000 * 9605, 100_000))
    rng.shuffle(key)
    image, cls, value = key // 9605, key % 9605, rng.integers(0, 2, len(key))
    path = tmp_path / "many.csv"
    lines = (f"{i:016x},verification,/m/{c:05x},{v}\n" for i, c, v in zip(image, cls, value, strict=True))
    path.write_text(HEADER + "".join(lines))
    monkeypatch.setattr(LabelTable, "dense", None)
    seen = []
    with watched(lambda done, total: seen.append((done, total))):
        table, report = read(path)
    assert seen[-1][0] <= seen[-1][1]
    assert (report.rows, report.known, report.present) == (len(key), len(key), value.sum())
    ids = np.array([int(name.removeprefix("/m/"), 16) for name in table.class_ids])
    present, absent = table.class_counts()
    np.testing.assert_array_equal(present, np.bincount(cls[value == 1], minlength=9605)[ids])
    np.testing.assert_array_equal(absent, np.bincount(cls[value == 0], minlength=9605)[ids])
