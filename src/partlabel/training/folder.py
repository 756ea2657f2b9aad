"""What a training writes into its run folder; :class:`partlabel.training.run.Run` reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import make_folder, replacing, sweep, write_text
from partlabel.core.lock import LOCK_FILES
from partlabel.core.records import CHECKSUM, checksum, checksum_of_arrays, read_record, write_record
from partlabel.training.config import Config
from partlabel.training.data import Data
from partlabel.training.run import HISTORY, LABELS, MARKER, SCORES, SETTINGS, SKIPPED, VALIDATION

#: scores in a group of rows of a file
_GROUP = 2**22


def is_started(run: Path, identity: dict[str, Any], resume: bool) -> bool:
    """Whether the folder holds this run already.

    Args:
        run: the run folder.
        identity: what makes two runs the same, as plain values.
        resume: the user wants to go on with it.

    Raises:
        UserError: it holds a run that is not to be resumed or another one, or other files.
    """
    marker = run / MARKER
    if marker.is_file():
        if not resume:
            raise UserError(f"{run}: holds a run already; resume it or choose another folder")
        changed = differences(read_record(marker), identity)
        if changed:
            raise UserError(
                f"{run}: cannot be resumed, as it was started with other settings or labels; to train on from its "
                f"model with these, use another folder: --weights {run} -o ANOTHER",
                changed,
            )
        return True
    if run.is_dir():
        sweep(run)  # a process that was killed while it wrote the marker leaves a temporary file
    if run.exists() and (not run.is_dir() or any(path.name not in LOCK_FILES for path in run.iterdir())):
        raise UserError(f"{run}: is not an empty folder and holds no run")
    return False


def create_folder(run: Path, identity: dict[str, Any]) -> None:
    """Make the folder and write what the run is: ``run.json`` and ``config.toml``."""
    make_folder(run)
    write_record(run / MARKER, identity)
    Config.from_dict(identity["config"]).write(run / SETTINGS)


def differences(stored: dict[str, Any], given: dict[str, Any], prefix: str = "") -> list[str]:
    """Every value that differs, as ``name: then -> now``."""
    found = []
    for name, value in given.items():
        then = stored.get(name)
        if isinstance(value, dict) and isinstance(then, dict):
            found += differences(then, value, f"{prefix}{name}.".removeprefix("config."))
        elif then != value:
            found.append(f"{prefix}{name}: {then} -> {value}")
    return found


def write_history(run: Path, history: Iterable[dict[str, Any]]) -> None:
    """Write ``metrics.jsonl``, a row per epoch and per round of relabelling, in order of time."""
    rows = list(history)
    if rows:  # the first one vouches for all, so that a row that is missing is noticed too
        rows[0] = {**rows[0], CHECKSUM: checksum(rows)}
    write_text(run / HISTORY, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))


def write_round(run: Path, row: dict[str, Any]) -> None:
    """Write the whole record of a round, ``rounds/round-1.json``."""
    folder = make_folder(run / "rounds")
    write_record(folder / f"round-{row['round']}.json", row)


def write_inputs(run: Path, identity: dict[str, Any], data: Data) -> None:
    """Make the folder and write what the run is, what is trained and validated on, and which images are left out."""
    create_folder(run, identity)
    data.trained_table.write_parquet(run / LABELS)
    if data.validation_table is not None:
        data.validation_table.write_parquet(run / VALIDATION)
    if data.skipped:
        write_text(run / SKIPPED, "".join(f"{name}: {why}\n" for name, why in data.skipped))


def write_scores(run: Path, classes: Sequence[str], scores: NDArray[np.float32]) -> None:
    """Write the scores (N, C) of the images of ``validation.parquet``, in their order."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(scores.ravel()), scores.shape[1])
    about = {"classes": json.dumps(list(classes)), CHECKSUM: checksum_of_arrays({"score": scores}, list(classes))}
    content = pa.table({"score": column}).replace_schema_metadata(about)
    with replacing(run / SCORES) as temporary:  # in groups of rows: they are read some at a time
        pq.write_table(content, temporary, compression="zstd", row_group_size=max(1, _GROUP // max(len(classes), 1)))
