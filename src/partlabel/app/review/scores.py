"""Scores of every pair of image and class, computed once by the run's best model and kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.records import fill_array, read_array, read_record, write_array, write_record
from partlabel.labels.names import buffers
from partlabel.metrics.calibration import Calibration
from partlabel.models.description import DESCRIPTION_FILE, WEIGHTS_FILE
from partlabel.models.score_files import ScoreFile
from partlabel.models.scores import Scores, read_scores
from partlabel.training.run import Run

if TYPE_CHECKING:
    from partlabel.models.model import Model

#: the best model of a run
WEIGHTS, DESCRIPTION = Path("best", WEIGHTS_FILE), Path("best", DESCRIPTION_FILE)
#: scores are stored in half precision, whose largest number this nearly is
_LIMIT = 60_000
#: scores that are copied at once
_AT_ONCE = 2**22
#: pairs of image and class up to which a review lists all, and keeps their scores beside the run
ALL = 2**24


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
            raise UserError(f"{run / DESCRIPTION}: is damaged") from error
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
            found.update(json.dumps(part, default=bytes.decode).encode())
    return found.hexdigest()


class ScoreShelf:
    """The scores of images by the run's best model: stored ones, or computed now with a progress bar and stored.

    Scores belong to what an image holds, and not to its name: an image that was exchanged is scored anew, one that
    another table has too, or under another name, is not. Up to :data:`ALL` of them lie beside the run; more lie only
    where all commands keep theirs, which may be cleared one day.

    Args:
        run: run folder.
        judge: its best model.
        paths: N image files.
        contents: (N,) hashes of what they hold.
        cache: folder for the files.
    """

    def __init__(
        self, run: Path, judge: Judge, paths: Sequence[Path], contents: NDArray[np.bytes_], cache: Path
    ) -> None:
        self._run, self._judge, self._paths, self._contents, self._cache = run, judge, paths, contents, cache
        self._model = digest(judge.weights, judge.classes)
        self._own = cache / f"scores-{self._model}-{digest(contents.tolist())}.npy"
        self._shape = len(paths), len(judge.classes)
        self._beside = len(paths) * len(judge.classes) <= ALL

    def scores(self) -> Scores:
        """All scores (N, C) before the sigmoid; those that are not stored are computed.

        Raises:
            UserError: images cannot be read, or a score is not a finite number.
        """
        if self._beside:
            return self._scores_beside()
        found = self.find()
        if found is None:
            from partlabel.tasks.scoring import scored

            found = scored(Run(self._run).model, self._paths)
            self._remember(found)
        return found

    def find(self) -> Scores | None:
        """The scores where all are stored; nothing is computed, and torch is not loaded."""
        if self._beside:
            there = read_array(self._own, self._shape, np.float16)
            return None if there is None else Scores.of(there)
        place = read_array(self._place, (len(self._paths),), np.int64)
        if place is None:
            return None
        try:
            files = [Path(name) for name in read_record(self._files)["files"]]
            found = read_scores([ScoreFile(path) for path in files], np.array(place))
            for folder in {path.parent for path in files}:
                os.utime(folder)  # what was not used for long is cleared first
        except (UserError, OSError, KeyError, IndexError, TypeError):
            return None
        return found if found.shape == self._shape else None

    @property
    def _files(self) -> Path:
        return self._own.with_suffix(".json")

    @property
    def _place(self) -> Path:
        return self._own.with_suffix(".place.npy")

    def _remember(self, scores: Scores) -> None:
        """Write down where the scores lie, so that a later start finds them without the model."""
        if (found := scores.lie()) is not None:
            files, place = found
            write_array(self._place, place)
            write_record(self._files, {"files": [str(file.path.absolute()) for file in files]})
            self._own.unlink(missing_ok=True)  # of earlier versions: 2 bytes for every pair

    def _scores_beside(self) -> Scores:
        if read_array(self._own, self._shape, np.float16) is None:

            def fill(array: np.memmap) -> None:
                missing = _fill_known(self._cache, self._model, self._contents, array)
                if len(missing):
                    _score(Run(self._run).model, self._paths, missing, array)

            fill_array(self._own, self._shape, np.float16, fill)
            write_array(self._own.with_suffix(".contents.npy"), self._contents)
        return Scores.of(np.load(self._own, mmap_mode="r"))


def _score(model: Model, paths: Sequence[Path], missing: NDArray[np.int64], array: np.memmap) -> None:
    """Score images and write what comes out into their rows, some at a time."""
    from partlabel.core.progress import Reporter
    from partlabel.tasks.scoring import scored

    if len(missing) < len(paths):
        Reporter().line(f"{len(missing):,} of {len(paths):,} images are new or were changed: they are scored now")
    for rows, values in scored(model, [paths[i] for i in missing.tolist()]).chunks():
        array[missing[rows]] = half(values)


def _fill_known(cache: Path, model: str, contents: NDArray[np.bytes_], array: np.memmap) -> NDArray[np.int64]:
    """Copy scores from files of other tables, or of a time before a change; gives the rows that no file has."""
    known = np.zeros(len(contents), bool)
    for stored in sorted(cache.glob(f"scores-{model}-*.contents.npy")):
        there = read_array(stored, None, contents.dtype)
        old = None if there is None else read_array(scores_beside(stored), (len(there), array.shape[1]), np.float16)
        if there is None or old is None or not len(there):
            continue
        order = np.argsort(there)
        place = order[np.minimum(np.searchsorted(there, contents, sorter=order), len(there) - 1)]
        found = np.flatnonzero(~known & (there[place] == contents))
        step = max(1, _AT_ONCE // max(array.shape[1], 1))
        for low in range(0, len(found), step):
            rows = found[low : low + step]
            array[rows] = old[place[rows]]
        known[found] = True
    return np.flatnonzero(~known)


def scores_beside(contents: Path) -> Path:
    """The file of the scores whose images are described by ``contents``."""
    return contents.with_name(contents.name.removesuffix(".contents.npy") + ".npy")


def half(scores: NDArray[np.floating]) -> NDArray[np.float16]:
    """Scores in half precision.

    Raises:
        UserError: a score is not a finite number.
    """
    if not np.isfinite(scores).all():
        raise UserError("some scores of the run's model are not finite numbers, so its labels cannot be ranked")
    return np.clip(scores, -_LIMIT, _LIMIT).astype(np.float16)
