"""Scores of many pictures, and the files that people read them in."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from numpy.typing import NDArray

from partlabel.errors import UserError
from partlabel.images import ImageDataset, check, make_loader, resolve
from partlabel.labels import LabelTable
from partlabel.metrics import Accumulator, Metrics
from partlabel.model import Model
from partlabel.progress import Reporter
from partlabel.storage import replacing

_BATCH = 64
#: rows of labels made dense at once
_ROWS = 8192


def predict(
    model: Model,
    images: Sequence[str | os.PathLike[str]],
    *,
    device: str | torch.device | None = None,
    workers: int | None = None,
) -> NDArray[np.float32]:
    """Scores of pictures.

    Args:
        model: the classifier; its mode is put back afterwards.
        images: N picture files.
        device: where to run; None takes the GPU if there is one.
        workers: loader processes; None chooses.

    Returns:
        (N, C) float32 scores, before the sigmoid, in the order of ``images``.

    Raises:
        UserError: a picture cannot be read.
    """
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    paths = [Path(path) for path in images]
    scores = np.empty((len(paths), len(model.classes)), np.float32)
    rows = [np.arange(a, min(a + _BATCH, len(paths))) for a in range(0, len(paths), _BATCH)]
    if workers is None:
        workers = 0 if len(paths) <= _BATCH else max(1, (os.cpu_count() or 1) // 2)
    was_training = model.training
    model.eval().to(device)
    loader = make_loader(ImageDataset(paths, model.preprocessing.size), [batch.tolist() for batch in rows], workers)
    with torch.inference_mode(), Reporter().bar("predicting") as bar:
        for batch, (pixels, _) in zip(rows, loader, strict=True):
            x = pixels.to(device).contiguous(memory_format=torch.channels_last)
            scores[batch] = model(x).float().cpu().numpy()
            bar(int(batch[-1]) + 1, len(paths))
    model.train(was_training)
    return scores


def measure(model: Model, table: LabelTable, folder: str | os.PathLike[str]) -> Metrics:
    """Metrics of a model on the known labels of a table, over the classes of the table, at the model's thresholds.

    Args:
        model: the classifier.
        table: labels; its classes are among the model's, its image names are files in ``folder``.
        folder: the folder of the pictures.

    Raises:
        UserError: the model lacks classes of the table, no label is known, or pictures are missing or cannot be read.
    """
    strange = [name for name in table.classes if name not in set(model.classes)]
    if strange:
        raise UserError(f"the model does not know {len(strange)} of the {table.num_classes} classes", strange)
    names = [name for name in model.classes if name in set(table.classes)]
    columns = [model.classes.index(name) for name in names]
    table = table.select_classes(names).select(np.flatnonzero(np.diff(table.indptr)))
    if not table.num_images:
        raise UserError("no label of the table is known, so there is nothing to measure on")
    paths = resolve(table.images, folder)
    check(paths).raise_if_bad()
    scores = predict(model, paths)
    found = Accumulator(len(names), names)
    for start in range(0, len(paths), _ROWS):
        rows = slice(start, min(start + _ROWS, len(paths)))
        found.update(scores[rows][:, columns], table.dense(rows))
    return found.compute(thresholds=np.asarray(model.thresholds)[columns])


def write_predictions(
    path: str | os.PathLike[str], names: Sequence[str], scores: NDArray[np.float32], model: Model
) -> None:
    """Write scores, probabilities and decisions of pictures.

    A ``.csv`` file has one row per image and class (image, class, score, probability, present). A ``.parquet`` file has
    one row per image with three lists in the order of the classes; the classes stand in its metadata.

    Args:
        path: file to write; its ending chooses the format.
        names: N image names.
        scores: (N, C) scores.
        model: gives the classes, the probabilities (calibrated where the model is) and the thresholds; a class is
            present where score >= threshold, compared in single precision, whatever its probability.

    Raises:
        UserError: another ending, or the file cannot be written.
    """
    target = Path(path)
    probabilities = model.probabilities(scores)
    present = scores >= np.asarray(model.thresholds, np.float32)
    count = scores.shape[1]
    if target.suffix == ".csv":
        table = pa.table(
            {
                "image": pa.array(np.repeat(np.asarray(names, object), count), pa.string()),
                "class": pa.array(list(model.classes) * len(names), pa.string()),
                "score": scores.ravel(),
                "probability": np.round(probabilities.ravel(), 6),
                "present": present.ravel().astype(np.int8),
            }
        )
        with replacing(target) as temporary:
            pyarrow.csv.write_csv(table, temporary)
    elif target.suffix == ".parquet":
        columns = {"score": scores, "probability": probabilities.astype(np.float32), "present": present}
        lists = {
            name: pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), count) for name, values in columns.items()
        }
        table = pa.table({"image": pa.array(list(names), pa.string()), **lists})
        table = table.replace_schema_metadata({"classes": json.dumps(list(model.classes), ensure_ascii=False)})
        with replacing(target) as temporary:
            pyarrow.parquet.write_table(table, temporary)
    else:
        raise UserError(f"{target}: predictions are written as .csv or .parquet")
