"""The command ``export``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from partlabel.app.cli.models import list_images
from partlabel.app.cli.output import Json, reporting
from partlabel.core.errors import UserError

if TYPE_CHECKING:
    from partlabel.models.model import Model
    from partlabel.tasks.export import Exported, Int8Exported

#: pictures that the ranges of an INT8 file are measured on, and pictures without labels that it is compared on
_CALIBRATED, _COMPARED = 100, 400
#: pictures that an INT8 file takes at least
_FEWEST = 20


def export(
    run: Path,
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o")],
    images: Path,
    int8: bool = False,
    labels: Path | None = None,
    max_loss: float | None = None,
    json: Json = False,
) -> None:
    """Write a trained classifier as one file for other programs.

    An .onnx file takes any number of pictures at once, as uint8 of shape (batch, 3, size, size), and gives scores.
    Classes, thresholds, calibration and how pictures are prepared stand in its metadata. The file is run in onnxruntime
    on pictures, and is kept only if its scores are those of the model. A .pt2 file is the same for `torch.export.load`.
    Writing ONNX needs `pip install "partlabel[export]"`.
    With `--int8` the backbone of an .onnx file computes in 8-bit integers: the file is about a third as large, and
    faster on most processors, but its scores differ. How much is measured on other pictures than those that it is
    fitted to; with `--labels` in mAP.

    Args:
        run: Run folder of `partlabel train`.
        output: File to be written: .onnx or .pt2.
        images: Folder with pictures that the file is checked on. For `--int8` they must be typical of those that the
            file is for, some hundreds of them; no labels are needed.
        int8: Compute in 8-bit integers, where an .onnx file allows it.
        labels: Label table of pictures in the folder, a .parquet file, better of pictures that were not trained on: an
            INT8 file is kept only if it loses no more mAP on them than `--max-loss`.
        max_loss: Points of mAP, of 100, that an INT8 file may lose, 1 if not given. On few known labels mAP moves by
            more than that by chance.
    """
    with reporting(json) as report:
        if not int8 and (labels is not None or max_loss is not None):
            raise UserError("--labels and --max-loss belong to --int8; any other file gives the scores of the model")
        if max_loss is not None and labels is None:
            raise UserError("--max-loss needs --labels: without known labels there is no mAP")
        if max_loss is not None and not 0 <= max_loss <= 100:
            raise UserError(f"--max-loss is in points of mAP, from 0 to 100, not {max_loss:g}")
        from partlabel.models.model import Model
        from partlabel.models.onnx import OPSET

        model = Model.load(run)
        paths = list_images(images, None)[1]
        opset = OPSET if output.suffix == ".onnx" else None
        kind = "torch.export program" if opset is None else f"ONNX, opset {opset}{', INT8' if int8 else ''}"
        if int8:
            done = _write_int8(model, output, paths, images, labels, max_loss)
            found = asdict(done)
            values, lines = {**found.pop("file"), **found}, _int8_lines(done)
        else:
            values, lines = _write(model, output, paths)
        lines.insert(0, f"{output}: {kind}, {len(model.classes):,} classes, pictures of {model.preprocessing.size} px")
        report({"output": str(output), "opset": opset, "int8": int8, **values}, "\n".join(lines))


def _write(model: Model, output: Path, paths: list[Path]) -> tuple[dict[str, Any], list[str]]:
    from partlabel.images import check
    from partlabel.tasks.export import BATCHES, TOLERANCE
    from partlabel.tasks.export import export as write

    paths = paths[: max(BATCHES)]
    check(paths).raise_if_bad()
    done = write(model, output, paths)
    lines = [
        f"checked on {len(paths)} pictures in batches of {', '.join(map(str, BATCHES))}: scores differ from "
        f"PyTorch by at most {done.difference:.1e} (allowed {TOLERANCE:.0e})",
        *_size_and_time(done, None),
    ]
    return {"pictures": len(paths), **asdict(done)}, lines


def _write_int8(
    model: Model, output: Path, paths: list[Path], images: Path, labels: Path | None, max_loss: float | None
) -> Int8Exported:
    """Fit to some pictures of the folder, spread over it; compare on others, or on those that have labels."""
    from partlabel.images import check
    from partlabel.labels.table import LabelTable
    from partlabel.tasks.evaluate import Labelled
    from partlabel.tasks.export import MAX_LOSS, export_int8

    if len(paths) < _FEWEST:
        raise UserError(f"{images}: --int8 needs at least {_FEWEST} pictures, better {_CALIBRATED + _COMPARED}")
    fitted = _spread(paths, min(_CALIBRATED, len(paths) // 2))
    check(fitted).raise_if_bad()
    if labels is not None:
        labelled = Labelled.of(model, LabelTable.read_parquet(labels), images, without=fitted)
        return export_int8(model, output, fitted, labelled, MAX_LOSS if max_loss is None else max_loss)
    others = _spread([path for path in paths if path not in set(fitted)], _COMPARED)
    check(others).raise_if_bad()
    return export_int8(model, output, fitted, others)


def _spread(paths: list[Path], count: int) -> list[Path]:
    """At most ``count`` of the paths, evenly from the whole list, as neighbours are often alike."""
    count = min(count, len(paths))
    return [paths[i * len(paths) // count] for i in range(count)]


def _int8_lines(done: Int8Exported) -> list[str]:
    change = done.change
    lines = [
        f"ranges measured on {done.calibrated} pictures; pixels and head stay in single precision",
        f"on {change.pictures:,} other pictures scores differ by {change.mean:.2g} on average and {change.largest:.2g} "
        f"at most; {change.decisions:,} of {change.pairs:,} decisions change (present: {change.present_before:,} "
        f"before, {change.present_after:,} after)",
    ]
    if done.map_before is None or done.map_after is None:
        lines.append("what that costs in mAP is not known without --labels")
    else:
        before, after = 100 * done.map_before, 100 * done.map_after
        lines.append(f"mAP on their known labels: {before:.2f} before, {after:.2f} after")
    return lines + _size_and_time(done.file, done.single)


def _size_and_time(file: Exported, single: Exported | None) -> list[str]:
    sizes = [f"weights in PyTorch {file.torch_size / 1e6:.1f} MB"]
    times = [f"PyTorch {_times(file.torch_milliseconds)}"]
    if single is not None:
        sizes.insert(0, f"in single precision {single.size / 1e6:.1f} MB")
        times.insert(0, f"in single precision {_times(single.milliseconds)}")
    return [
        f"size {file.size / 1e6:.1f} MB ({', '.join(sizes)})",
        f"milliseconds a picture, alone and in a batch of {max(file.milliseconds)}: {_times(file.milliseconds)} "
        f"({', '.join(times)}), medians on the CPU, {file.threads} thread(s)",
    ]


def _times(milliseconds: dict[int, float]) -> str:
    return " and ".join(f"{value:.1f}" for value in milliseconds.values())
