"""The command ``export``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from partlabel.app.cli.output import Json, reporting
from partlabel.core.errors import UserError
from partlabel.core.text import plural

if TYPE_CHECKING:
    from partlabel.tasks.export import Exported, Int8Exported


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

    An .onnx file takes any number of images at once, as uint8 of shape (batch, 3, size, size), and gives scores.
    Classes, thresholds, calibration and how images are prepared stand in its metadata. The file is run in onnxruntime
    on images, and is kept only if its scores are those of the model. A .pt2 file is the same for `torch.export.load`.
    Writing ONNX needs `pip install onnx onnxruntime onnxscript` (the extra `export`).
    With `--int8` the backbone of an .onnx file computes in 8-bit integers: the file is about a third as large, and
    faster on most processors, but its scores differ. How much is measured on other images than those that it is
    fitted to; with `--labels` in mAP.

    Args:
        run: Run folder of `partlabel train`.
        output: File to be written: .onnx or .pt2.
        images: Folder with images that the file is checked on. For `--int8` they must be typical of those that the
            file is for, some hundreds of them; no labels are needed.
        int8: Compute in 8-bit integers, where an .onnx file allows it.
        labels: Label table of images in the folder, a .parquet file, better of images that were not trained on: an
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
        from partlabel.app.api import export as write
        from partlabel.labels.table import LabelTable
        from partlabel.models.description import read_description
        from partlabel.models.onnx import OPSET

        table = None if labels is None else LabelTable.read_parquet(labels)
        done: Any = write(run, output, images=images, int8=int8, labels=table, max_loss=max_loss)
        opset = OPSET if output.suffix == ".onnx" else None
        kind = "torch.export program" if opset is None else f"ONNX, opset {opset}{', INT8' if int8 else ''}"
        described, values = read_description(run if (run / "model.toml").is_file() else run / "best"), asdict(done)
        if int8:
            values, lines = {**values.pop("file"), **values}, _int8_lines(done)
        else:
            lines = _lines(done)
        size = described["preprocessing"]["size"]
        lines.insert(0, f"{output}: {kind}, {plural(len(described['classes']), 'class')}, images of {size} px")
        report({"output": str(output), "opset": opset, "int8": int8, **values}, "\n".join(lines))


def _lines(done: Exported) -> list[str]:
    from partlabel.tasks.export import BATCHES, TOLERANCE

    return [
        f"checked in batches of {', '.join(map(str, BATCHES))}: scores differ from PyTorch by at most "
        f"{done.difference:.1e} (allowed {TOLERANCE:.0e})",
        *_size_and_time(done, None),
    ]


def _int8_lines(done: Int8Exported) -> list[str]:
    change = done.change
    lines = [
        f"ranges measured on {done.calibrated} images; pixels and head stay in single precision",
        f"on {change.pictures:,} other images scores differ by {change.mean:.2g} on average and {change.largest:.2g} "
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
        f"milliseconds an image, alone and in a batch of {max(file.milliseconds)}: {_times(file.milliseconds)} "
        f"({', '.join(times)}), medians on the CPU, {file.threads} thread(s)",
    ]


def _times(milliseconds: dict[int, float]) -> str:
    return " and ".join(f"{value:.1f}" for value in milliseconds.values())
