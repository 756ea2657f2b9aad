"""What the functions of :mod:`partlabel.app.api` give back: small typed objects, each with its data frame."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.optional import load
from partlabel.labels.pairs import MODEL
from partlabel.labels.table import LabelTable

if TYPE_CHECKING:
    from pandas import DataFrame

    from partlabel.models.scores import Scores
    from partlabel.tasks.next_labels import Questions


@dataclass(frozen=True, eq=False)
class Filled:
    """A label table with labels that a model filled in.

    Attributes:
        labels: the table; new labels have the origin ``model``, their score and the number of the round.
        report: what was added, class by class, as plain values.
    """

    labels: LabelTable
    report: dict[str, Any]

    def to_pandas(self) -> DataFrame:
        """Return one row for each label of a model: image, class, label (1 or -1), score, round.

        Raises:
            UserError: pandas is not installed.
        """
        own = self.labels.hide(self.labels.origin == MODEL)
        names = np.asarray(own.images.to_pylist(), object)
        nothing = np.zeros(own.num_known)
        return load("data frames need", "pandas").DataFrame(
            {
                "image": names[own.pair_images()],
                "class": np.asarray(own.classes, object)[own.indices],
                "label": own.values,
                "score": nothing if own.score is None else own.score,
                "round": nothing if own.round is None else own.round,
            }
        )


@dataclass(frozen=True, eq=False)
class Suspicions:
    """Known labels that are perhaps wrong, the surest contradiction first.

    Attributes:
        images, classes: (K,) names.
        labels: (K,) the labels as they stand, 1 or -1.
        probabilities: (K,) of present, by a classifier that has not seen the image.
        checked: number of known labels that were looked at.
    """

    images: tuple[str, ...]
    classes: tuple[str, ...]
    labels: NDArray[np.int8]
    probabilities: NDArray[np.float64]
    checked: int

    def __len__(self) -> int:
        """Return K."""
        return len(self.images)

    def to_pandas(self) -> DataFrame:
        """Return one row for each label: image, class, label, probability.

        Raises:
            UserError: pandas is not installed.
        """
        columns = {"image": self.images, "class": self.classes, "label": self.labels, "probability": self.probabilities}
        return load("data frames need", "pandas").DataFrame(columns)


@dataclass(frozen=True, eq=False)
class NextLabels:
    """What to ask a person next.

    Attributes:
        questions: the pairs, and why each is asked, as numbers into ``table``.
        table: the table with the classes of the model, in its order.
        scores: (N, C) of its images, float32; ``numpy.asarray`` makes one array of them.
        summary: what the questions are, as plain values.
    """

    questions: Questions
    table: LabelTable
    scores: Scores
    summary: dict[str, Any]

    def __len__(self) -> int:
        """Return the number of questions that are still to be asked."""
        return int(self.questions.open.sum())

    def to_pandas(self) -> DataFrame:
        """Return one row for each question: image, class, why, score.

        Raises:
            UserError: pandas is not installed.
        """
        from partlabel.tasks.next_labels import WHY

        asked, names = self.questions, np.asarray(self.table.images.to_pylist(), object)
        own = asked.open
        return load("data frames need", "pandas").DataFrame(
            {
                "image": names[asked.image[own]],
                "class": np.asarray(self.table.classes, object)[asked.cls[own]],
                "why": np.asarray(WHY, object)[asked.why[own]],
                "score": self.scores.pairs(asked.image[own], asked.cls[own]),
            }
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the questions as CSV with an empty column ``answer``; ``partlabel labels answers`` reads it back.

        Raises:
            UserError: the file cannot be written.
        """
        from partlabel.tasks.question_files import write_csv

        write_csv(Path(path), self.table, self.scores, self.questions)
