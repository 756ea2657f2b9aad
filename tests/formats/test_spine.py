"""What every reader shares: options, class names, repeats, contradictions, models beside people, missing files."""

from __future__ import annotations

import numpy as np
import pytest

from partlabel.errors import UserError
from partlabel.formats import options as read_as
from partlabel.formats.report import ImportReport
from partlabel.formats.source import Source, unique
from partlabel.formats.spine import CommonOptions, finish, option, without
from partlabel.label_pairs import MODEL, ORIGINS, REVIEW
from tests.formats.cases import rows


def source(statements, images=("a", "b"), classes=("cat", "dog"), **more):
    """Statements are (image, class, value) as numbers; statement i stands on line i + 1."""
    image, cls, value = (np.array([s[k] for s in statements], int) for k in range(3))
    return Source(
        unique(list(images))[0],
        list(classes),
        image,
        cls,
        value,
        lambda rows: [f"f:{row + 1}" for row in rows],
        **more,
    )


def read(said, not_listed=None, **options):
    report = ImportReport("f", "test")
    return finish(said, CommonOptions(**options), report, not_listed=not_listed), report


def test_unique_names_keep_their_order():
    names, number = unique(["b", "a", "b"])
    assert (names.to_pylist(), number.tolist()) == (["b", "a"], [0, 1, 0])


def test_statements_become_a_table():
    table, report = read(source([(1, 0, 1), (0, 1, -1), (1, 1, 0), (1, 0, 1)]))
    assert rows(table) == {"a": [0, -1], "b": [1, 0]}
    assert (report.repeats, report.present, report.absent) == (1, 1, 1)


def test_uncertain_pairs_stay_unknown_where_the_rest_is_absent():
    table, _ = read(source([(0, 0, 1), (1, 1, 0)]), not_listed="absent")
    assert rows(table) == {"a": [1, -1], "b": [-1, 0]}
    assert table.history[0]["not_listed"] == "absent"


def test_images_that_nobody_labelled_stay_unknown():
    table, report = read(source([(0, 0, 1)], unlabelled=np.array([False, True])), not_listed="absent")
    assert rows(table) == {"a": [1, -1], "b": [0, 0]}
    assert (report.without_annotations.count, report.without_annotations.examples) == (1, ["b"])


def test_contradictions_are_listed_with_their_places():
    said = [(0, 0, 1), (0, 0, -1), (1, 1, -1), (1, 1, 1), (1, 1, 1)]
    with pytest.raises(UserError, match="f: 2 labels stated both present and absent") as caught:
        read(source(said))
    assert caught.value.offenders == [
        "a, cat: f:1 present / f:2 absent",
        "b, dog: f:3 absent / f:4 present / f:5 present",
    ]
    for policy, expected in (
        ("unknown", {"a": [0, 0], "b": [0, 0]}),
        ("present", {"a": [1, 0], "b": [0, 1]}),
        ("absent", {"a": [-1, 0], "b": [0, -1]}),
        ("majority", {"a": [0, 0], "b": [0, 1]}),
    ):
        table, report = read(source(said), conflicts=policy)
        assert rows(table) == expected
        assert len(report.conflicts) == 2


def test_a_model_yields_to_people_and_its_surest_word_counts():
    said = source(
        [(0, 0, 1), (0, 0, -1), (0, 1, 1), (0, 1, 1), (1, 1, -1)],
        origin=[MODEL, REVIEW, MODEL, MODEL, MODEL],
        score=[3.0, np.nan, 1.0, 2.0, -4.0],
        round=[0, -1, 0, 1, 2],
    )
    table, report = read(said)
    assert rows(table) == {"a": [-1, 1], "b": [0, -1]}
    assert [ORIGINS[o] for o in table.origin] == ["review", "model", "model"]
    assert table.score.tolist()[1:] == [2.0, -4.0]
    assert table.round.tolist() == [-1, 1, 2]
    assert report.dropped["machine labels of pairs that a person judged"].examples == ["a, cat"]
    assert report.repeats == 1


def test_a_model_that_contradicts_itself_is_settled_as_people_are():
    said = source([(0, 0, 1), (0, 0, -1)], origin=[MODEL, MODEL], score=[3.0, -5.0])
    with pytest.raises(UserError, match="both present and absent"):
        read(said)
    table, _ = read(said, conflicts="present")
    assert rows(table)["a"] == [1, 0]
    assert table.score.tolist() == [3.0]


def test_statements_that_yield():
    table, _ = read(source([(0, 0, 0), (0, 0, 1), (1, 0, -1)], yields=[True, False, True]))
    assert rows(table) == {"a": [1, 0], "b": [-1, 0]}


def test_classes_are_renamed_chosen_and_put_together_with_the_first_id():
    said = source([(0, 0, 1), (0, 1, 1), (1, 2, -1)], classes=["Cat", "dog", " kitten "], ids=["7", "8", "9"])
    table, report = read(said, classes=["cat"], rename={"Cat": "cat", "kitten": "cat"})
    assert (table.classes, table.class_ids) == (("cat",), ("7",))
    assert rows(table) == {"a": [1], "b": [-1]}
    assert report.dropped["labels of 1 classes that are not in the class list"].count == 1
    assert any("put together by renaming" in note for note in report.notes)


def test_images_without_a_file(tmp_path):
    (tmp_path / "b.png").write_bytes(b"")
    said = [(0, 0, 1), (1, 1, -1)]
    with pytest.raises(UserError, match=r"1 of 2 images missing in .*missing=skip") as caught:
        read(source(said), images=str(tmp_path))
    assert caught.value.offenders == ["a"]
    table, report = read(source(said, groups=unique(["p", "q"])[0]), images=str(tmp_path), missing="skip")
    assert rows(table) == {"b": [0, -1]}
    assert table.groups.to_pylist() == ["q"]
    assert report.missing == ["a"]


def test_own_options_come_first_and_meaningless_ones_are_not_there():
    from dataclasses import dataclass

    @dataclass(frozen=True, kw_only=True)
    class Options(CommonOptions):
        colour: str = option("red", read_as.text, "a colour")
        images: str | None = without()

    names = [field.name for field in read_as.option_fields(Options)]
    assert names == ["colour", "not_listed", "conflicts", "classes", "rename", "missing"]
    with pytest.raises(UserError, match="no such option"):
        read_as.build(Options, "test", {"images": "x"})
    assert read_as.build(Options, "test", {"colour": "blue", "rename": "a=b"}).given() == {
        "colour": "blue",
        "rename": {"a": "b"},
    }
