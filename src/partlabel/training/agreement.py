"""Before the first step, the processes of a training compare what they have: a difference ends it with one sentence."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from partlabel.core.compute import ALONE, Crew
from partlabel.core.errors import UserError
from partlabel.images import find
from partlabel.images.contents import facts_of
from partlabel.labels.table import LabelTable
from partlabel.training.config import Config
from partlabel.training.data import Data
from partlabel.training.engine import Engine
from partlabel.training.folder import differences


def agree(
    engine: Engine,
    labels: LabelTable,
    images: Path,
    validation: LabelTable | None,
    truth: LabelTable | None,
    config: Config,
    elsewhere: tuple[str, Path] | None = None,
) -> Crew:
    """Compare versions, settings, labels and the sizes of the image files over the processes.

    Returns:
        The processes that read the same files as this one, by all their facts: those of a node, and of all nodes where
        the disk is shared. They may share out what has to be read.

    Raises:
        UserError: in the first process, naming each node that differs, and in what.
    """
    if engine.world == 1:
        return ALONE
    tables = {"labels": labels, "validation labels": validation, "true labels": truth}
    facts = {
        "version of partlabel": version("partlabel"),
        "version of torch": torch.__version__,
        "processes on a node": engine.processes.local_world,
        "config": config.to_dict(),
        **{name: None if table is None else table.content_hash() for name, table in tables.items()},
    }
    _compare(engine, facts)
    seen = [
        _compare_files(engine, table.images, images, elsewhere if table is validation else None)
        for table in (labels, validation)
        if table is not None
    ]
    return engine.crew([rank for rank in range(engine.world) if all(each[rank] == each[engine.rank] for each in seen)])


def agree_on_data(engine: Engine, data: Data) -> None:
    """Compare the usable images, what they hold, and the split over the processes.

    Raises:
        UserError: in the first process, naming each node that differs, and in what.
    """
    if engine.world > 1:
        split = hashlib.blake2b(data.rows.tobytes() + data.held_out.tobytes(), digest_size=8).hexdigest()
        both = (own for own in (data.contents, data.validation_contents) if own is not None)
        contents = hashlib.blake2b(b"".join(own.tobytes() for own in both), digest_size=8).hexdigest()
        usable = data.table.content_hash()
        _compare(engine, {"labels of usable images": usable, "split": split, "contents of images": contents})


def _compare(engine: Engine, facts: dict[str, Any]) -> None:
    everyone = engine.gather((engine.name, json.loads(json.dumps(facts))))
    first = everyone[0][1]
    found = [f"{name}: {text}" for name, own in everyone[1:] for text in differences(first, own)]
    _end_if(engine, found)


def _compare_files(
    engine: Engine, names: pa.StringArray, folder: Path, elsewhere: tuple[str, Path] | None
) -> list[str]:
    """Compare the size of each image file, -1 where there is none, and give a hash of all facts in each process."""
    with engine.together():
        found = find(names, folder, elsewhere)
        facts = np.array([_facts(path) for path in found], np.int64).reshape(len(names), 4)
    sizes = facts[:, 0].copy()
    seen = engine.gather(tuple(hashlib.blake2b(own.tobytes(), digest_size=16).hexdigest() for own in (sizes, facts)))
    if len({each[0] for each in seen}) == 1:
        return [each[1] for each in seen]
    everyone: list[tuple[str, NDArray[np.int64]]] = engine.gather((engine.name, sizes))
    first = everyone[0][1]
    found = []
    for name, own in everyone[1:]:
        for row in np.flatnonzero(own != first):
            then, now = ("missing" if size < 0 else f"{size} bytes" for size in (first[row], own[row]))
            found.append(f"{name}: {names[int(row)]}: {then} -> {now}")
    _end_if(engine, found)
    return [each[1] for each in seen]


def _facts(path: Path | None) -> tuple[int, int, int, int]:
    try:
        return (-1,) * 4 if path is None else facts_of(path.stat())
    except OSError:
        return (-1,) * 4


def _end_if(engine: Engine, found: list[str]) -> None:
    """End all processes where they differ; all of them have found the same."""
    with engine.together():
        if found and engine.first:
            raise UserError("the processes of this training differ from the first one; nothing was trained", found)
