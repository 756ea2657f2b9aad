"""What a notebook shows of a table, of metrics and of a run: right numbers, foreign names as text, not too much."""

from __future__ import annotations

import numpy as np

from partlabel import LabelTable, train
from partlabel.metrics import evaluate
from tests.pictures import make_pictures, tiny_config

EVIL = "<script>alert(1)</script>"


def test_table_by_hand():
    table = LabelTable.from_dense(["<b>.jpg", "b.jpg"], ["cat", EVIL], [[1, 0], [-1, 1]])
    text = table._repr_html_()
    assert "Labels of 2 images and 2 classes: 3 known (75.0%)" in text
    assert EVIL not in text
    assert "<b>.jpg" not in text
    cells = [row.split("</td>")[:-1] for row in text.split("<tr>")[2:4]]
    assert [[cell.split(">")[-1] for cell in row] for row in cells] == [
        ["cat", "1", "1", "0"],
        ["&lt;script&gt;alert(1)&lt;/script&gt;", "1", "0", "1"],
    ]


def test_a_large_table_stays_small_on_the_screen():
    random = np.random.default_rng(0)
    values = random.choice(np.array([-1, 0, 1], np.int8), (500, 300))
    table = LabelTable.from_dense([f"{i}.jpg" for i in range(500)], [f"class {c}" for c in range(300)], values)
    text = table._repr_html_()
    assert text.count("<tr>") == 2 + 20 + 8
    assert "and 280 classes with fewer known labels" in text


def test_an_empty_table_is_shown():
    assert "Labels of 0 images and 0 classes: 0 known" in LabelTable.from_dense([], [], np.zeros((0, 0)))._repr_html_()


def test_metrics_print_on_a_screen():
    random = np.random.default_rng(0)
    labels = random.choice(np.array([-1, 1], np.int8), (50, 200))
    found = evaluate(random.normal(size=(50, 200)), labels, class_names=[EVIL, *map(str, range(199))])
    assert str(found) == found.table()
    assert len(str(found).splitlines()) < 60
    assert max(map(len, str(found).splitlines())) < 160
    text = found._repr_html_()
    assert EVIL not in text
    assert "Metrics of 50 images on 10,000 known labels" in text
    assert text.count("<tr>") == 1 + 10 + 1 + 20


def test_a_run_says_what_it_is(tmp_path):
    table = make_pictures(tmp_path / "p", 12)
    run = train(table, images=tmp_path / "p", out=tmp_path / "&run;", config=tiny_config(optim__epochs=1))
    assert str(run).splitlines()[0] == f"Run {tmp_path / '&run;'}"
    assert "36 known labels of 12 images and 3 classes" in str(run)
    assert "&amp;run;" in run._repr_html_()
