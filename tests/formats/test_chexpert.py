"""CheXpert and MIMIC-CXR tables: the real-world case, patients, views, studies."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from partlabel.formats.chexpert import FINDINGS
from tests.formats.cases import case, rows


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("chexpert", path, **options)
    return caught.value


@pytest.fixture
def put(tmp_path):
    def write(text, name="t.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_lbl_01_without_any_option():
    folder, expected = case("LBL-01")
    table, report = formats.read("chexpert", folder / "train.csv")
    assert list(table.classes) == expected["classes"]
    assert rows(table) == expected["labels"]
    assert report.cells("uncertain") == expected["uncertain_cells"]
    assert report.cells("blank") == expected["blank_cells"]
    assert any("Sex, Age" in note for note in report.notes)
    assert table.groups is None
    assert "no patient in the path of 3 images" in report.warnings[0]


def test_uncertain_and_blank_by_option():
    path = case("LBL-01")[0] / "train.csv"
    for word, value in (("unknown", 0), ("present", 1), ("absent", -1)):
        for blank, other in (("unknown", 0), ("absent", -1)):
            table, _ = formats.read("chexpert", path, uncertain=word, not_listed=blank)
            assert rows(table)["study01/view1.jpg"] == [other, 1, value, -1]


CHEXPERT = """Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Edema,Fracture
CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg,Female,68,Frontal,AP,1.0,,
CheXpert-v1.0-small/train/patient00002/study2/view1_frontal.jpg,Female,87,Frontal,AP,,-1.0,0.0
CheXpert-v1.0-small/train/patient00002/study2/view2_lateral.jpg,Female,87,Lateral,,,1.0,
CheXpert-v1.0-small/train/patient00003/study1/view1_frontal.jpg,Male,1,,,,,
"""


def test_patients_are_groups(put):
    table, report = formats.read("chexpert", put(CHEXPERT))
    assert table.groups.to_pylist() == ["patient00001", "patient00002", "patient00002", "patient00003"]
    assert not any("patient" in warning for warning in report.warnings)
    table, report = formats.read("chexpert", put(CHEXPERT + "patient7.jpg,,,,,1,,\n"))
    assert table.groups.to_pylist()[-2:] == ["patient00003", None]
    assert "patient7.jpg" in report.warnings[0]


def test_views(put):
    path = put(CHEXPERT)
    for view, images, labels in (
        ("frontal", [0, 1], [[1, 0, 0], [0, 0, -1]]),
        ("lateral", [2], [[0, 1, 0]]),
        ("all", [0, 1, 2, 3], [[1, 0, 0], [0, 0, -1], [0, 1, 0], [0, 0, 0]]),
    ):
        table, report = formats.read("chexpert", path, view=view)
        lines = CHEXPERT.splitlines()[1:]
        assert table.images.to_pylist() == [lines[i].split(",")[0] for i in images]
        assert table.dense().tolist() == labels
        left_out = report.dropped.get(f"images that are not {view}")
        assert (left_out.count if left_out else 0) == 4 - len(images)
    assert "cannot be told apart" in refuse(put("Path,Edema\na.jpg,1\n"), view="frontal").message


STUDIES = """subject_id,study_id,Edema,Fracture
10000032,50414267,1.0,
10000032,53189527,,-1.0
10000764,57375967,0.0,
10000935,50578979,,1.0
"""
PICTURES = """dicom_id,subject_id,study_id,ViewPosition
02aa,10000032,50414267,PA
174d,10000032,50414267,LATERAL
2a2a,10000032,53189527,PA
096b,10000764,57375967,AP
ffff,10000999,50000000,AP
"""


def test_studies_with_the_table_of_their_images(put):
    path, metadata = put(STUDIES), put(PICTURES, "metadata.csv")
    table, report = formats.read("chexpert", path, metadata=metadata)
    assert rows(table) == {
        "files/p10/p10000032/s50414267/02aa.jpg": [1, 0],
        "files/p10/p10000032/s50414267/174d.jpg": [1, 0],
        "files/p10/p10000032/s53189527/2a2a.jpg": [0, 0],
        "files/p10/p10000764/s57375967/096b.jpg": [-1, 0],
    }
    assert table.groups.to_pylist() == ["p10000032"] * 3 + ["p10000764"]
    assert report.dropped["studies without an image"].examples == ["50578979"]
    assert report.dropped["images of studies without labels"].examples == ["files/p10/p10000999/s50000000/ffff.jpg"]
    table, report = formats.read("chexpert", path, metadata=metadata, view="lateral", not_listed="absent")
    assert rows(table) == {"files/p10/p10000032/s50414267/174d.jpg": [1, -1]}
    assert report.dropped["images that are not lateral"].count == 4
    assert report.dropped["studies without an image"].count == 3


def test_studies_in_any_order_and_twice(put):
    lines = STUDIES.splitlines()
    path = put("\n".join([lines[0], *reversed(lines[1:]), "10000032,50414267,0.0,"]))
    metadata = put(PICTURES, "metadata.csv")
    error = refuse(path, metadata=metadata)
    assert [line.split(": ")[0] for line in error.offenders] == [
        "files/p10/p10000032/s50414267/02aa.jpg, Edema",
        "files/p10/p10000032/s50414267/174d.jpg, Edema",
    ]
    assert f"{path}:5 present / {path}:6 absent" in error.offenders[0]
    table, _ = formats.read("chexpert", path, metadata=metadata, conflicts="present")
    assert table.dense().tolist() == [[1, 0], [1, 0], [0, 0], [-1, 0]]


def test_compressed_tables_are_read_as_they_are(put):
    plain, packed = put(CHEXPERT), put("", "t.csv.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert formats.read("chexpert", packed)[0].content_hash() == formats.read("chexpert", plain)[0].content_hash()


def test_mistakes_around_studies(put):
    path, metadata = put(STUDIES), put(PICTURES, "metadata.csv")
    assert "a table of studies" in refuse(path).message
    assert "metadata is for a table of studies" in refuse(put(CHEXPERT, "c.csv"), metadata=metadata).message
    assert "no column dicom_id" in refuse(path, metadata=path).message
    assert "ViewPosition" in refuse(path, metadata=put(PICTURES.replace("View", ""), "m.csv"), view="lateral").message
    twice = put(PICTURES + PICTURES.splitlines()[1] + "\n", "twice.csv")
    assert refuse(path, metadata=twice).offenders == ["files/p10/p10000032/s50414267/02aa.jpg"]


def test_columns(put):
    path = put("path,Fracture,edema,Age,Tumour\np1/a.jpg,1,0,70,1\n")
    table, _ = formats.read("chexpert", path)
    assert (table.classes, rows(table)) == (("Fracture", "edema"), {"p1/a.jpg": [1, -1]})
    table, _ = formats.read("chexpert", path, rename="edema=Edema,Fracture=Edema", conflicts="unknown")
    assert (table.classes, rows(table)) == (("Edema",), {"p1/a.jpg": [0]})
    table, _ = formats.read("chexpert", path, classes="Tumour,edema")
    assert (table.classes, rows(table)) == (("Tumour", "edema"), {"p1/a.jpg": [1, -1]})
    assert "none of the 14 CheXpert findings" in refuse(put("Path,Age\na.jpg,1\n")).message
    assert "no column path" in refuse(put("image,Edema\na.jpg,1\n")).message
    error = refuse(put("Path,Edema,Fracture\na.jpg,0.5,1\nb.jpg,1,yes\nc.jpg,,-1\n"))
    assert [line.split("t.csv:")[1] for line in error.offenders] == ["2:2 0.5", "3:3 yes"]


def test_missing_images(put, tmp_path):
    path = put("Path,Edema\npatient1/a.jpg,1\npatient2/b.jpg,0\n")
    (tmp_path / "patient2").mkdir()
    (tmp_path / "patient2" / "b.jpg").touch()
    assert refuse(path, images=tmp_path).offenders == ["patient1/a.jpg"]
    table, _ = formats.read("chexpert", path, images=tmp_path, missing="skip")
    assert (rows(table), table.groups.to_pylist()) == ({"patient2/b.jpg": [-1]}, ["patient2"])


@st.composite
def findings(draw):
    classes = draw(st.lists(st.sampled_from(FINDINGS), min_size=1, unique=True))
    cell = st.sampled_from(["1.0", "0.0", "-1.0", "", "1", "0", "-1"])
    return classes, draw(st.lists(st.lists(cell, min_size=len(classes), max_size=len(classes)), min_size=1, max_size=5))


@given(findings(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_round_trip(content, random):
    classes, cells = content
    header = ["Path", "Sex", "Age", "Frontal/Lateral", *classes]
    lines = [
        [f"train/patient{n:05}/study1/view.jpg", "Male", str(20 + n), "Frontal", *line] for n, line in enumerate(cells)
    ]
    order = list(range(len(header)))
    random.shuffle(order)
    end = random.choice(["\n", "\r\n"])
    text = end.join(",".join(line[i] for i in order) for line in [header, *lines]) + random.choice(["", end])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "t.csv").write_bytes(text.encode(random.choice(["utf-8", "utf-8-sig", "utf-16"])))
        table, _ = formats.read("chexpert", Path(folder, "t.csv"), classes=classes)
        again, _ = formats.read("chexpert", Path(folder, "t.csv"))
    value = {"1.0": 1, "1": 1, "0.0": -1, "0": -1, "-1": 0, "-1.0": 0, "": 0}
    np.testing.assert_array_equal(table.dense(), [[value[cell] for cell in line] for line in cells])
    assert list(table.classes) == classes
    assert set(again.classes) == set(classes)
    assert table.groups.to_pylist() == [f"patient{n:05}" for n in range(len(cells))]


def outcome(path):
    try:
        return formats.read("chexpert", path)[0], ""
    except UserError as error:
        return None, str(error)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_file_gives_an_error_with_its_name_or_a_table(data):
    content = CHEXPERT.encode()
    damaged = data.draw(st.one_of(st.binary(max_size=40), st.integers(0, len(content)).map(lambda n: content[:n])))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        path.write_bytes(damaged)
        table, message = outcome(path)
    if table is None:
        assert "t.csv" in message
    else:
        assert damaged == content[: len(damaged)]
        assert table.images.to_pylist()[:1] in ([], ["CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg"])
