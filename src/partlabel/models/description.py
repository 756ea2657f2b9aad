"""The ``model.toml`` of a saved model: what it is and how its scores become decisions. Loads no torch."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from partlabel.core.errors import UserError
from partlabel.core.files import to_toml, write_text
from partlabel.core.records import opened, sealed
from partlabel.core.special import refuse_special
from partlabel.metrics.calibration import Calibration

WEIGHTS_FILE, DESCRIPTION_FILE = "model.safetensors", "model.toml"
VERSION = 1


def decision(
    thresholds: Sequence[float], goal: str, sources: Sequence[str], calibration: Calibration | None
) -> dict[str, Any]:
    """The part of ``model.toml`` that says how scores become decisions and probabilities."""
    found: dict[str, Any] = {
        "thresholds": [float(value) for value in thresholds],
        "decision": "present where score >= threshold, in single precision",
        "threshold_goal": goal,
        "threshold_sources": list(sources),
    }
    if calibration is not None:
        meaning = "probability = 1 / (1 + exp(-(slope * score + offset)))"
        found["calibration"] = {"meaning": meaning, **dataclasses.asdict(calibration)}
    return found


def read_description(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the ``model.toml`` of a model folder.

    Raises:
        UserError: there is none, or it is damaged or of a newer version.
    """
    path = Path(folder) / DESCRIPTION_FILE
    refuse_special(path)
    try:
        description = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"{folder}: holds no model ({DESCRIPTION_FILE} is missing)") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is damaged") from error
    if description.get("version") != VERSION:
        raise UserError(f"{path}: version {description.get('version')}; this partlabel reads version {VERSION}")
    description = opened(description, path)
    try:
        # models saved before thresholds were chosen
        description.setdefault("threshold_goal", "default")
        description.setdefault("threshold_sources", ["default"] * len(description["classes"]))
        found = msgspec.convert(description, _Description)
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise UserError(f"{path}: is damaged") from error
    lists: list[Sequence[Any]] = [found.thresholds, found.threshold_sources]
    lists += [] if found.class_ids is None else [found.class_ids]
    lists += [] if found.calibration is None else [found.calibration.slope, found.calibration.offset]
    if any(len(values) != len(found.classes) for values in lists):
        raise UserError(f"{path}: is damaged (not all its lists are of {len(found.classes)} classes)")
    return description


class _Network(msgspec.Struct):
    backbone: str
    pooling: str


class _Images(msgspec.Struct):
    size: Annotated[int, msgspec.Meta(gt=0, lt=2**16)]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


class _Description(msgspec.Struct):
    """What every ``model.toml`` says."""

    classes: tuple[str, ...]
    thresholds: tuple[float, ...]
    threshold_goal: str
    threshold_sources: tuple[str, ...]
    model: _Network
    preprocessing: _Images
    class_ids: tuple[str, ...] | None = None
    calibration: Calibration | None = None


def write_description(folder: str | os.PathLike[str], description: dict[str, Any]) -> None:
    """Write the ``model.toml`` of a model folder with its checksum, whole or not at all.

    Raises:
        UserError: it cannot be written.
    """
    plain = tomllib.loads(to_toml(description))  # without what TOML does not hold
    write_text(Path(folder) / DESCRIPTION_FILE, to_toml(sealed(plain)))


def write_decision(
    folder: str | os.PathLike[str],
    thresholds: Sequence[float],
    goal: str,
    sources: Sequence[str],
    calibration: Calibration | None,
) -> None:
    """Replace thresholds and calibration of a saved model, whole or not at all; its weights are not touched.

    Args:
        folder: a folder that :meth:`Model.save` wrote.
        thresholds: C thresholds on scores.
        goal: see :class:`Model`.
        sources: C, see :class:`Model`.
        calibration: of C classes, or None for the plain sigmoid.

    Raises:
        UserError: the folder holds no model, or it cannot be written.
    """
    description = read_description(folder)
    description.pop("calibration", None)
    description |= decision(thresholds, goal, sources, calibration)
    write_description(folder, description)
