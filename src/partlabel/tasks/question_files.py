"""Questions as a CSV file and as tasks for Label Studio, and the answers out of either."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import replacing, replacing_together
from partlabel.core.text import as_cell, from_cell
from partlabel.core.trouble import plainly
from partlabel.formats.addresses import local_address
from partlabel.formats.labelstudio.writing import interface_path
from partlabel.formats.reading import load_json
from partlabel.formats.table.delimited import open_table
from partlabel.labels.table import LabelTable
from partlabel.models.scores import Scores
from partlabel.tasks.next_labels import WHY, Answers, Questions

COLUMNS = ("image", "class", "score", "why", "answer")
#: the control of the labeling interface
_CONTROL = "answer"
_INTERFACE = """\
<View>
  <Header value="$question"/>
  <Image name="picture" value="$picture"/>
  <Choices name="answer" toName="picture" choice="single" required="true" showInLine="true">
    <Choice value="present" hotkey="1"/>
    <Choice value="absent" hotkey="2"/>
  </Choices>
</View>
"""
_WORDS = {1: "present", -1: "absent", 0: ""}
_VALUES = {"present": 1, "yes": 1, "absent": -1, "no": -1}


def write_csv(path: str | Path, table: LabelTable, scores: NDArray[np.float32] | Scores, questions: Questions) -> None:
    """Write a row for each question: image, class, score, why, answer (empty, or known already).

    Args:
        path: file to write, whole or not at all.
        table: names of images and classes.
        scores: (N, C), for the rows and classes of the table.
        questions: what to ask.

    Raises:
        UserError: the place cannot be written to.
    """
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        rows = _rows(table, scores, questions)
        writer.writerows([as_cell(image), as_cell(cls), score, why, answer] for image, cls, score, why, answer in rows)


def write_tasks(
    path: str | Path,
    table: LabelTable,
    scores: NDArray[np.float32] | Scores,
    questions: Questions,
    *,
    interface: str | Path | None = None,
) -> None:
    """Write a task for each question, and beside it the labeling interface: one image, one class, yes or no.

    Tasks of one class follow each other, which is quicker to answer than many classes of one image. A question whose
    answer is known comes with that annotation, so that it is done, and in the export. Names become addresses in a local
    storage. ``tasks.json`` comes with ``tasks.labeling.xml``. Source: the guide to tasks of Label Studio
    (https://labelstud.io/guide/tasks).

    Args:
        path: file to write; it and the interface are moved into place together.
        table: names of images and classes.
        scores: (N, C), for the rows and classes of the table.
        questions: what to ask.
        interface: where the labeling interface is written, if not beside it.

    Raises:
        UserError: the place cannot be written to.
    """
    tasks = []
    for image, name, score, why, answer in _rows(table, scores, questions):
        data = {
            "picture": local_address(image),
            "question": f"Does the image show: {name}?",
            "image": image,
            "class": name,
            "score": float(score),
            "why": why,
        }
        task: dict[str, Any] = {"data": data}
        if answer:
            result = {"from_name": _CONTROL, "to_name": "picture", "type": "choices", "value": {"choices": [answer]}}
            task["annotations"] = [{"result": [result]}]
        tasks.append(task)
    with replacing_together(Path(path), Path(interface or interface_path(path))) as (new_tasks, new_interface):
        new_tasks.write_bytes(b"[\n" + b",\n".join(map(msgspec.json.encode, tasks)) + b"\n]\n")
        new_interface.write_text(_INTERFACE, encoding="utf-8")


def _rows(
    table: LabelTable, scores: NDArray[np.float32] | Scores, questions: Questions
) -> Iterator[tuple[str, str, str, str, str]]:
    names = table.images.take(questions.image).to_pylist()
    values = Scores.of(scores).pairs(questions.image, questions.cls)
    for image, cls, value, why, answer in zip(
        names, questions.cls, values, questions.why, questions.answer.tolist(), strict=True
    ):
        yield image, table.classes[cls], f"{value:.4f}", WHY[why], _WORDS[answer]


def read_answers(path: str | Path) -> Answers:
    """Read the answers out of a CSV file of questions, or out of a JSON, JSON-MIN or CSV export of Label Studio.

    Rows and tasks without an answer, and annotations that were skipped, are left out.

    Raises:
        UserError: the file cannot be read, lacks a column, holds other answers than present, yes, absent or no, or has
            an unknown reason to ask; all such places are listed.
    """
    records = list(_json_records(str(path)) if _is_json(Path(path)) else _csv_records(str(path)))
    wrong, good = [], []
    for place, record in records:
        answer = record.get("answer", "").strip()
        if not answer:
            continue
        if answer.casefold() not in _VALUES:
            wrong.append(f"{place} answer {answer!r}")
        elif record.get("why", "").strip() not in WHY:
            wrong.append(f"{place} why {record.get('why', '')!r}")
        else:
            good.append((place, record))
    if wrong:
        raise UserError(
            f"{path}: an answer is present, yes, absent or no, and the reason to ask one of {', '.join(WHY)}", wrong
        )
    return Answers(
        images=[record["image"] for _, record in good],
        classes=[record["class"] for _, record in good],
        values=np.array([_VALUES[record["answer"].strip().casefold()] for _, record in good], np.int8),
        why=[record["why"].strip() for _, record in good],
        places=[place for place, _ in good],
    )


def _is_json(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def _csv_records(path: str) -> Iterator[tuple[str, dict[str, str]]]:
    text = open_table(path)
    header = [name.strip() for name in text.header]
    needed = [name for name in COLUMNS if name != "score"]
    if missing := [name for name in needed if name not in header]:
        raise UserError(f"{path}: the table of answers lacks columns", missing)
    at = [header.index(name) for name in needed]
    for line, cells in text.rows():
        yield (
            f"{path}:{line}",
            {name: from_cell(cells[i]) if i < len(cells) else "" for name, i in zip(needed, at, strict=True)},
        )


class _Result(Struct):
    from_name: str | None = None
    value: Any = None


class _Annotation(Struct):
    result: list[_Result] | None = None
    was_cancelled: bool | None = None


class _Task(Struct):
    """A task with its annotations; a flat record (JSON-MIN) has no ``data``."""

    data: dict[str, Any] | None = None
    annotations: list[_Annotation] | None = None


def _json_records(path: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The answers of a JSON export: tasks with annotations, or flat records."""
    items = load_json(path, list[dict[str, Any]], "an export of Label Studio, which is a list of tasks")
    wrong, records = [], []
    for number, item in enumerate(items, 1):
        place = f"{path}: task {item.get('id', number)}"
        try:
            task = msgspec.convert(item, _Task)
        except msgspec.ValidationError as error:
            wrong.append(f"{place}: {plainly(error)}")
            continue
        data = item if task.data is None else task.data
        if any(not isinstance(data.get(key), str) for key in ("image", "class", "why")):
            wrong.append(f"{place}: no texts image, class and why")
            continue
        own = {key: data[key] for key in ("image", "class", "why")}
        given = [data.get(_CONTROL)] if task.data is None else _chosen(task)
        records += [(place, {**own, "answer": str(answer)}) for answer in given if answer is not None]
    if wrong:
        raise UserError(f"{path}: {len(wrong)} tasks are not as partlabel next wrote them", wrong)
    yield from records


def _chosen(task: _Task) -> list[Any]:
    """What the annotations that were not skipped chose."""
    answers: list[Any] = []
    for annotation in task.annotations or ():
        for result in annotation.result or () if not annotation.was_cancelled else ():
            if result.from_name == _CONTROL:
                found = result.value.get("choices") if isinstance(result.value, dict) else result.value
                answers += found if isinstance(found, list) else [found]
    return answers
