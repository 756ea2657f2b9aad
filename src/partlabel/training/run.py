"""A run: the folder of one training, read file by file when it is asked for."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core import html
from partlabel.core.errors import UserError
from partlabel.core.files import to_toml
from partlabel.core.records import CHECKSUM, WRONG, checksum, checksum_of_rows, from_json, read_record
from partlabel.core.special import check_folder
from partlabel.core.text import plural
from partlabel.core.trouble import plainly
from partlabel.labels.holdout import random_sample
from partlabel.labels.table import LabelTable
from partlabel.metrics import Metrics
from partlabel.metrics.headline import say
from partlabel.models.description import read_description
from partlabel.models.score_files import ScoreFile
from partlabel.models.scores import Scores, read_scores
from partlabel.training.by_class import by_class
from partlabel.training.config import Config

if TYPE_CHECKING:
    from torch import nn

    from partlabel.models.model import Model

#: the files of a run folder
MARKER, SETTINGS, HISTORY, SUMMARY = "run.json", "config.toml", "metrics.jsonl", "summary.json"
LABELS, VALIDATION, RELABELLED = "labels.parquet", "validation.parquet", "relabelled.parquet"
OUT_OF_FOLD, HEADLINE = "out_of_fold.parquet", "headline.json"
SCORES, THRESHOLDS, SKIPPED, ROUNDS = "validation_scores.parquet", "thresholds.json", "skipped.txt", "rounds"


class _Marker(msgspec.Struct):
    """What ``run.json`` says of the folder."""

    config: dict[str, Any] | None = None
    after: str | None = None
    validation_images: tuple[str, str] | None = msgspec.field(default=None, name="validation images")


class _Row(msgspec.Struct):
    """What a row of the history may hold, as far as others count with it."""

    epoch: int | None = None
    round: int | None = None
    loss: float | None = None
    learning_rate: float | None = None
    validation: dict[str, float | None] | None = None
    added_present: int = 0
    added_absent: int = 0
    label_proportion: float | None = None


@dataclass(frozen=True)
class HeldOut:
    """The validation part of a run.

    ``table``: its labels, N images and C classes. ``scores``: float32 (N, C) of the best model, before the sigmoid.
    """

    table: LabelTable
    scores: NDArray[np.float32]


class Run:
    """One training, as its folder tells it. Each part is read when it is first asked for, and kept.

    Args:
        folder: a run folder that :func:`partlabel.train` wrote, finished or not.
        name: what it is called among others; None takes the name of the folder.
        check: refuse a folder without a run; False where another machine may hold it.
        model: the network that was given to :func:`partlabel.train` as ``model``, where one was: only its weights are
            in the folder. A copy of it is used.

    Raises:
        UserError: the folder holds no run. Each attribute raises it, too, where its file is missing or damaged.

    Attributes:
        folder: the folder.
        name: its name.

    >>> run = Run("run")
    >>> run.labels.classes
    ('red', 'green')
    >>> run.config.optim.epochs, len(run.epochs)
    (2, 2)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        name: str | None = None,
        *,
        check: bool = True,
        model: nn.Module | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._network = model
        if check and not (self.folder / MARKER).is_file():
            raise UserError(f"{folder}: is not a run folder of partlabel train")
        check_folder(self.folder)
        self.name = self.folder.resolve().name if name is None else name

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def __str__(self) -> str:
        """Return what it was trained on and how good it is, in a few lines."""
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        """Show the same in a notebook."""
        first, *others = self._lines()
        return html.page(first, *(html.line(text) for text in others))

    def _lines(self) -> list[str]:
        state = "" if self.is_finished else f", unfinished after {len(self.epochs)} of {self.config.epochs} epochs"
        head = "head in closed form" if self.config.optim.name == "closed-form" else self.config.loss.name
        labels = self.labels
        lines = [
            f"Run {self.folder}{state}",
            f"{self.config.model.backbone}, {self.config.images.size} px, {head}; "
            f"{plural(labels.num_known, 'known label')} of "
            f"{plural(labels.num_images, 'image')} and {plural(labels.num_classes, 'class')}",
        ]
        return lines if self.headline is None else [*lines, *say(self.headline).splitlines()]

    def __fspath__(self) -> str:
        return str(self.folder)

    @cached_property
    def config(self) -> Config:
        """All settings."""
        config = Config.read(self.folder / SETTINGS)
        started = self._marker.config if (self.folder / MARKER).is_file() else None
        try:
            stored = Config.from_dict(tomllib.loads(to_toml(started)), MARKER) if started else config
        except UserError:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UserError(f"{self.folder / MARKER}: is damaged") from error
        if stored != config:
            raise UserError(f"{self.folder / SETTINGS}: is not what the run was started with, which {MARKER} says")
        return config

    @cached_property
    def labels(self) -> LabelTable:
        """The labels that it was trained on, before any relabelling."""
        return LabelTable.read_parquet(self.folder / LABELS)

    @cached_property
    def validation(self) -> LabelTable | None:
        """The labels that it was validated on; None where nothing was held out."""
        path = self.folder / VALIDATION
        return LabelTable.read_parquet(path) if path.is_file() else None

    @cached_property
    def all_labels(self) -> LabelTable:
        """The labels that it was trained and validated on, in one table."""
        return self.labels if self.validation is None else self.labels.merge(self.validation)

    @cached_property
    def relabelled(self) -> LabelTable | None:
        """The labels of training after the last round of relabelling; None where there was none."""
        path = self.folder / RELABELLED
        return LabelTable.read_parquet(path) if path.is_file() else None

    @property
    def held_out_labels(self) -> LabelTable:
        """The labels that it was validated on.

        Raises:
            UserError: it was trained without a validation part.
        """
        if self.validation is None:
            raise UserError(
                f"{self.folder}: was trained without a validation part, so there are no labels that the model has not "
                "seen; train with --validation above 0"
            )
        return self.validation

    @cached_property
    def held_out(self) -> HeldOut:
        """The known labels that it was not trained on, with the scores of its best model.

        Raises:
            UserError: it was trained without a validation part, or the files do not belong together.
        """
        return HeldOut(self.held_out_labels, self.held_out_scores.dense())

    @cached_property
    def held_out_scores(self) -> Scores:
        """The scores of ``held_out``, some of them at a time in memory.

        Raises:
            UserError: as ``held_out``.
        """
        table, path = self.held_out_labels, self.folder / SCORES
        try:
            file = ScoreFile(path)
            found, fits, classes = read_scores([file]), file.checksum, list(file.classes)
            rows = (values for _, values in found.in_order())
            sums = checksum_of_rows("score", found.shape, rows, classes) if fits else ""
        except (UserError, OSError, pa.ArrowException, KeyError, ValueError, TypeError, MemoryError) as error:
            raise UserError(f"{path}: is missing or damaged") from error
        if fits != sums:
            raise UserError(f"{path}: {WRONG}")
        if file.classes != table.classes or file.num_images != table.num_images:
            raise UserError(f"{self.folder}: {SCORES} does not belong to {VALIDATION}")
        return found

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """The rows of ``metrics.jsonl``: epochs and rounds of relabelling in order of time, perhaps none yet."""
        path = self.folder / HISTORY
        if not path.is_file():
            return []
        rows, bad = [], []
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except ValueError as error:
            raise UserError(f"{path}: is damaged") from error
        for number, line in enumerate(lines, 1):
            try:
                rows.append(dict(from_json(line)))
                msgspec.convert(rows[-1], _Row)
            except (ValueError, TypeError, RecursionError) as error:
                bad.append(f"{path}:{number} {plainly(error)}")
        if bad:
            raise UserError(f"{path}: is damaged", bad)
        vouched = rows[0].pop(CHECKSUM, None) if rows else None
        if vouched not in (None, checksum(rows)) or (self.is_finished and not rows):
            raise UserError(f"{path}: {WRONG}")
        return rows

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """The rows of the history about epochs."""
        return [row for row in self.history if "epoch" in row]

    @cached_property
    def rounds(self) -> list[dict[str, Any]]:
        """The records of the rounds of relabelling, with what each added to each class."""
        rows = [row for row in self.history if "round" in row]
        whole = [self.folder / ROUNDS / f"round-{row['round']}.json" for row in rows]
        found = [read_record(path) if path.is_file() else row for row, path in zip(rows, whole, strict=True)]
        try:
            msgspec.convert(found, list[_Row])
        except msgspec.ValidationError as error:
            raise UserError(f"{self.folder / ROUNDS}: is damaged") from error
        return found

    @property
    def is_finished(self) -> bool:
        """Whether all epochs were run."""
        return (self.folder / SUMMARY).is_file()

    @property
    def is_validated(self) -> bool:
        """Whether labels were held out of the training."""
        return (self.folder / VALIDATION).is_file()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What the training came to.

        Raises:
            UserError: it is not finished.
        """
        if not self.is_finished:
            raise UserError(f"{self.folder}: this training is not finished; resume it")
        return read_record(self.folder / SUMMARY)

    @property
    def thresholds(self) -> dict[str, Any]:
        """How each threshold of the best model was chosen, ``thresholds.json``; empty where none was."""
        path = self.folder / THRESHOLDS
        return read_record(path) if path.is_file() else {}

    @property
    def _marker(self) -> _Marker:
        try:
            return msgspec.convert(read_record(self.folder / MARKER), _Marker)
        except msgspec.ValidationError as error:
            raise UserError(f"{self.folder / MARKER}: is damaged") from error

    @property
    def after(self) -> Run | None:
        """The run that this one was trained after, with a grown table; None where none was named or it is gone."""
        named = self._marker.after
        return Run(named) if named and (Path(named) / MARKER).is_file() else None

    @property
    def elsewhere(self) -> tuple[str, Path] | None:
        """How the names of validation images in a folder of their own begin, and that folder; None without."""
        named = self._marker.validation_images
        return None if named is None else (named[0], Path(named[1]))

    @property
    def headline(self) -> dict[str, Any] | None:
        """What all labels would say of it, ``headline.json``, see :mod:`partlabel.metrics.headline`; None without."""
        path = self.folder / HEADLINE
        return read_record(path) if path.is_file() else None

    @property
    def same_content(self) -> int:
        """Validation images whose content was trained on under another name, counted before the training."""
        if not self.is_finished:
            return 0
        return int(self.summary.get("validation_images_trained_on_by_content", 0))

    def description(self, which: Literal["best", "last"] = "best") -> dict[str, Any]:
        """What the ``model.toml`` of a model says: network, preprocessing, classes, thresholds, calibration."""
        return read_description(self.folder / which)

    @cached_property
    def model(self) -> Model:
        """The model of the best epoch."""
        return self.load_model("best")

    def load_model(self, which: Literal["best", "last"] = "best") -> Model:
        """Load the model of the best or of the last epoch."""
        from partlabel.models.model import Model  # loads torch, which those who only read tables can do without

        model = Model.load(self.folder, which=which, network=self._network)
        model.precision = self.config.precision
        return model

    @cached_property
    def metrics(self) -> Metrics:
        """Metrics of the best model on its held-out labels, at its thresholds; only a random sample of labels counts.

        The best epoch and the thresholds were chosen on these labels, which flatters; see ``thresholds`` for numbers by
        cross-validation.

        Raises:
            UserError: it was trained without a validation part.
        """
        table = random_sample(self.held_out_labels)
        limits = np.asarray(self.description()["thresholds"], np.float32)
        return by_class(self.held_out_scores, table).metrics(limits, table.classes)


def read_runs(folders: Sequence[str | os.PathLike[str]]) -> list[Run]:
    """Open several runs; each is called by its folder's name, or by its path where names repeat.

    Raises:
        UserError: a folder that is given twice or holds no run.
    """
    paths = [Path(folder) for folder in folders]
    repeated = [str(path) for i, path in enumerate(paths) if path.resolve() in [p.resolve() for p in paths[:i]]]
    if repeated:
        raise UserError("runs are given more than once", repeated)
    names = [path.resolve().name for path in paths]
    unique = len(set(names)) == len(names)
    return [Run(path, name if unique else str(path)) for path, name in zip(paths, names, strict=True)]
