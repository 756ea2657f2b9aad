"""Scores of many pictures, and the files that people read them in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.compute import inference_batch, loader_workers
from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.core.progress import Reporter
from partlabel.core.text import as_cell
from partlabel.images import ImageDataset, make_loader
from partlabel.models.model import Model
from partlabel.models.onnx import OnnxModel


def predict(
    model: Model | OnnxModel,
    images: Sequence[str | os.PathLike[str]],
    *,
    device: str | torch.device | None = None,
    workers: int | None = None,
) -> NDArray[np.float32]:
    """Scores of pictures.

    Args:
        model: the classifier, the mode of which is put back afterwards, or an exported one.
        images: N picture files.
        device: where to run; None takes the GPU if there is one. An exported classifier always runs on the CPU.
        workers: loader processes; None chooses.

    Returns:
        (N, C) float32 scores, before the sigmoid, in the order of ``images``.

    Raises:
        UserError: a picture cannot be read.
    """
    paths = [Path(path) for path in images]
    if isinstance(model, OnnxModel):
        return _in_batches(
            model,
            lambda pixels: model(pixels.numpy()),
            paths,
            inference_batch("cpu"),
            loader_workers("cpu", workers, len(paths)),
        )
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    was_training = model.training
    model.eval().to(device)
    with torch.inference_mode():
        scores = _in_batches(
            model,
            lambda pixels: model(pixels.to(device).contiguous(memory_format=torch.channels_last)).float().cpu().numpy(),
            paths,
            inference_batch(device.type),
            loader_workers(device.type, workers, len(paths)),
        )
    model.train(was_training)
    return scores


def _in_batches(
    model: Model | OnnxModel,
    score: Callable[[Tensor], NDArray[np.float32]],
    paths: list[Path],
    size: int,
    workers: int,
) -> NDArray[np.float32]:
    """Scores of ``paths``, ``size`` of them at once, by ``score``: pixels (n, 3, H, W) to scores (n, C)."""
    scores = np.empty((len(paths), len(model.classes)), np.float32)
    rows = [np.arange(a, min(a + size, len(paths))) for a in range(0, len(paths), size)]
    loader = make_loader(ImageDataset(paths, model.preprocessing.size), [batch.tolist() for batch in rows], workers)
    with Reporter().bar("predicting") as bar:
        for batch, (pixels, _) in zip(rows, loader, strict=True):
            scores[batch] = score(pixels)
            bar(int(batch[-1]) + 1, len(paths))
    return scores


def write_predictions(
    path: str | os.PathLike[str], names: Sequence[str], scores: NDArray[np.float32], model: Model | OnnxModel
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
                "image": pa.array(np.repeat(np.asarray([as_cell(name) for name in names], object), count), pa.string()),
                "class": pa.array([as_cell(name) for name in model.classes] * len(names), pa.string()),
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
