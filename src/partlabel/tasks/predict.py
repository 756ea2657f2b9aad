"""Scores of many images, and the files that people read them in."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partlabel.core.compute import autocast, default_device, inference_batch, limit_threads, loader_workers
from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.core.optional import load
from partlabel.core.progress import Reporter
from partlabel.images import MAX_PIXELS, ImageDataset, Listed, list_images, make_loader
from partlabel.models.compiled import is_averaged
from partlabel.models.model import Model
from partlabel.models.onnx import OnnxModel
from partlabel.tasks.sheets import write_wide, write_workbook
from partlabel.training.batches import Source, open_source
from partlabel.training.config import Config
from partlabel.training.run import SETTINGS, Run

if TYPE_CHECKING:
    from pandas import DataFrame


#: fewer images are run faster than they are looked up
FEW = 64


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a classifier says of N images and C classes.

    Attributes:
        images: N names.
        classes: C names.
        scores: float32 (N, C), before the sigmoid.
        probabilities: float64 (N, C) in [0, 1], calibrated where the model is.
        present: bool (N, C), where score >= threshold of the class in single precision, whatever the probability.
    """

    images: tuple[str, ...]
    classes: tuple[str, ...]
    scores: NDArray[np.float32]
    probabilities: NDArray[np.float64]
    present: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return N."""
        return len(self.images)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the scores, for NumPy."""
        return np.array(self.scores, dtype, copy=copy)

    def to_pandas(self) -> DataFrame:
        """Return one row for each image and class: image, class, score, probability, present.

        Raises:
            UserError: pandas is not installed.
        """
        pandas, count = load("data frames need", "pandas"), len(self.classes)
        return pandas.DataFrame(
            {
                "image": np.repeat(np.asarray(self.images, object), count),
                "class": list(self.classes) * len(self.images),
                "score": self.scores.ravel(),
                "probability": self.probabilities.ravel(),
                "present": self.present.ravel(),
            }
        )

    def write(self, path: str | os.PathLike[str], *, wide: bool = False) -> None:
        """Write a file, whole or not at all.

        A ``.csv`` file has one row per image and class (image, class, score, probability, present); a wide one has one
        row per image: what is present, between semicolons, and the probability of each class. A ``.xlsx`` file is the
        wide one as a workbook. A ``.parquet`` file has one row per image with three lists in the order of the classes;
        the classes stand in its metadata. No name is taken for a formula by a spreadsheet.

        Args:
            path: file to write; its ending chooses the format.
            wide: a row for each image, where the file is ``.csv``.

        Raises:
            UserError: another ending, more than a sheet holds, or the file cannot be written.
        """
        from partlabel.tasks.prediction_files import Keep, PredictionWriter

        target = Path(path)
        if target.suffix == ".xlsx":
            write_workbook(target, self.images, self.classes, self.probabilities, self.present)
        elif target.suffix == ".csv" and wide:
            write_wide(target, self.images, self.classes, self.probabilities, self.present)
        elif target.suffix in (".csv", ".parquet"):
            with (
                replacing(target) as temporary,
                PredictionWriter.open(temporary, self.classes, Keep(), kind=target.suffix[1:]) as writer,
            ):
                writer.add(list(self.images), self.scores, self.probabilities, self.present)
        else:
            raise UserError(f"{target}: predictions are written as .csv, .xlsx or .parquet")


def predict(
    run: Run | Model | OnnxModel | str | os.PathLike[str],
    images: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    device: str | torch.device | None = None,
    workers: int | None = None,
) -> Predictions:
    """Say of images which classes they show.

    Args:
        run: a run or its folder, an ``.onnx`` file of :func:`partlabel.export`, or an open model of either.
        images: image files, or a folder, of which every image is taken, those in subfolders too.
        device: where to run; None takes the GPU if there is one. An exported classifier always runs on the CPU.
        workers: loader processes; None chooses.

    Raises:
        UserError: there is no such run, or an image cannot be read.

    >>> import partlabel as pl
    >>> found = pl.predict("run", ["photos/000.png", "photos/001.png"])
    >>> found.classes, found.probabilities.shape
    (('red', 'green'), (2, 2))
    >>> found.to_pandas().columns.tolist()
    ['image', 'class', 'score', 'probability', 'present']
    """
    model = open_classifier(run)
    if isinstance(images, str | os.PathLike):
        listed = list_images(images) if Path(images).is_dir() else Listed([os.fspath(images)], [Path(images)], [])
    else:
        listed = Listed([os.fspath(path) for path in images], [Path(path) for path in images], [])
    scores = score(model, listed.paths, device=device, workers=workers)
    return predictions(model, listed.names, scores)


def predictions(model: Model | OnnxModel, names: Sequence[str], scores: NDArray[np.float32]) -> Predictions:
    """Make probabilities and decisions of scores (N, C) of named images, by the model's calibration and thresholds."""
    present = scores >= np.asarray(model.thresholds, np.float32)
    return Predictions(tuple(names), tuple(model.classes), scores, model.probabilities(scores), present)


