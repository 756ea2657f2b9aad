"""The real-world cases of label tables: each gives what its expected.json says."""

from __future__ import annotations

import pytest

from partlabel import formats
from partlabel.core.errors import UserError
from partlabel.formats.table import delimited
from tests.formats.cases import case, rows


@pytest.fixture(params=["fast", "exact"], autouse=True)
def reader(request, monkeypatch):
    """Run every case with pyarrow's reader and with the exact one."""
    if request.param == "exact":
        monkeypatch.setattr(delimited.TextTable, "batches", lambda self, columns: self._exact(columns, 0))


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("csv", path, **options)
    return caught.value


def test_lbl_01_minus_one_that_means_uncertain():
    folder, expected = case("LBL-01")
    path = folder / "train.csv"
    ignore = "Sex,Age,Frontal/Lateral,AP/PA"
    for options in (
        {"coding": expected["mapping_given"], "classes": expected["classes"]},
        {"coding": "chexpert", "ignore": ignore},
        {"coding": "1=present,0=absent,-1=uncertain,blank=unknown", "ignore": ignore},
    ):
        table, _ = formats.read("csv", path, **options)
        assert list(table.classes) == expected["classes"]
        assert rows(table) == expected["labels"]
    _, report = formats.read("csv", path, coding="chexpert", ignore=ignore)
    assert report.cells("uncertain") == expected["uncertain_cells"]
    assert report.cells("blank") == expected["blank_cells"]

    for options in ({"coding": "chexpert", "not_listed": "absent"}, {"coding": {**expected["mapping_given"], "": -1}}):
        table, _ = formats.read("csv", path, ignore=ignore, **options)
        assert rows(table) == expected["blank_as_absent_option"]


def test_lbl_01_is_refused_without_a_coding_and_lists_the_values_of_each_column():
    folder, _ = case("LBL-01")
    for options in ({}, {"ignore": "Sex,Age,Frontal/Lateral,AP/PA"}):
        error = refuse(folder / "train.csv", **options)
        assert "not declared" in error.message
        assert "chexpert" in error.message
        assert "Edema: blank (2), -1 (1)" in error.offenders
        assert "Cardiomegaly: blank (1), 0 (1), 1 (1)" in error.offenders


def test_lbl_01_other_columns_never_become_classes():
    folder, _ = case("LBL-01")
    error = refuse(folder / "train.csv", coding="chexpert")
    assert "ignore=" in error.message
    assert [line for line in error.offenders if line.startswith("column")] == [
        "column 2 'Sex': Female, Male, Unknown",
        "column 4 'Frontal/Lateral': Frontal, Lateral",
        "column 5 'AP/PA': AP, PA, blank",
    ]
    assert [line.split("train.csv:")[1] for line in error.offenders[:2]] == ["2:3 61", "3:3 47"]


def test_lbl_02_two_codings_in_one_project():
    folder, expected = case("LBL-02")
    for name, coding in (("native.csv", "native"), ("native.csv", None), ("zero_one_blank.csv", "zero-absent")):
        table, _ = formats.read("csv", folder / name, coding=coding)
        assert list(table.classes) == expected["classes"]
        assert rows(table) == expected["labels"]
    assert "not declared" in refuse(folder / "zero_one_blank.csv").message


def test_lbl_02_zero_without_a_coding_is_refused():
    folder, expected = case("LBL-02")
    path, expected = folder / "zero_one.csv", expected["zero_one.csv"]
    assert refuse(path).offenders == ["cat: 0 (1), 1 (1)", "dog: 0 (1), 1 (1)", "car: 0 (2)"]
    for coding in ("zero-absent", "1=present,0=absent"):
        table, report = formats.read("csv", path, coding=coding)
        assert rows(table) == expected["0=absent"]
    table, report = formats.read("csv", path, coding="zero-unknown")
    expected = dict(expected["0=unknown"])
    assert expected.pop("warning").endswith("car has no known label at all")
    assert rows(table) == expected
    assert any("no class has a known absent label" in line for line in report.warnings)
    assert "no known label at all for car" in report.warnings


@pytest.mark.parametrize("name", ["labels.csv", "labels16.csv", "plain.csv"])
def test_csv_01_marks_encodings_and_separators(name):
    folder, expected = case("CSV-01")
    table, report = formats.read("csv", folder / name)
    assert list(table.classes) == expected["classes"]
    assert rows(table) == expected["labels"]
    assert ("UTF-16" in report.layout) == (name == "labels16.csv")


def test_csv_01_a_header_without_separator_is_shown_as_read(tmp_path):
    (tmp_path / "odd.csv").write_text("\ufeffimage\u200b cat\na.png 1\n", encoding="utf-8")
    error = refuse(tmp_path / "odd.csv")
    assert "separator=" in error.message
    assert r"'image\u200b cat'" in error.offenders[0]


def test_csv_02_ids_are_text():
    folder, expected = case("CSV-02")
    table, report = formats.read("csv", folder / "labels.csv", images=folder / "images")
    assert rows(table) == expected["labels"]
    assert len(report.missing) == expected["missing"]
    assert any("no ending" in note for note in report.notes)


