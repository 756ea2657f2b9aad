"""Questions in files and the answers out of them, and the commands that do both."""

from __future__ import annotations

import csv
import errno
import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch

from partlabel.app.cli import main
from partlabel.core.errors import UserError
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.models.model import Model
from partlabel.tasks.next_labels import Mix, choose
from partlabel.tasks.question_files import read_answers, write_csv, write_tasks
from partlabel.training.config import ModelConfig
from tests.pictures import CLASSES, make_pictures

NAMES = ["a, b.jpg", 'sub/"c".jpg', "ä.jpg", "d.jpg"]


@pytest.fixture
def asked():
    """Two of four pairs of a class are known; three classes, of which one has a name with a comma."""
    labels = np.array([[1, 0, 0], [0, 0, 0], [0, -1, 0], [0, 0, 0]], np.int8)
    table = LabelTable.from_dense(NAMES, ["cat", "dog, big", "<cow>"], labels)
    scores = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
    return table, scores, choose(scores, table, 6, Mix(random=0.5))


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_csv_there_and_back(tmp_path, asked):
    table, scores, questions = asked
    path = tmp_path / "questions.csv"
    write_csv(path, table, scores, questions)
    listed = rows(path)
    assert list(listed[0]) == ["image", "class", "score", "why", "answer"]
    assert [row["class"] for row in listed] == [table.classes[c] for c in questions.cls]
    assert [row["image"] for row in listed] == [NAMES[i] for i in questions.image]
    assert {row["answer"] for row in listed} == {""}
    first = listed[0]
    at = NAMES.index(first["image"]), table.classes.index(first["class"])
    assert float(first["score"]) == pytest.approx(scores[at], abs=1e-4)
    assert len(read_answers(path).images) == 0
    for row, answer in zip(listed, ["present", "Absent", " yes ", "NO", "", ""], strict=True):
        row["answer"] = answer
    with open(path, "w", encoding="utf-16", newline="") as file:  # as a spreadsheet may save it
        writer = csv.DictWriter(file, list(first), delimiter=";")
        writer.writeheader()
        writer.writerows(listed)
    found = read_answers(path)
    assert found.values.tolist() == [1, -1, 1, -1]
    assert list(found.images) == [row["image"] for row in listed[:4]]
    assert list(found.why) == [row["why"] for row in listed[:4]]
    assert found.places[0] == f"{path}:2"


def test_tasks_show_what_they_should(tmp_path, asked):
    table, scores, questions = asked
    write_tasks(tmp_path / "tasks.json", table, scores, questions)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert len(tasks) == 6
    data = tasks[0]["data"]
    assert data["question"] == "Does the image show: cat?"
    assert data["picture"].startswith("/data/local-files/?d=")
    assert all("annotations" not in task for task in tasks)
    view = ET.parse(tmp_path / "tasks.labeling.xml").getroot()
    assert view.find("Image").get("value") == "$picture"
    assert view.find("Header").get("value") == "$question"
    assert [choice.get("value") for choice in view.iter("Choice")] == ["present", "absent"]


def annotated(answer, **more):
    result = {"from_name": "answer", "to_name": "picture", "type": "choices", "value": {"choices": [answer]}}
    return {"id": 7, "result": [result], **more}


def test_a_question_that_is_answered_already_comes_back_as_that(tmp_path):
    table = LabelTable.from_dense(["a.jpg"], ["cat", "dog"], np.zeros((1, 2), np.int8))
    table = table.with_labels([0], [0], [1], origin="asked")
    scores = np.zeros((1, 2), np.float32)
    found = next(q for q in (choose(scores, table, 1, Mix(random=1), seed=s) for s in range(50)) if len(q.image))
    hit = choose(scores, table.with_labels([0], [1], [-1], origin="asked"), 1)
    assert len(hit.image) == 0
    write_tasks(tmp_path / "tasks.json", table, scores, found)
    write_csv(tmp_path / "questions.csv", table, scores, found)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    done = [task for task in tasks if "annotations" in task]
    assert len(done) == (~found.open).sum()
    (tmp_path / "export.json").write_text(json.dumps(done or [{"data": tasks[0]["data"], "annotations": []}]))
    assert read_answers(tmp_path / "export.json").values.tolist() == [1] * len(done)
    assert read_answers(tmp_path / "questions.csv").values.tolist() == [1] * len(done)


def test_exports_of_label_studio(tmp_path, asked):
    table, scores, questions = asked
    write_tasks(tmp_path / "tasks.json", table, scores, questions)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    given = [
        [annotated("present")],
        [annotated("absent"), annotated("present", was_cancelled=True)],
        [],
        [annotated("absent"), annotated("absent")],
        [{"id": 1, "result": []}],
        [annotated("present")],
    ]
    full = [{"id": i, **task, "annotations": g} for i, (task, g) in enumerate(zip(tasks, given, strict=True))]
    (tmp_path / "full.json").write_text(json.dumps(full))
    assert read_answers(tmp_path / "full.json").values.tolist() == [1, -1, -1, -1, 1]
    short = [{"id": i, **task["data"], "answer": "present"} for i, task in enumerate(tasks[:2])]
    short.append({"id": 9, **tasks[2]["data"]})
    (tmp_path / "min.json").write_text(json.dumps(short))
    found = read_answers(tmp_path / "min.json")
    assert (found.values.tolist(), found.places[1]) == ([1, 1], f"{tmp_path}/min.json: task 1")
    with open(tmp_path / "export.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "picture", "question", "image", "class", "score", "why", "answer"])
        writer.writeheader()
        writer.writerows(short)
    assert read_answers(tmp_path / "export.csv").values.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "image,class,why,answer\nx,c,seek,maybe\nx,c,guess,no\nx,c,seek,no\n", ["2 answer 'maybe'", "3 why"]),
        ("a.csv", "image,class,score\nx,c,1\n", ["why", "answer"]),
        ("a.json", '[{"id": 4, "image": "x"}, {"id": 5, "data": {"image": 3}}]', ["task 4", "task 5"]),
        ("a.json", '[{"id": 4, "data": {}, "annotations": [7]}]', ["task 4"]),
        ("a.json", '{"id": 4}', []),
        ("a.json", "[1", []),
    ],
)
def test_files_that_are_no_answers(tmp_path, name, text, said):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_answers(path)
    assert len(caught.value.offenders) >= len(said)
    assert all(word in "\n".join(caught.value.offenders) for word in said)