def open_classifier(run: Run | Model | OnnxModel | str | os.PathLike[str]) -> Model | OnnxModel:
    """Open the best model of a run or its folder, or an ``.onnx`` file; a model that is open already stays as it is.

    Raises:
        UserError: see :meth:`partlabel.models.onnx.OnnxModel.load` and :meth:`partlabel.models.model.Model.load`.
    """
    if isinstance(run, Run):
        return run.model
    if isinstance(run, Model | OnnxModel):
        return run
    path = Path(run)
    if path.suffix == ".onnx" and not path.is_dir():
        return OnnxModel.load(path)
    model = Model.load(path)
    if (path / SETTINGS).is_file():  # of a run: in the precision that its thresholds were chosen in
        model.precision = Config.read(path / SETTINGS).precision
    return model


def score(
    model: Model | OnnxModel,
    paths: Sequence[str | os.PathLike[str]],
    *,
    device: str | torch.device | None = None,
    workers: int | None = None,
    keep: bool | None = None,
) -> NDArray[np.float32]:
    """Return the scores of image files; :func:`partlabel.tasks.scoring.scored` is for many images and classes.

    Args:
        model: the classifier, the mode of which is put back afterwards, or an exported one.
        paths: N image files.
        device: where to run; None takes the GPU if there is one. An exported classifier always runs on the CPU.
        workers: loader processes; None chooses.
        keep: features of the images are looked up, and stored, where the model averages them; None: of many images.

    Returns:
        (N, C) float32 scores, before the sigmoid, in the order of ``paths``.

    Raises:
        UserError: an image cannot be read.
    """
    scores = np.empty((len(paths), len(model.classes)), np.float32)
    with Reporter().bar("scoring images") as bar:
        for rows, values in score_batches(model, paths, device=device, workers=workers, keep=keep):
            scores[rows] = values
            bar(int(rows[-1]) + 1, len(paths))
    return scores


def score_batches(
    model: Model | OnnxModel,
    paths: Sequence[str | os.PathLike[str]],
    *,
    cut: int | None = None,
    device: str | torch.device | None = None,
    workers: int | None = None,
    keep: bool | None = None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Give the scores of image files batch by batch, in order: row numbers (n,) and scores (n, C).

    Args:
        model: as for :func:`score`.
        paths: N image files.
        cut: no batch reaches over a multiple of this number.
        device: as there.
        workers: as there.
        keep: as there.

    Raises:
        UserError: an image cannot be read.
    """
    with scorer(model, device) as (on, run):
        size, count = inference_batch(on), len(paths)
        cut = cut or max(count, 1)
        parts = ((start, min(start + cut, count)) for start in range(0, count, cut))
        rows = [np.arange(a, min(a + size, end)) for start, end in parts for a in range(start, end, size)]
        stage = model.backbone.num_stages if isinstance(model, Model) else 0
        if isinstance(model, Model) and is_averaged(model, stage) and (count > FEW if keep is None else keep):
            source = _features(model, [Path(path) for path in paths], loader_workers(on, workers, count))
            for batch, features in zip(rows, source.batches(rows, None), strict=True):
                yield batch, run(features, stage)
            return
        dataset = ImageDataset(paths, model.preprocessing.size)
        loader = make_loader(dataset, [batch.tolist() for batch in rows], loader_workers(on, workers, count))
        for batch, (pixels, _) in zip(rows, loader, strict=True):
            yield batch, run(pixels)


def _features(model: Model, paths: list[Path], workers: int) -> Source:
    """What the head of a model takes of images: stored by a training or an earlier task, or computed now and stored."""
    with Reporter().bar("computing image features") as bar:
        return open_source(
            model,
            model.backbone.num_stages,
            paths,
            flip=False,
            workers=workers,
            max_pixels=MAX_PIXELS,
            device=model.pixel_scale.device,
            progress=bar,
        )


@contextmanager
def scorer(
    model: Model | OnnxModel, device: str | torch.device | None = None
) -> Generator[tuple[str, Callable[..., NDArray[np.float32]]]]:
    """Make a model ready; give the kind of device it runs on, and a function from pixels (n, 3, H, W) to scores (n, C).

    The function also takes the output of so many stages and their number. The mode of the model is put back at the end.
    """
    limit_threads()
    if isinstance(model, OnnxModel):
        yield "cpu", lambda pixels: model(pixels.numpy())
        return
    on = torch.device(device or default_device())
    was_training = model.training
    model.eval().to(on)

    def run(images: Tensor, stage: int = 0) -> NDArray[np.float32]:
        with torch.inference_mode(), autocast(on, model.precision):
            return model(images.to(on).contiguous(memory_format=torch.channels_last), stage).float().cpu().numpy()

    yield on.type, run
    model.train(was_training)
