"""Writes a label table as tasks with predictions, which Label Studio shows as answers to check."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import msgspec
import numpy as np

from partlabel.core.files import replacing_together
from partlabel.formats.addresses import local_address
from partlabel.formats.labelstudio.options import ABSENT, PRESENT
from partlabel.labels.table import LabelTable
from partlabel.metrics.calibration import sigmoid

_ROWS = 16_384


def write(table: LabelTable, path: str) -> None:
    """Write a table as tasks for Label Studio, and beside it the labeling interface that shows them.

    Each image is a task with one prediction: its known present labels are the choices of the control ``present``, its
    known absent ones those of ``absent``; a class in neither is unknown, and an image without a known label has no
    prediction. The score of a prediction is the probability of its least sure model label (0.5 .. 1), so that sorting
    by score puts doubtful images first; without model labels it has none. Names become addresses in a local storage
    (``/data/local-files/?d=...``), addresses stay as they are. ``tasks.json`` comes with ``tasks.labeling.xml``.

    Not part of this format: origins, the scores of single labels, rounds, class ids, groups, and in the tasks the
    classes without a known label, which only the labeling interface lists. Read back, backslashes in image names are
    slashes, and slashes at their start are dropped. Source: the guide to pre-annotations of
    Label Studio (https://labelstud.io/guide/predictions).

    Raises:
        UserError: the place cannot be written to.
    """
    with (
        replacing_together(Path(path), interface_path(path)) as (new_tasks, new_interface),
        open(new_tasks, "wb") as file,
    ):
        new_interface.write_text(interface(table.classes), encoding="utf-8")
        start = b"["
        for low in range(0, table.num_images, _ROWS):
            tasks = _tasks(table, low, min(low + _ROWS, table.num_images))
            file.write(start + b"\n" + b",\n".join(map(msgspec.json.encode, tasks)))
            start = b","
        file.write(b"\n]\n" if table.num_images else b"[]\n")


def interface_path(path: str | os.PathLike[str]) -> Path:
    """Return where the labeling interface of a file of tasks is written."""
    return Path(path).with_suffix(".labeling.xml")


def interface(classes: tuple[str, ...]) -> str:
    """Return the labeling interface: the image and two lists of all classes, for what is there and what is not."""
    lines = ["<View>", '  <Image name="image" value="$image"/>']
    for control in (PRESENT, ABSENT):
        lines.append(f'  <Header value="{control.capitalize()}"/>')
        lines.append(f'  <Choices name="{control}" toName="image" choice="multiple" showInLine="true">')
        lines += [f"    <Choice value={quoteattr(name)}/>" for name in classes]
        lines.append("  </Choices>")
    return "\n".join([*lines, "</View>", ""])


def _tasks(table: LabelTable, low: int, high: int) -> list[dict[str, Any]]:
    tasks = []
    for number, name in enumerate(table.images[low:high].to_pylist(), low):
        own = slice(table.indptr[number], table.indptr[number + 1])
        values = table.values[own]
        results = []
        for control, wanted in ((PRESENT, values > 0), (ABSENT, values < 0)):
            chosen = [table.classes[c] for c in table.indices[own][wanted].tolist()]
            if chosen:
                results.append(
                    {
                        "id": f"{number + 1}-{control}",
                        "from_name": control,
                        "to_name": "image",
                        "type": "choices",
                        "value": {"choices": chosen},
                    }
                )
        task: dict[str, Any] = {"data": {"image": local_address(name)}}
        if results:
            task["predictions"] = [{"model_version": "partlabel", **_score(table, own), "result": results}]
        tasks.append(task)
    return tasks


def _score(table: LabelTable, own: slice) -> dict[str, float]:
    """Return the probability of the least sure label; the score of a label is what comes before the sigmoid."""
    scores = np.empty(0) if table.score is None else np.abs(table.score[own])
    scores = scores[~np.isnan(scores)]
    return {"score": round(float(sigmoid(scores.min().astype(np.float64))), 4)} if len(scores) else {}
