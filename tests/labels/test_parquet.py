from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.core.errors import UserError
from partlabel.labels import parquet
from partlabel.labels.table import LabelTable
from tests.tables import hand, matrices, table_of


def same(one: LabelTable, two: LabelTable) -> None:
    assert one.content_hash() == two.content_hash()
    assert (one.class_ids, one.coding, one.history) == (two.class_ids, two.coding, two.history)
    for name in ("score", "round"):
        np.testing.assert_equal(getattr(one, name), getattr(two, name))
    assert (one.groups is None) == (two.groups is None)
    assert one.groups is None or one.groups.equals(two.groups)


@settings(deadline=None, max_examples=25)
@given(matrices, st.sampled_from([1, 3, 65_536]), st.booleans())
def test_file_gives_back_every_part(tmp_path_factory, matrix, rows, complete):
    path = tmp_path_factory.mktemp("labels") / "labels.parquet"
    size = len(matrix)
    table = table_of(matrix)
    if complete:
        table = table_of(
            matrix, origin="model", class_ids=[f"/m/{j}" for j in range(matrix.shape[1])],
            groups=[None if i % 4 == 0 else f"é{i % 3}" for i in range(size)], coding="1 ja, 0 nein",
            score=np.linspace(-1, 1, np.count_nonzero(matrix)), round=np.full(np.count_nonzero(matrix), 4),
            history=[{"operation": "import", "seed": 3}],
        )  # fmt: skip
    parquet.ROWS, usual = rows, parquet.ROWS
    try:
        table.write_parquet(path)
    finally:
        parquet.ROWS = usual
    same(table, LabelTable.read_parquet(path))


def test_file_layout_is_one_row_for_each_image(tmp_path):
    hand(groups=["p", "p", ""]).write_parquet(tmp_path / "t.parquet")
    content = pq.read_table(tmp_path / "t.parquet")
    assert content.to_pylist() == [
        {"image": "a", "classes": [0, 1], "labels": [1, -1], "origin": [0, 0], "group": "p"},
        {"image": "b", "classes": [], "labels": [], "origin": [], "group": "p"},
        {"image": "c", "classes": [0, 1, 2], "labels": [1, 1, -1], "origin": [0, 0, 0], "group": None},
    ]
    about = json.loads(content.schema.metadata[b"partlabel"])
    assert isinstance(about.pop("checksum"), int)
    assert about == {"version": 1, "classes": ["cat", "dog", "car"], "class_ids": None, "coding": "", "history": []}


def test_files_that_are_not_whole_or_not_ours_are_refused(tmp_path):
    whole = tmp_path / "whole.parquet"
    hand().write_parquet(whole)
    content = whole.read_bytes()
    cut = tmp_path / "cut.parquet"
    for size in (0, 3, len(content) // 2, len(content) - 1):
        cut.write_bytes(content[:size])
        with pytest.raises(UserError, match=r"cut\.parquet: not a readable Parquet file"):
            LabelTable.read_parquet(cut)
    with pytest.raises(UserError, match="no such file"):
        LabelTable.read_parquet(tmp_path / "none.parquet")
    with pytest.raises(UserError, match="not a readable"):
        LabelTable.read_parquet(tmp_path)
    pq.write_table(pa.table({"image": ["a"], "cat": [1]}), cut)
    with pytest.raises(UserError, match="not a label table"):
        LabelTable.read_parquet(cut)


def test_files_changed_by_others_are_refused(tmp_path):
    path = tmp_path / "t.parquet"
    hand().write_parquet(path)
    content = pq.read_table(path)
    pq.write_table(content.set_column(0, "image", pa.array(["a", "b", "d"])), path)
    with pytest.raises(UserError, match="does not fit its check sum"):
        LabelTable.read_parquet(path)
    about = json.loads(content.schema.metadata[b"partlabel"])
    del about["checksum"]  # the other checks are what is left for files of other programs
    content = content.replace_schema_metadata({b"partlabel": json.dumps(about)})

    def changed(name, values, kind):
        column = pa.array(values, kind)
        pq.write_table(content.set_column(content.schema.get_field_index(name), name, column), path)
        with pytest.raises(UserError, match=r"t\.parquet: ") as error:
            LabelTable.read_parquet(path)
        return error.value

    assert "class outside" in changed("classes", [[0, 1], [], [0, 1, 3]], pa.list_(pa.int32())).message
    assert changed("labels", [[1, -1], [], [1, 1, 0]], pa.list_(pa.int8())).offenders == ["c, car: 0"]
    assert "differ in length" in changed("labels", [[1], [1], [1, 1, 1]], pa.list_(pa.int8())).message
    assert "missing values" in changed("labels", [[1, None], [], [1, 1, 1]], pa.list_(pa.int8())).message
    assert "missing values" in changed("labels", [[1, 1], None, [1, 1, 1]], pa.list_(pa.int8())).message
    assert "expected a list of int8" in changed("labels", [[1, 1], [], [1, 1, 1]], pa.list_(pa.int64())).message
    assert changed("image", ["a", "a", "b"], pa.string()).offenders == ["a: 2 times"]
    newer = {"version": 2, "classes": [], "class_ids": None, "coding": "", "history": []}
    for text in ("{}", "no json", json.dumps(newer)):
        pq.write_table(content.replace_schema_metadata({b"partlabel": text}), path)
        with pytest.raises(UserError, match=r"damaged|newer partlabel"):
            LabelTable.read_parquet(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    hand().write_parquet(path)
    before = path.read_bytes()

    def half(content, where, **options):
        Path(where).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(OSError, match="disk full"):
        hand(origin="asked").write_parquet(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_a_bit_that_flipped_is_noticed_or_changes_nothing(tmp_path):
    """Every outcome is the same table or a sentence; never other labels, and never another error."""
    random = np.random.default_rng(0)
    matrix = random.integers(-1, 2, (200, 6)).astype(np.int8)
    table = table_of(matrix, groups=[f"g{i % 7}" for i in range(200)])
    path, damaged = tmp_path / "t.parquet", tmp_path / "damaged.parquet"
    table.write_parquet(path)
    whole = path.read_bytes()
    noticed = 0
    for bit in random.choice(8 * len(whole), 600, replace=False):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(data)
        try:
            same(table, LabelTable.read_parquet(damaged))
        except UserError:
            noticed += 1
    assert noticed > 400


def test_files_without_a_check_sum_are_read(tmp_path):
    path = tmp_path / "t.parquet"
    hand().write_parquet(path)
    content = pq.read_table(path)
    about = json.loads(content.schema.metadata[b"partlabel"])
    del about["checksum"]
    pq.write_table(content.replace_schema_metadata({b"partlabel": json.dumps(about)}), path)
    same(hand(), LabelTable.read_parquet(path))
