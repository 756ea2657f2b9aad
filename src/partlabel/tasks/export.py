"""A trained model as one file for other programs: ONNX, or a program of ``torch.export`` (.pt2), checked as written."""

from __future__ import annotations

import io
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import replacing, temporary_folder
from partlabel.core.optional import require
from partlabel.images import load
from partlabel.models.model import Model
from partlabel.models.onnx import METADATA, NEEDS, OPSET, OnnxModel, traced, write_network
from partlabel.tasks.evaluate import Labelled
from partlabel.tasks.predict import score
from partlabel.tasks.quantize import SCHEME, Change, change, quantize

#: largest difference allowed, of scores up to 1; larger scores may differ in proportion
TOLERANCE = 1e-4
#: the same between batch sizes of an INT8 file, where rounding may fall to the other side
INT8_TOLERANCE = 0.05
#: batch sizes that every file is checked with, none of which it was traced with
BATCHES = (1, 2, 5)
#: batch sizes that are timed
TIMED = (1, 8)
#: points of mAP, of 100, that an INT8 file may lose
MAX_LOSS = 1.0
_TRACED = 3
_RUNS = 7

Scorer = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


@dataclass(frozen=True)
class Exported:
    """What an export gave.

    ``difference``: largest one from PyTorch, relative for scores above 1. ``size`` and ``torch_size``: bytes of the
    file and of the weights. ``milliseconds`` and ``torch_milliseconds``: medians for one image of a batch of 1 and of
    8 (the keys) with ``threads`` threads on the CPU; PyTorch runs as in :func:`partlabel.predict`.
    """

    difference: float
    size: int
    torch_size: int
    milliseconds: dict[int, float]
    torch_milliseconds: dict[int, float]
    threads: int


@dataclass(frozen=True)
class Int8Exported:
    """What an export in 8-bit integers gave.

    ``file``: the file; its ``difference`` is that of ``single``, the file in single precision that it was made from and
    that is not kept. ``calibrated``: images that the ranges were measured on. ``change``: how the scores of other
    images changed. ``map_before`` and ``map_after``: mAP in 0..1 on their known labels, None without labels.
    """

    file: Exported
    single: Exported
    calibrated: int
    change: Change
    map_before: float | None
    map_after: float | None


def metadata(model: Model) -> dict[str, Any]:
    """All but the weights that a program needs to use the file, as nested plain values."""
    return {
        **model.describe(),
        "opset": OPSET,
        "input": "images: uint8 (batch, 3, size, size), RGB, 0..255; mean and std are applied inside",
        "output": "scores: float32 (batch, classes), before the sigmoid",
        "coding": {"present": 1, "absent": -1, "unknown": 0},
    }


def export(model: Model, path: str | os.PathLike[str], pictures: Sequence[str | os.PathLike[str]]) -> Exported:
    """Write the model for any number of images at once, dropout off; the file is there only if it passes the check.

    Args:
        model: the classifier; is left in evaluation mode on the CPU.
        path: .onnx or .pt2.
        pictures: image files to check with, at least one.

    Raises:
        UserError: another ending, a package is missing, no image, or the file does not do what the model does.
    """
    target = Path(path)
    if target.suffix not in (".onnx", ".pt2"):
        raise UserError(f"{target}: models are exported as .onnx or .pt2")
    if target.suffix == ".onnx":
        require(NEEDS, "onnx", "onnxruntime", "onnxscript")
    if not pictures:
        raise UserError("the exported file is checked on real images, and there is none")
    pixels = _pixels(model, pictures)
    model.eval().cpu()
    with replacing(target) as temporary:
        scorer, difference = _write_checked(model, pixels, temporary, target)
        return _measured(scorer, model, temporary, pixels, difference)


