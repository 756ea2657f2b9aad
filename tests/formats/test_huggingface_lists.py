"""Data sets of Hugging Face with a list of values for each image, told from lists of class numbers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel import formats
from partlabel.core.errors import UserError
from tests.formats.cases import rows
from tests.formats.huggingface_made import (
    FILES,
    NAMES,
    class_label,
    labels_of,
    refuse,
    save,
)


def test_lists_with_a_value_for_each_class_are_told_from_class_numbers(tmp_path):
    """Three values for three classes repeat 0 or 1, which class numbers of one image do not."""
    values = [[0, 1, 1], [0, 0, 0], None]
    path = save(tmp_path / "t.parquet", {"file_name": ["a", "b", "c"], "labels": values})
    assert "lists of numbers (0, 1) and no class names" in refuse(path).message
    error = refuse(path, classes=NAMES)
    assert "--coding 1=present,0=absent" in error.message
    assert error.offenders == ["labels: 0 (4), 1 (2)"]
    for coding, absent in (("zero-absent", -1), ("zero-unknown", 0)):
        table, report = formats.read("huggingface", path, classes=NAMES, coding=coding)
        assert rows(table) == {"a": [absent, 1, 1], "b": [absent] * 3, "c": [0] * 3}
        assert table.classes == tuple(NAMES)
        assert report.values["1"].cells == 2
        assert coding in report.coding
    assert labels_of(path, classes=NAMES, coding="numbers") == {"a": [1, 1, 0], "b": [1, 0, 0], "c": [0, 0, 0]}
    for kind, entries in ((pa.float64(), [[1.0, 0.0, -1.0]] * 3), (pa.int8(), [[1, 0, -1], [1, 1, 0], [0, 0, 0]])):
        columns = {"file_name": ["a", "b", "c"], "labels": pa.array(entries, pa.list_(kind))}
        path = save(tmp_path / "t.parquet", columns)
        assert labels_of(path, classes=NAMES)["a"] == [1, 0, -1]  # both signs and 0: no other reading
    path = save(tmp_path / "t.parquet", {"file_name": ["a"], "labels": [[True, False, False]]})
    assert "could be read in more than one way" in refuse(path, classes=NAMES).message
    assert labels_of(path, classes=NAMES, coding="words") == {"a": [1, -1, -1]}


def test_two_values_for_two_classes_may_be_class_numbers(tmp_path):
    columns = {"file_name": ["a", "b"], "labels": [[0, 1], [1, 0]]}
    path = save(tmp_path / "t.parquet", columns)
    message = refuse(path, classes="x,y").message
    assert "coding=numbers" in message
    assert "coding=zero-absent" in message
    assert labels_of(path, classes="x,y", coding="numbers") == {"a": [1, 1], "b": [1, 1]}
    assert labels_of(path, classes="x,y", coding="zero-absent") == {"a": [-1, 1], "b": [1, -1]}
    named = save(tmp_path / "n.parquet", columns, {"labels": [class_label("x", "y")]})
    assert labels_of(named) == {"a": [1, 1], "b": [1, 1]}  # the data set says that these are class numbers
    assert labels_of(named, coding="zero-absent") == {"a": [-1, 1], "b": [1, -1]}
    assert labels_of(named, coding="zero-absent", classes="y") == {"a": [1], "b": [-1]}
    switches = save(tmp_path / "s.parquet", columns, {"labels": [class_label("no", "yes")]})
    assert "name the classes" in refuse(switches).message
    assert refuse(switches, classes="x,y").offenders == ["labels: no (2), yes (2)"]
    assert labels_of(switches, classes="x,y", coding="words") == {"a": [-1, 1], "b": [1, -1]}
    switches = save(tmp_path / "s.parquet", columns, {"labels": [class_label("yes", "no")]})
    assert labels_of(switches, classes="x,y", coding="words") == {"a": [1, -1], "b": [-1, 1]}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_values_are_never_taken_for_class_numbers(data):
    """Whatever 0, 1 and -1 the lists hold: they are read as values, or refused; with a coding they are read."""
    size = data.draw(st.integers(1, 4))
    entry = st.sampled_from(data.draw(st.sampled_from([[0, 1], [-1, 0, 1], [1]])))
    values = data.draw(st.lists(st.lists(entry, min_size=size, max_size=size), min_size=1, max_size=4))
    names = [f"c{i}" for i in range(size)]
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder) / "t.parquet", {"file_name": list("abcd")[: len(values)], "labels": values})
        try:
            found = list(labels_of(path, classes=names).values())
        except UserError as error:
            found = values if "coding" in error.message else []
        assert found == values
        assert list(labels_of(path, classes=names, coding="native").values()) == values


def test_values_that_do_not_fit_name_their_rows(tmp_path):
    path = save(tmp_path / "t.parquet", {"file_name": ["a", "b", "c"], "labels": [[0, 1], [1, 1, 1], [3, None]]})
    assert refuse(path, classes="x,y", coding="zero-absent").offenders == [
        f"{path}: row 2: 3 values in labels, 2 classes",
        f"{path}: row 3: values in labels that are none of 1 = present; 0 = absent; blank = unknown",
    ]
    assert "no such lists" in refuse(FILES / "objects.parquet", image_column="image_id", coding="native").message


def test_a_list_that_was_written_as_text_is_a_list(tmp_path):
    texts = ["['cat', 'dog']", '["dog"]', "[]", "owl [small]", None, "['it\\'s']"]
    path = save(tmp_path / "t.parquet", {"file_name": list("abcdef"), "labels": texts})
    table, _ = formats.read("huggingface", path, not_listed="absent")
    assert table.classes == ("cat", "dog", "it's", "owl [small]")
    assert rows(table)["a"] == [1, 1, -1, -1]
    assert rows(table)["c"] == [0] * 4
    assert rows(table)["e"] == [0] * 4


def test_a_list_of_values_that_was_written_as_text_is_refused(tmp_path):
    path = save(tmp_path / "t.parquet", {"file_name": list("abc"), "labels": ["[1, 0]", "cat", "[1, 0]"]})
    assert refuse(path).offenders == [
        f"{path}: row {row}: [1, 0] is a list of something else than names" for row in (1, 3)
    ]
