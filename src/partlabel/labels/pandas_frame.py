"""Label tables as data frames of pandas, which is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.optional import load
from partlabel.labels.arrays import LabelArrays

if TYPE_CHECKING:
    from pandas import DataFrame

IMAGE = "image"
#: values of a column that an error names
_NAMED = 5


def read(frame: DataFrame) -> tuple[list[str], list[str], NDArray[np.int8]]:
    """Return image names, class names and labels int8 (N, C) of a frame; see ``LabelTable.from_pandas``."""
    if IMAGE in frame.columns:
        frame = frame.set_index(IMAGE)
    names, classes = [str(name) for name in frame.index], [str(name) for name in frame.columns]
    labels = np.zeros(frame.shape, np.int8)
    wrong, zero = [], []
    for c, name in enumerate(classes):
        column = frame.iloc[:, c]
        known = column.notna().to_numpy()
        values = column.to_numpy(object)[known]
        odd = [v for v in dict.fromkeys(values) if isinstance(v, bool | np.bool_) or v not in (1, -1, 0)]
        if odd:
            wrong.append(f"{name}: {', '.join(map(repr, odd[:_NAMED]))}{', ...' if len(odd) > _NAMED else ''}")
            continue
        labels[known, c] = values.astype(np.int8)
        if (values == 0).any():
            zero.append(name)
    if wrong:
        raise UserError("the frame has values other than 1 present, -1 absent and missing for unknown", wrong)
    if zero and not (labels == -1).any():
        raise UserError(
            "the frame holds 0 but never -1, so 0 could mean absent or unknown; replace it, for example by "
            "frame.replace(0, -1) for absent or frame.replace(0, None) for unknown",
            zero,
        )
    return names, classes, labels


def write(table: LabelArrays) -> DataFrame:
    """Return the labels as a frame; see ``LabelTable.to_pandas``."""
    pandas = load("data frames need", "pandas")
    labels = table.dense()
    columns = {
        name: pandas.arrays.IntegerArray(labels[:, c].copy(), labels[:, c] == 0) for c, name in enumerate(table.classes)
    }
    return pandas.DataFrame(columns, index=pandas.Index(_texts(table), name=IMAGE))


def _texts(table: LabelArrays) -> Sequence[str]:
    return table.images.to_pylist()
