"""The classes of a table paired with those of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.labels.table import LabelTable


class HasClasses(Protocol):
    """A model, or what describes one: all that is needed of it are its classes."""

    @property
    def classes(self) -> Sequence[str]:
        """C names, in the order of the scores."""
        ...


@dataclass(frozen=True, eq=False)
class Matched:
    """The classes that a table and a model share.

    Attributes:
        table: the labels of the shared classes, in the order of the model; all images.
        of_model: (K,) int64, the number in the model of each shared class.
        of_table: (K,) int64, its number in the table that was given.
    """

    table: LabelTable
    of_model: NDArray[np.int64]
    of_table: NDArray[np.int64]


def match(table: LabelTable, model: HasClasses, *, every: Literal["table", "model"]) -> Matched:
    """Pair the classes of a table with those of a model, by name.

    Args:
        table: labels.
        model: gives the classes and their order.
        every: whose classes must all be shared: those of the ``table`` where the model is measured on it, those of the
            ``model`` where its scores are to become labels of the table.

    Raises:
        UserError: listing the classes that the other side lacks.
    """
    ours, theirs = set(table.classes), set(model.classes)
    if every == "table":
        lacking = [name for name in table.classes if name not in theirs]
        if lacking:
            raise UserError(f"the model does not know {len(lacking)} of the {len(ours)} classes", lacking)
    else:
        lacking = [name for name in model.classes if name not in ours]
        if lacking:
            raise UserError(f"the label table lacks {len(lacking)} of the {len(theirs)} classes of the model", lacking)
    of_model = np.array([c for c, name in enumerate(model.classes) if name in ours], np.int64)
    shared = tuple(model.classes[c] for c in of_model)
    number = {name: c for c, name in enumerate(table.classes)}
    of_table = np.array([number[name] for name in shared], np.int64)
    return Matched(table if shared == table.classes else table.select_classes(shared), of_model, of_table)
