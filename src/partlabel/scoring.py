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
from partlabel.images import ImageDataset, make_loader
from partlabel.model import Model
from partlabel.progress import Reporter
from partlabel.storage import replacing

_BATCH = 64


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
        model: gives the classes and the thresholds; a class is present where score >= threshold, compared in single
            precision.

    Raises:
        UserError: another ending, or the file cannot be written.
    """
    target = Path(path)
    probabilities = 1 / (1 + np.exp(-scores.astype(np.float64)))
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