def export_int8(
    model: Model,
    path: str | os.PathLike[str],
    pictures: Sequence[str | os.PathLike[str]],
    compared: Sequence[str | os.PathLike[str]] | Labelled,
    max_loss: float = MAX_LOSS,
) -> Int8Exported:
    """Write the model as ONNX in 8-bit integers; the file is there only if it is about as good as the model.

    Args:
        model: the classifier; is left in evaluation mode on the CPU.
        path: .onnx.
        pictures: about a hundred image files, typical of those that the file is for: the ranges of the values are
            measured on them (:mod:`partlabel.tasks.quantize`).
        compared: other images, at least one, to compare the scores on; with known labels, mAP is measured too.
        max_loss: points of mAP, of 100, that may be lost.

    Raises:
        UserError: as :func:`export`; or too much mAP is lost.
    """
    target = Path(path)
    if target.suffix != ".onnx":
        raise UserError(f"{target}: INT8 is for .onnx files")
    require(NEEDS, "onnx", "onnxruntime", "onnxscript")
    pixels = _pixels(model, pictures)
    model.eval().cpu()
    with temporary_folder() as folder, replacing(target) as temporary:
        place = folder / "single.onnx"
        _, difference = _write_checked(model, pixels, place, target)
        typical = np.stack([load(picture, model.preprocessing.size).numpy() for picture in pictures])
        quantize(place, temporary, typical)
        describe(temporary, metadata(model) | {"quantization": {**SCHEME, "pictures": len(typical)}})
        single, small = OnnxModel.load(place), OnnxModel.load(temporary)
        check(small, lambda x: np.concatenate([small(one[None]) for one in x]), pixels, target, INT8_TOLERANCE)
        found, before, after = _compared(single, small, compared)
        if before is not None and after is not None and not 100 * (before - after) <= max_loss:
            raise UserError(
                f"{target}: INT8 takes mAP from {100 * before:.2f} to {100 * after:.2f}, and at most {max_loss:g} "
                "points may be lost, so it was not kept"
            )
        return Int8Exported(
            _measured(small, model, temporary, pixels, difference),
            _measured(single, model, place, pixels, difference),
            len(typical),
            found,
            before,
            after,
        )


def _write_checked(model: Model, pixels: NDArray[np.uint8], path: Path, target: Path) -> tuple[Scorer, float]:
    """Write ``path`` as what the ending of ``target`` says; give it opened, and its difference from the model."""
    if target.suffix == ".onnx":
        write_onnx(model, pixels, path)
        scorer = OnnxModel.load(path)
    else:
        write_program(model, pixels, path)
        scorer = open_program(path)
    return scorer, check(scorer, model_scorer(model), pixels, target)


def _compared(
    before: OnnxModel, after: OnnxModel, pictures: Sequence[str | os.PathLike[str]] | Labelled
) -> tuple[Change, float | None, float | None]:
    """How the scores change, and mAP in 0..1 of both where labels are known."""
    paths = pictures.paths if isinstance(pictures, Labelled) else pictures
    scores = score(before, paths), score(after, paths)
    found = change(*scores, np.asarray(after.thresholds, np.float32))
    if not isinstance(pictures, Labelled):
        return found, None, None
    first, last = (float(pictures.metrics(values, after.thresholds).mean_ap) for values in scores)
    if np.isnan(first):
        raise UserError("no class has known present and known absent labels on these images, so there is no mAP")
    return found, first, last


