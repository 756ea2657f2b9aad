"""The known labels that a run was not trained on, with the scores of its best model."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.labels.table import LabelTable

LABELS_FILE, SCORES_FILE = "validation.parquet", "validation_scores.parquet"


@dataclass(frozen=True)
class HeldOut:
    """The validation part of a run.

    ``table``: its labels, N images and C classes. ``scores``: float32 (N, C) of the best model, before the sigmoid.
    """

    table: LabelTable
    scores: NDArray[np.float32]


def write_scores(run: Path, classes: Sequence[str], scores: NDArray[np.float32]) -> None:
    """Write the scores (N, C) of the images of ``validation.parquet``, in their order."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(scores.ravel()), scores.shape[1])
    content = pa.table({"score": column}).replace_schema_metadata({"classes": json.dumps(list(classes))})
    with replacing(run / SCORES_FILE) as temporary:
        pq.write_table(content, temporary, compression="zstd")


def read(run: str | os.PathLike[str]) -> HeldOut:
    """Read the validation part of a run folder.

    Raises:
        UserError: no run is there, it was trained without a validation part, or the files do not belong together.
    """
    folder = Path(run)
    if not (folder / "run.json").is_file():
        raise UserError(f"{folder}: is not a run folder of partlabel train")
    if not (folder / LABELS_FILE).is_file():
        raise UserError(
            f"{folder}: was trained without a validation part, so there are no labels that the model has not seen; "
            "train with --validation above 0"
        )
    table = LabelTable.read_parquet(folder / LABELS_FILE)
    try:
        stored = pq.read_table(folder / SCORES_FILE)
        classes = json.loads((stored.schema.metadata or {})[b"classes"])
        scores = stored["score"].combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise UserError(f"{folder / SCORES_FILE}: is missing or damaged ({error})") from None
    if tuple(classes) != table.classes or scores.size != table.num_images * table.num_classes:
        raise UserError(f"{folder}: {SCORES_FILE} does not belong to {LABELS_FILE}")
    return HeldOut(table, scores.reshape(table.num_images, table.num_classes))