def test_csv_04_awkward_class_names():
    folder, expected = case("CSV-04")
    table, report = formats.read("csv", folder / "wide.csv")
    assert list(table.classes) == expected["wide.csv"]["classes"]
    assert rows(table) == expected["wide.csv"]["labels"]
    assert any("' top shelf'" in note for note in report.notes)


def test_csv_04_tags():
    folder, expected = case("CSV-04")
    for kind, not_listed in (("open_list", "unknown"), ("complete_list", "absent")):
        table, report = formats.read("csv", folder / "tags.csv", tag_separator="|", not_listed=not_listed)
        assert list(table.classes) == expected["tags.csv"]["classes"]
        assert rows(table) == expected["tags.csv"][kind]
        assert report.not_listed == not_listed
    assert "tag_separator" in refuse(folder / "tags.csv").message
    assert "tag_separator" in refuse(folder / "tags.csv", layout="tags").message


def test_csv_06_contradictions_are_never_settled_by_order():
    folder, expected = case("CSV-06")
    path, conflict = folder / "labels.csv", expected["conflict"]
    error = refuse(path)
    assert len(error.offenders) == 1
    assert error.offenders[0].startswith(f"{conflict['image']}, {conflict['class']}: ")
    for line in conflict["lines"]:
        assert f"{path}:{line} " in error.offenders[0]
    table, report = formats.read("csv", path, conflicts="unknown")
    assert list(table.classes) == expected["classes"]
    assert rows(table) == expected["with_conflicts_as_unknown"]
    assert [(c.image, c.class_name, c.settled) for c in report.conflicts] == [("b.png", "cat", "unknown")]
    assert report.repeats == 1


def test_csv_07_words_and_values_that_are_no_labels():
    folder, expected = case("CSV-07")
    for coding in ("words", "true=present,yes=present,1=present,false=absent,no=absent"):
        table, _ = formats.read("csv", folder / "words.csv", coding=coding)
        assert rows(table) == expected["words.csv"]["labels"]
    assert "not declared" in refuse(folder / "words.csv").message
    for options in ({}, {"coding": "native"}):
        error = refuse(folder / "bad.csv", **options)
        wanted = [
            f"{folder / file}:{line}:{column} {value}" for file, line, column, value in expected["bad.csv"]["errors"]
        ]
        assert error.offenders == wanted


def test_csv_08_as_many_values_as_classes():
    folder, expected = case("CSV-08")
    options = {"layout": "list", "classes": folder / "names.txt", "coding": "1=present,0=absent"}
    table, _ = formats.read("csv", folder / "ok.txt", **options)
    assert rows(table) == expected["ok.txt"]
    double, short = refuse(folder / "double.txt", **options), refuse(folder / "short.txt", **options)
    assert f"{folder / 'double.txt'}:1 6 values at the end, 3 classes: a.png 1 0 1 0 0 1" in double.offenders
    assert short.offenders == [f"{folder / 'short.txt'}:2 2 values at the end, 3 classes: b.png 0 0"]


def test_csv_09_all_absent_is_not_all_unknown():
    folder, expected = case("CSV-09")
    table, report = formats.read("csv", folder / "labels.csv")
    assert rows(table) == expected["labels"]
    assert report.images == expected["images"]
    assert report.without_known.examples == expected["no_known_label"]
    assert report.without_present.examples == expected["no_positive"]
    assert report.known_proportion == expected["known_proportion"]


def test_csv_10_spellings():
    folder, expected = case("CSV-10")
    table, report = formats.read("csv", folder / "long.csv")
    assert list(table.classes) == expected["classes_without_rename"]
    assert table.num_known == expected["known"] == report.rows
    assert report.look_alikes == expected["warn_lookalike"]
    assert report.similar == [("pedstrian", "Pedestrian")]
    assert "look alike: Person / person / PERSON" in report.text()
    assert any("Unicode" in note for note in report.notes)
    assert any("'person '" in note for note in report.notes)

    table, report = formats.read("csv", folder / "long.csv", rename=expected["with_rename"])
    assert list(table.classes) == expected["classes_with_rename"]
    assert table.num_known == expected["known"]
    assert not report.look_alikes
    assert not report.similar


def test_csv_11_paths_with_blanks():
    folder, expected = case("CSV-11")
    assert expected["coding"] == "1 present, 0 absent"
    table, _ = formats.read(
        "csv", folder / "list.txt", layout="list", classes=folder / "names.txt", coding="zero-absent"
    )
    assert rows(table) == expected["labels"]


def test_cur_04_positives_only():
    folder, expected = case("CUR-04")
    path = folder / "labels.csv"
    assert "not declared" in refuse(path).message
    table, report = formats.read("csv", path, coding="zero-unknown")
    assert report.absent == expected["known_absent"]
    assert any("minimal when everything is present" in line for line in report.warnings) == expected["warning"]

    table, report = formats.read("csv", path, coding="zero-unknown", not_listed="absent")
    assert rows(table) == expected["assume_absent_option"]
    assert "absent" in report.text().split("not listed")[1].splitlines()[0]
    assert "not listed = absent" in table.coding
    assert table.history[0]["not_listed"] == "absent"