def check(
    scorer: Scorer,
    expected: Scorer,
    pixels: NDArray[np.uint8],
    name: str | os.PathLike[str],
    tolerance: float = TOLERANCE,
) -> float:
    """Compare a file's scores with those that are expected, in batches of 1, 2 and 5.

    Args:
        scorer: uint8 (N, 3, size, size) to scores (N, C).
        expected: what the file must do.
        pixels: (>= 5, 3, size, size) images.
        name: the file, for the message.
        tolerance: largest difference of scores up to 1; larger scores may differ in proportion.

    Returns:
        The largest difference, relative for scores above 1.

    Raises:
        UserError: a batch does not run, or scores differ by more than ``tolerance``.
    """
    worst, wrong = 0.0, []
    cause: Exception | None = None
    for size in BATCHES:
        wanted = expected(pixels[:size])
        try:
            found = scorer(pixels[:size])
        except Exception as error:  # the runtime's own errors have no common base
            wrong.append(f"batch of {size}: does not run")
            cause = error
            continue
        if found.shape != wanted.shape:
            wrong.append(f"batch of {size}: gives scores of shape {found.shape}, not {wanted.shape}")
            continue
        difference = float((np.abs(found - wanted) / np.maximum(1, np.abs(wanted))).max())
        if not difference <= tolerance:
            wrong.append(f"batch of {size}: scores differ by {difference:.2g}")
        worst = max(worst, difference)
    if wrong:
        raise UserError(f"{name}: does not do what the model does, so it was not kept", wrong) from cause
    return worst


def model_scorer(model: Model) -> Scorer:
    """The model itself, in evaluation mode, as :func:`partlabel.predict` runs it."""

    def score(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            return model(torch.from_numpy(pixels).contiguous(memory_format=torch.channels_last)).numpy()

    return score


def write_program(model: Model, pixels: NDArray[np.uint8], path: Path) -> None:
    """Write a program of ``torch.export``, traced on a few images (>= 3, 3, size, size), with its metadata."""
    save_program(traced(model, torch.from_numpy(pixels[:_TRACED])), metadata(model), path)


def save_program(program: torch.export.ExportedProgram, described: dict[str, Any], path: Path) -> None:
    """Write a traced network and its metadata."""
    file = io.BytesIO()  # where the disk is full, torch would end the process
    torch.export.save(program, file, extra_files={METADATA: json.dumps(described)})
    path.write_bytes(file.getbuffer())


def open_program(path: Path) -> Scorer:
    """Open a .pt2 file."""
    with open(path, "rb") as file:
        module = torch.export.load(file).module()
    return lambda pixels: module(torch.from_numpy(pixels)).detach().numpy()


def write_onnx(model: Model, pixels: NDArray[np.uint8], path: Path) -> None:
    """Write an ONNX file, traced on a few images (>= 3, 3, size, size), with its metadata."""
    write_network(model, torch.from_numpy(pixels[:_TRACED]), path)
    describe(path, metadata(model))


def describe(path: Path, described: dict[str, Any]) -> None:
    """Put the metadata into an ONNX file: all as one value, and the most wanted parts as values of their own."""
    import onnx

    parts = ("classes", "class_ids", "thresholds", "preprocessing", "coding")
    values = {METADATA: described, **{name: described[name] for name in parts}}
    proto = onnx.load(path)
    del proto.metadata_props[:]
    onnx.helper.set_model_props(proto, {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()})
    path.write_bytes(proto.SerializeToString())


def _pixels(model: Model, pictures: Sequence[str | os.PathLike[str]]) -> NDArray[np.uint8]:
    """Enough images for all batches, as the model sees them; where there are fewer, they are repeated."""
    chosen = [pictures[i % len(pictures)] for i in range(max(*BATCHES, *TIMED))]
    return np.stack([load(path, model.preprocessing.size).numpy() for path in chosen])


def _measured(scorer: Scorer, model: Model, path: Path, pixels: NDArray[np.uint8], difference: float) -> Exported:
    size = path.stat().st_size
    weights = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    times: dict[str, dict[int, float]] = {"file": {}, "model": {}}
    for batch in TIMED:
        found = _medians({"file": scorer, "model": model_scorer(model)}, pixels[:batch])
        for side, seconds in found.items():
            times[side][batch] = 1000 * seconds / batch
    return Exported(difference, size, weights, times["file"], times["model"], torch.get_num_threads())


def _medians(sides: dict[str, Scorer], pixels: NDArray[np.uint8]) -> dict[str, float]:
    """Median seconds of a call of each side; they take turns, and the first turn warms up."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(_RUNS + 1):
        for name, side in sides.items():
            start = time.perf_counter()
            side(pixels)
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}
