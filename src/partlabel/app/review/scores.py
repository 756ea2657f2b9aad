"""Scores of every pair of picture and class, computed once by the run's best model and kept beside the run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.images import resolve
from partlabel.labels.names import buffers
from partlabel.metrics.calibration import Calibration
from partlabel.models.description import DESCRIPTION_FILE, WEIGHTS_FILE
from partlabel.training.run import Run

#: the best model of a run
WEIGHTS, DESCRIPTION = Path("best", WEIGHTS_FILE), Path("best", DESCRIPTION_FILE)
#: scores are stored in half precision, whose largest number this nearly is
_LIMIT = 60_000


@dataclass(frozen=True)
class Judge:
    """What the run's best model is, without the model itself.

    Attributes:
        classes: C names, in the order of the scores.
        thresholds: (C,) scores from which on a class is present.
        calibration: how scores become probabilities.
        weights: 32 hexadecimal digits that change with the weights.
    """

    classes: tuple[str, ...]
    thresholds: tuple[float, ...]
    calibration: Calibration
    weights: str

    @classmethod
    def of_run(cls, run: Path) -> Judge:
        """Read the description of the best model of a run.

        Raises:
            UserError: no run is there, or its model is missing or damaged.
        """
        about = Run(run).description()
        try:
            with open(run / WEIGHTS, "rb") as file:
                weights = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
            classes, thresholds = tuple(about["classes"]), tuple(map(float, about["thresholds"]))
            stored = about.get("calibration", {"slope": [1.0] * len(classes), "offset": [0.0] * len(classes)})
            calibration = Calibration(tuple(stored["slope"]), tuple(stored["offset"]))
        except OSError as error:
            raise UserError(f"{error.filename}: the model of the run cannot be read ({error.strerror})") from None
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{run / DESCRIPTION}: is damaged: {error}") from None
        if not len(classes) == len(thresholds) == len(calibration.slope) == len(calibration.offset):
            raise UserError(f"{run / DESCRIPTION}: is damaged: the lists are not those of {len(classes)} classes")
        return cls(classes, thresholds, calibration, weights)


def digest(*parts: Any) -> str:
    """16 hexadecimal digits that change with any of the parts: plain values, or arrays of names."""
    found = hashlib.blake2b(digest_size=8)
    for part in parts:
        if isinstance(part, pa.Array):
            offsets, text = buffers(part)
            found.update(np.diff(offsets).data)
            found.update(text[offsets[0] : offsets[-1]].data)
        else:
            found.update(json.dumps(part).encode())
    return found.hexdigest()


def scores_of(run: Path, judge: Judge, images: pa.StringArray, folder: Path, cache: Path) -> NDArray[np.float16]:
    """Scores of pictures by the run's best model: stored ones, or computed now with a progress bar and stored.

    Args:
        run: run folder.
        judge: its best model.
        images: (N,) names of pictures in ``folder``.
        folder: the folder of the pictures.
        cache: folder for the file.

    Returns:
        (N, C) memory-mapped, before the sigmoid.

    Raises:
        UserError: pictures are missing or cannot be read, or a score is not a finite number.
    """
    target = cache / f"scores-{digest(judge.weights, judge.classes, images)}.npy"
    if not target.is_file():
        from partlabel.core.progress import Reporter
        from partlabel.images import check
        from partlabel.tasks.predict import predict

        paths = resolve(images, folder)
        with Reporter().bar("checking pictures") as bar:
            check(paths, progress=bar).raise_if_bad()
        scores = predict(Run(run).model, paths)
        store_scores(target, scores)
    return np.load(target, mmap_mode="r")


def store_scores(target: Path, scores: NDArray[np.floating]) -> None:
    """Write scores (N, C) in half precision, whole or not at all.

    Raises:
        UserError: a score is not a finite number.
    """
    if not np.isfinite(scores).all():
        raise UserError("some scores of the run's model are not finite numbers, so its labels cannot be ranked")
    with replacing(target) as temporary, open(temporary, "wb") as file:
        np.save(file, np.clip(scores, -_LIMIT, _LIMIT).astype(np.float16))
