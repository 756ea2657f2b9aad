"""What people and programs are shown."""

from __future__ import annotations

import json

import numpy as np
from rich.cells import cell_len

from partlabel.metrics import Metrics, evaluate
from tests.metrics.test_evaluate import partial, read_case

CASE_TABLE = """\
4 images evaluated, 10 known labels (3 present, 7 absent)

metric        %  over
--------  -----  ----------------------------------------
mAP       66.67  2 of 4 classes
AUROC     62.50  2 of 4 classes
0-1       75.00  4 of 4 images (known labels right)
0-1 full      -  0 of 4 images (all labels known)
macro-F1  40.00  2 of 4 classes
micro-F1  66.67  10 of 10 known labels
PC-P      66.67  1 of 4 classes
PC-R      50.00  2 of 4 classes
OV-P      66.67  3 of 10 known labels (predicted present)
OV-R      66.67  3 of 10 known labels (present)

class  present  absent   AP %  AUROC %    P %     R %   F1 %
-----  -------  ------  -----  -------  -----  ------  -----
cat          2       2  83.33    75.00  66.67  100.00  80.00
dog          0       3      -        -      -       -      -
car          0       0      -        -      -       -      -
bus          1       2  50.00    50.00      -    0.00   0.00

AP: area under the full precision-recall curve; mAP is its mean over classes.
Decisions: present where score >= threshold (0.5).
Zero division: precision without predicted presents, recall without known presents, F1 without both are undefined; \
these are left out of the means.
AP undefined, no known present label (2): dog, car
fewer than 2 known present labels (1): bus"""


def case() -> Metrics:
    names, scores, labels, _ = read_case("MET-02")
    return evaluate(scores, labels, 0.5, names, min_support=2)


def test_table() -> None:
    assert case().table() == CASE_TABLE


def test_dict_is_json_and_says_what_was_measured() -> None:
    result = json.loads(json.dumps(case().to_dict(), allow_nan=False))
    assert result["average_precision"] == {
        "form": "area",
        "meaning": "area under the full precision-recall curve; mean over classes",
    }
    assert result["decision_rule"] == "present where score >= threshold"
    assert result["zero_division"].endswith("F1 without both are undefined; these are left out of the means")
    assert result["images"] == {
        "evaluated": 4,
        "with_known_labels": 4,
        "without_known_labels": 0,
        "fully_known": 0,
        "repeated_rows_dropped": 0,
    }
    assert result["known_labels"] == {"present": 3, "absent": 7}
    assert result["metrics"]["zero_one_full_rows"] is None
    assert result["classes"]["undefined"] == {
        "average_precision": ["dog", "car"],
        "roc_auc": ["dog", "car"],
        "precision": ["dog", "car", "bus"],
        "recall": ["dog", "car"],
        "f1": ["dog", "car"],
    }
    assert result["per_class"][3] == {
        "class": "bus",
        "threshold": 0.5,
        "present": 1,
        "absent": 2,
        "true_positive": 0,
        "false_positive": 0,
        "false_negative": 1,
        "average_precision": 0.5,
        "roc_auc": 0.5,
        "precision": None,
        "recall": 0.0,
        "f1": 0.0,
    }


def test_table_of_many_classes_shows_the_lowest() -> None:
    scores, labels = partial(0, n=40, c=30)
    labels[:, 7] = 0
    metrics = evaluate(scores, labels, np.linspace(-1, 1, 30))
    text = metrics.table(3)
    lowest = np.argsort(metrics.average_precision)[:3]
    heading, _, _, *rows = text.split("\n\n")[2].split("\n")
    assert heading == "the 3 of 30 classes with the lowest AP"
    assert [row.split()[0] for row in rows[:3]] == [str(c) for c in lowest]
    assert "(per class, -1 to 1)" in text
    assert "class  present" not in metrics.table(0)
    assert "lowest" not in metrics.table(30)


def test_classes_without_a_known_absent_are_named() -> None:
    labels = np.array([[1, 1], [0, -1]], dtype=np.int8)
    metrics = evaluate(np.zeros((2, 2)), labels, class_names=["cat", "dog"])
    assert metrics.to_dict()["classes"]["without_known_absent"] == ["cat"]
    assert "AP, precision and F1 undefined, no known absent label (1): cat" in metrics.table()


def test_long_and_wide_names_stay_in_their_column() -> None:
    names = ["x" * 100, "自転車", "cafe\u0301"]
    labels = np.array([[1, 1, 1], [-1, -1, -1]], dtype=np.int8)
    text = evaluate(np.zeros((2, 3)), labels, class_names=names).table()
    heading, rule, *rows = text.split("\n\n")[2].split("\n")
    assert {cell_len(line) for line in (heading, rule, *rows)} == {cell_len(rule)}
    assert rows[0].startswith("x" * 31 + "…  ")


def test_many_undefined_classes_are_counted() -> None:
    labels = np.zeros((2, 15), dtype=np.int8)
    text = evaluate(np.zeros((2, 15)), labels).table()
    assert "no known present label (15): 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 5 more" in text


def test_repeated_rows_and_excluded_classes_are_named() -> None:
    names, scores, labels, _ = read_case("MET-05", "predictions")
    text = evaluate(scores, labels, class_names=names, exclude=["bus"], zero_division=0).table()
    assert "excluded (1): bus" in text
    assert "bus   " not in text
    assert "F1 without both are undefined; these count as 0." in text