def test_no_such_file(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_answers(tmp_path / "nowhere.csv")


@pytest.fixture
def run(tmp_path):
    """A model without training, images, and a table of which a part is known."""
    torch.manual_seed(0)
    Model(ModelConfig(backbone="test_resnet", weights="none"), list(CLASSES), 32).eval().save(tmp_path / "run")
    truth = make_pictures(tmp_path / "photos", 12)
    truth.write_parquet(tmp_path / "truth.parquet")
    truth.hide(np.arange(36) % 5 == 0).write_parquet(tmp_path / "labels.parquet")
    return tmp_path


def test_from_questions_to_labels(capsys, run):
    words = ["next", "run", "labels.parquet", "--images", "photos", "-o", "q.csv", "--budget", "9", "--label-studio"]
    folder = {word: str(run / word) for word in ("run", "labels.parquet", "photos", "q.csv", "tasks.json")}
    words = [folder.get(word, word) for word in [*words, "tasks.json", "--random", "0.4", "--json"]]
    assert main(words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["questions"], printed["random"], printed["seek"]) == (9, 4, 5)
    assert sum(row["questions"] for row in printed["classes"]) == 9
    assert all(row["questions"] for row in printed["classes"])
    assert len(json.loads((run / "tasks.json").read_text())) == 9
    answers = ["labels", "answers", folder["labels.parquet"], folder["q.csv"], "-o", str(run / "more.parquet")]
    assert main(answers) == 0
    assert f"nothing is answered in {run / 'q.csv'}: write present or absent" in capsys.readouterr().out
    truth = LabelTable.read_parquet(run / "truth.parquet")
    listed = rows(run / "q.csv")
    for row in listed:
        value = truth.dense(truth.image_index([row["image"]]))[0, truth.classes.index(row["class"])]
        row["answer"] = "present" if value > 0 else "absent"
    with open(run / "q.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(listed[0]))
        writer.writeheader()
        writer.writerows(listed)
    assert main(answers) == 0
    said = capsys.readouterr().out
    assert "9 labels added" in said
    assert "nothing is answered" not in said
    before, after = (LabelTable.read_parquet(run / name) for name in ("labels.parquet", "more.parquet"))
    assert after.num_known == before.num_known + 9
    assert ((after.dense() == truth.dense()) | (after.dense() == 0)).all()
    assert np.bincount(after.origin, minlength=5)[[ORIGINS.index("asked"), ORIGINS.index("sampled")]].tolist() == [5, 4]


def test_what_a_user_gets_wrong(capsys, run):
    base = ["next", str(run / "run"), str(run / "labels.parquet"), "--images", str(run / "photos"), "-o"]
    good = [*base, str(run / "q.csv")]
    for words, said in (
        ([*good, "--budget", "0"], "at least 1"),
        ([*good, "--random", "1.5"], "shares"),
        ([*base, str(run / "none" / "q.csv")], "does not exist"),
        ([good[0], good[1], str(run / "truth.parquet"), *good[3:]], "nothing to ask"),
        ([good[0], good[1], *good[3:]], "not a run folder"),
    ):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert said in err
        assert "Traceback" not in err
        assert not (run / "q.csv").exists()


def test_classes_that_the_table_lacks(capsys, run):
    LabelTable.read_parquet(run / "labels.parquet").select_classes(["red"]).write_parquet(run / "red.parquet")
    words = ["next", str(run / "run"), str(run / "red.parquet"), "--images", str(run / "photos"), "-o", str(run / "q")]
    assert main(words) == 2
    assert "green\n  blue" in capsys.readouterr().err


@pytest.mark.parametrize("fails", range(4))
def test_questions_and_tasks_are_of_one_draw(capsys, run, monkeypatch, fails):
    """A disk that refuses one of the three files leaves none beside those of another draw."""
    paths = [run / name for name in ("q.csv", "tasks.json", "tasks.labeling.xml")]
    words = ["next", str(run / "run"), str(run / "labels.parquet"), "--images", str(run / "photos"), "-o"]
    words += [str(paths[0]), "--label-studio", str(paths[1]), "--random", "1"]
    assert main([*words, "--budget", "9"]) == 0
    old = [path.read_bytes() for path in paths]
    rename, moved = os.replace, []

    def move(source, target):
        if Path(target) in paths:
            if len(moved) == fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(source))
            moved.append(Path(target))
        rename(source, target)

    monkeypatch.setattr(os, "replace", move)
    code = main([*words, "--budget", "3"])
    left = [path for path in paths if path.exists()]
    if fails == 3:
        assert code == 0
        assert len(rows(paths[0])) == len(json.loads(paths[1].read_text())) == 3
        return
    assert code == 2
    assert "cannot be written" in capsys.readouterr().err
    if fails:
        assert left == moved
        assert len(rows(paths[0])) == 3
    else:
        assert [path.read_bytes() for path in paths] == old
