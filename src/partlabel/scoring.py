"""Scores of many pictures, and the files that people read them in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.errors import UserError
from partlabel.images import ImageDataset, check, make_loader, resolve
from partlabel.labels import LabelTable
from partlabel.metrics import Accumulator, Metrics
from partlabel.model import Model
from partlabel.onnx_file import OnnxModel
from partlabel.progress import Reporter
from partlabel.storage import replacing

#: pictures that are run at once; few on a CPU, so that the maps of a stage stay in its cache (benchmarks/export.py)
_ON_CPU, _ON_OTHERS = 8, 64
#: up to so many pictures are decoded without processes for it, which take longer to start
_FEW = 64
#: rows of labels made dense at once
_ROWS = 8192


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
        return _in_batches(model, lambda pixels: model(pixels.numpy()), paths, _ON_CPU, workers)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    was_training = model.training
    model.eval().to(device)
    with torch.inference_mode():
        scores = _in_batches(
            model,
            lambda pixels: model(pixels.to(device).contiguous(memory_format=torch.channels_last)).float().cpu().numpy(),
            paths,
            _ON_CPU if device.type == "cpu" else _ON_OTHERS,
            workers,
        )
    model.train(was_training)
    return scores


def _in_batches(
    model: Model | OnnxModel,
    score: Callable[[Tensor], NDArray[np.float32]],
    paths: list[Path],
    size: int,
    workers: int | None,
) -> NDArray[np.float32]:
    """Scores of ``paths``, ``size`` of them at once, by ``score``: pixels (n, 3, H, W) to scores (n, C)."""
    scores = np.empty((len(paths), len(model.classes)), np.float32)
    rows = [np.arange(a, min(a + size, len(paths))) for a in range(0, len(paths), size)]
    if workers is None:
        workers = 0 if len(paths) <= _FEW else max(1, (os.cpu_count() or 1) // 2)
    loader = make_loader(ImageDataset(paths, model.preprocessing.size), [batch.tolist() for batch in rows], workers)
    with Reporter().bar("predicting") as bar:
        for batch, (pixels, _) in zip(rows, loader, strict=True):
            scores[batch] = score(pixels)
            bar(int(batch[-1]) + 1, len(paths))
    return scores


def measure(model: Model | OnnxModel, table: LabelTable, folder: str | os.PathLike[str]) -> Metrics:
    """Metrics of a model on the known labels of a table, over the classes of the table, at the model's thresholds.

    Args:
        model: the classifier.
        table: labels; its classes are among the model's, its image names are files in ``folder``.
        folder: the folder of the pictures.

    Raises:
        UserError: the model lacks classes of the table, no label is known, or pictures are missing or cannot be read.
    """
    labelled = Labelled.of(model, table, folder)
    return labelled.metrics(predict(model, labelled.paths), model.thresholds)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Pictures with known labels, for a model that knows at least their classes; made by :meth:`of`.

    Attributes:
        table: the images that have a known label, and the classes of the table in the order of the model.
        columns: (K,) number in the model of each class of the table.
        paths: the picture of each image.
    """

    table: LabelTable
    columns: NDArray[np.int64]
    paths: list[Path]

    @classmethod
    def of(
        cls,
        model: Model | OnnxModel,
        table: LabelTable,
        folder: str | os.PathLike[str],
        without: Collection[Path] = (),
    ) -> Labelled:
        """Match a table and the pictures in ``folder`` with a model; raises as :func:`measure` does.

        Args:
            model: gives the classes.
            table: labels; its image names are files in ``folder``.
            folder: the folder of the pictures.
            without: pictures to leave out.
        """
        strange = [name for name in table.classes if name not in set(model.classes)]
        if strange:
            raise UserError(f"the model does not know {len(strange)} of the {table.num_classes} classes", strange)
        names = [name for name in model.classes if name in set(table.classes)]
        table = table.select_classes(names).select(np.flatnonzero(np.diff(table.indptr)))
        if not table.num_images:
            raise UserError("no label of the table is known, so there is nothing to measure on")
        paths = resolve(table.images, folder)
        if without:
            out = {path.resolve() for path in without}
            rows = [row for row, path in enumerate(paths) if path.resolve() not in out]
            if not rows:
                raise UserError("all pictures of the table are needed for something else; give a folder with more")
            table, paths = table.select(rows), [paths[row] for row in rows]
        check(paths).raise_if_bad()
        return cls(table, np.array([model.classes.index(name) for name in names]), paths)

    def metrics(self, scores: NDArray[np.float32], thresholds: Sequence[float]) -> Metrics:
        """Metrics of scores (N, C) of the pictures, at C thresholds, over the classes of the table."""
        found = Accumulator(len(self.columns), self.table.classes)
        for start in range(0, len(scores), _ROWS):
            rows = slice(start, min(start + _ROWS, len(scores)))
            found.update(scores[rows][:, self.columns], self.table.dense(rows))
        return found.compute(thresholds=np.asarray(thresholds)[self.columns])


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
