"""Class names: tidied, renamed, chosen, and compared with each other."""

from __future__ import annotations

import time

import pytest

from partlabel.formats.class_names import settle_names
from partlabel.formats.report import ImportReport
from partlabel.labels.class_names import look_alikes, similar


def test_look_alikes_are_grouped_in_order_of_appearance():
    names = ["traffic light", "Dog", "traffic_light", "dog", "cat", "Traffic-Light", "?", "!"]
    assert look_alikes(names) == [["traffic light", "traffic_light", "Traffic-Light"], ["Dog", "dog"]]


@pytest.mark.parametrize(
    ("first", "second", "near"),
    [
        ("pedstrian", "Pedestrian", True),
        ("Shoes", "Shoe1", False),
        ("shoes", "shoess", True),
        ("house", "mouse", True),
        ("recieve", "receive", True),
        ("house", "horses", False),
        ("cat", "car", False),
        ("person 1", "person 2", False),
        ("abcde", "abced", True),
        ("abcdef", "badcef", False),
        ("apple", "applesx", False),
    ],
)
def test_one_letter_apart(first, second, near):
    assert similar([first, second]) == ([(first, second)] if near else [])
    assert similar([second, first]) == ([(second, first)] if near else [])


def test_similar_names_among_ten_thousand_are_found_quickly():
    letters = "abcdefghij"
    names = [f"class {a}{b}x{c}y{d}" for a in letters for b in letters for c in letters for d in letters]
    start = time.process_time()
    assert len(similar([*names[:2000:7], "traffic light", "trafic light"])) > 0
    assert time.process_time() - start < 5


def test_settle_names():
    report = ImportReport("", "")
    result = settle_names(
        [" b", "a", "cafe\u0301", "caf\u00e9", "x"],
        report,
        rename={"x": "a", "nowhere": "b"},
        chosen=["caf\u00e9", "a", "z"],
    )
    assert result.names == ["caf\u00e9", "a", "z"]
    assert result.index.tolist() == [-1, 1, 0, 0, 1]
    assert report.notes == [
        "outer blanks trimmed from class names: ' b'",
        "class names in another Unicode form, put together with the composed one: caf\u00e9",
    ]
    assert report.warnings == [
        "the rename table names classes that do not occur: nowhere",
        "listed classes that do not occur in the source: z",
    ]


def test_order():
    report = ImportReport("", "")
    assert settle_names(["b", "a"], report).names == ["b", "a"]
    assert settle_names(["b", "a"], report, sort=True).index.tolist() == [1, 0]
