"""Answers in the label table, and the files that it is written to."""

from __future__ import annotations

import numpy as np
import pytest

from partlabel import formats, train
from partlabel.app.review.exporting import format_names, with_answers, write
from partlabel.app.review.verdicts import Verdict
from partlabel.core.errors import UserError
from partlabel.labels.table import ORIGINS, LabelTable
from tests.app.review.made import said
from tests.pictures import make_pictures, tiny_config

NAMES = ["a.png", "b.png", "c.png"]


def rows(table):
    """(image, class) -> (value, origin)"""
    known = zip(table.pair_images(), table.indices, table.values, table.origin, strict=True)
    return {(table.images[int(i)].as_py(), table.classes[c]): (int(v), ORIGINS[o]) for i, c, v, o in known}


def test_every_origin_by_hand():
    table = LabelTable.from_dense(NAMES, ["x", "y", "z"], [[1, 1, 0], [0, 0, 0], [0, 0, 0]])
    table = table.with_labels([1, 1], [0, 1], [1, 1], origin="model", score=[2.0, 2.0], round=1)
    table = table.with_labels([1], [2], [-1], origin="sampled").with_labels([2], [0], [1], origin="review")
    yes, no = Verdict("yes", False, ()), Verdict("no", False, ())
    made, counts = with_answers(
        table,
        {
            ("a.png", "x"): yes,  # a person said so already
            ("a.png", "y"): no,  # against a person
            ("a.png", "z"): no,  # new
            ("b.png", "x"): yes,  # the model is right
            ("b.png", "y"): no,  # the model is wrong
            ("b.png", "z"): Verdict("yes", True, ()),  # a conflict
            ("c.png", "x"): no,  # against an earlier review
            ("c.png", "y"): Verdict("skip", False, ()),
            ("c.png", "w"): yes,  # the table lacks the class
            ("d.png", "x"): yes,  # and the image
        },
    )
    assert rows(made) == {
        ("a.png", "x"): (1, "given"),
        ("a.png", "y"): (-1, "review"),
        ("a.png", "z"): (-1, "review"),
        ("b.png", "x"): (1, "review"),
        ("b.png", "y"): (-1, "review"),
        ("b.png", "z"): (-1, "sampled"),
        ("c.png", "x"): (-1, "review"),
    }
    assert (counts.answers, counts.confirmed, counts.changed) == (5, 1, 2)
    assert (counts.unsettled, counts.strange) == (1, 2)
    assert made.score is None or np.isnan(made.score).all()  # those of the model's labels are gone with them
    assert table.num_known == 6  # the table that was reviewed stays as it is


def test_no_answers_change_nothing():
    table = LabelTable.from_dense(NAMES, ["x"], [[1], [0], [-1]])
    empty = LabelTable.from_dense(NAMES, ["x"], [[0], [0], [0]])
    assert with_answers(table, {})[0].content_hash() == table.content_hash()
    made, counts = with_answers(empty, {("a.png", "x"): Verdict("yes", False, ())})
    assert (rows(made), counts.answers) == ({("a.png", "x"): (1, "review")}, 1)


def test_classes_that_the_model_does_not_know_are_exported_too(made, desk):
    desk.whole = desk.whole.merge(LabelTable.from_dense(["000.png"], ["more"], [[1]]))
    done = desk.export("parquet")
    assert "more" in LabelTable.read_parquet(done["path"]).classes


@pytest.mark.parametrize("format", format_names())
def test_every_format_is_written_and_read_back(tmp_path, format):
    table = LabelTable.from_dense(NAMES, ["x", "y"], [[1, -1], [-1, 1], [1, 0]])
    path = write(table, format, tmp_path)
    assert path.parent == tmp_path
    if format == "parquet":
        read = LabelTable.read_parquet(path)
    else:
        options = {
            "csv": {"coding": "native"},
            "coco": {"not_listed": "unknown"},
            "labelstudio": {"answers": "predictions"},
        }.get(format, {})
        read = formats.read(format, path, **options)[0]
    origin = "model" if format == "labelstudio" else "given"  # as predictions, which a person has yet to confirm
    assert sorted(rows(read).values()) == sorted((label, origin) for label, _ in rows(table).values())


def test_a_format_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(UserError, match="parquet, csv"):
        write(LabelTable.from_dense(NAMES, ["x"], [[1], [0], [1]]), "voc", tmp_path)
    assert not list(tmp_path.iterdir())


def test_train_takes_what_was_exported(tmp_path, desk, made):
    labels = make_pictures(tmp_path / "pictures", 40)  # other images, under the names of the run
    assert labels.images.to_pylist() == made.table.images.to_pylist()
    open_pairs = np.argwhere(made.table.dense() == 0)[:10]
    desk.answer("me", "1", [said(desk, int(i), int(c), "yes") for i, c in open_pairs], False)
    done = desk.export("parquet")
    table = LabelTable.read_parquet(done["path"])
    assert (done["answers"], done["labels"]) == (10, made.table.num_known + 10)
    assert sum(origin == "review" for _, origin in rows(table).values()) == 10
    summary = train(table, tmp_path / "pictures", out=tmp_path / "next", config=tiny_config(optim__epochs=1)).summary
    assert summary["known_labels"] == table.num_known
