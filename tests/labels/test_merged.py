"""Label tables of several files made one, and the command for it."""

from __future__ import annotations

import json
import shutil

import pytest

from partlabel import LabelTable, formats
from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.labels.merged import merge_files
from tests.formats.cases import CASES, rows

FOLDER = CASES / "MERGE-01"


@pytest.fixture
def save(tmp_path):
    def write(name, *arguments, **more):
        path = tmp_path / f"{name}.parquet"
        LabelTable.from_dense(*arguments, **more).write_parquet(path)
        return path

    return write


def test_merge_01_two_data_sets_looked_through_for_other_classes(tmp_path, capsys):
    """Both call their class number 7; an image is in both."""
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    cats, dogs, both = (str(tmp_path / f"{name}.parquet") for name in ("cats", "dogs", "both"))
    for path in (cats, dogs):
        assert main(["import", "coco", path.replace(".parquet", ".json"), "-o", path]) == 0
    capsys.readouterr()
    assert main(["labels", "merge", cats, dogs, "-o", both, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["images"], found["in_several_tables"], found["present"], found["absent"]) == (5, 1, 3, 3)
    table = LabelTable.read_parquet(both)
    assert table.classes == ("cat", "dog")
    assert rows(table) == {
        "c0.jpg": [1, 0],
        "c1.jpg": [-1, 0],
        "both.jpg": [1, -1],
        "d0.jpg": [0, 1],
        "d1.jpg": [0, -1],
    }
    assert table.class_ids is None
    formats.write("coco", table, tmp_path / "out.json")
    assert formats.read("coco", tmp_path / "out.json")[0].class_ids == ("1", "2")


def test_a_class_with_two_ids_loses_them(save):
    one = save("a", ["a"], ["cat", "dog"], [[1, -1]], class_ids=["1", "2"])
    two = save("b", ["b"], ["dog", "cat"], [[1, 0]], class_ids=["1", "2"])
    merged = merge_files([one, two])
    assert (rows(merged.table), merged.table.class_ids) == ({"a": [1, -1], "b": [0, 1]}, None)
    assert merged.warnings == ["class ids are left out, because classes have two: dog: 2 and 1, cat: 1 and 2"]
    assert "warning: class ids" in merged.text()


def test_contradictions_are_named_with_the_files(save, tmp_path, capsys):
    one = save("1", ["a", "b"], ["x", "y"], [[1, 0], [1, 1]])
    two = save("2", ["a", "b"], ["x", "y"], [[-1, 1], [1, -1]])
    with pytest.raises(UserError, match="--conflicts settles them") as caught:
        merge_files([one, two])
    assert caught.value.message.startswith(f"{one}, {two}: 2 labels contradict")
    assert caught.value.offenders == ["a, x: present and absent", "b, y: present and absent"]
    out = tmp_path / "out.parquet"
    assert main(["labels", "merge", str(one), str(two), "-o", str(out)]) == 2
    assert not out.exists()
    capsys.readouterr()
    assert main(["labels", "merge", str(one), str(two), "-o", str(out), "--conflicts", "unknown"]) == 0
    assert "2 of them in several tables" in (text := capsys.readouterr().out)
    assert "2 contradictions settled" in text
    assert rows(LabelTable.read_parquet(out)) == {"a": [0, 1], "b": [1, 0]}


def test_names_that_may_be_one_are_warned_about(save):
    one = save("1", ["x/a.jpg", "b"], ["Cat", "cats", "dog"], [[1, 1, 1]] * 2)
    two = save("2", ["x\\a.JPG", "b.png"], ["cat", "dog"], [[1, 1]] * 2)
    merged = merge_files([one, two, one])
    assert merged.shared == 2
    assert merged.warnings[0].endswith("merge them: Cat / cat")
    assert merged.warnings[1].endswith("x/a.jpg / x\\a.JPG, b / b.png")
    assert merge_files([one, one]).warnings == []
