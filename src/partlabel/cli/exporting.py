"""The command ``export``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from partlabel.cli.models import list_pictures
from partlabel.cli.output import Json, reporting


def export(run: Path, /, *, output: Annotated[Path, Parameter(alias="-o")], images: Path, json: Json = False) -> None:
    """Write a trained classifier as one file for other programs.

    An .onnx file takes any number of pictures at once, as uint8 of shape (batch, 3, size, size), and gives scores.
    Classes, thresholds, calibration and how pictures are prepared stand in its metadata. The file is run in onnxruntime
    on pictures, and is kept only if its scores are those of the model. A .pt2 file is the same for `torch.export.load`.
    Writing ONNX needs `pip install "partlabel[export]"`.

    Args:
        run: Run folder of `partlabel train`.
        output: File to be written: .onnx or .pt2.
        images: Folder with pictures that the file is checked on.
    """
    with reporting(json) as report:
        from partlabel.export import BATCHES, OPSET, TOLERANCE
        from partlabel.export import export as write
        from partlabel.images import check
        from partlabel.model import Model

        model = Model.load(run)
        paths = list_pictures(images, None)[1][: max(BATCHES)]
        check(paths).raise_if_bad()
        done = write(model, output, paths)
        opset = OPSET if output.suffix == ".onnx" else None
        kind = "torch.export program" if opset is None else f"ONNX, opset {opset}"
        lines = [
            f"{output}: {kind}, {len(model.classes):,} classes, pictures of {model.preprocessing.size} px",
            f"checked on {len(paths)} pictures in batches of {', '.join(map(str, BATCHES))}: scores differ from "
            f"PyTorch by at most {done.difference:.1e} (allowed {TOLERANCE:.0e})",
            f"size {done.size / 1e6:.1f} MB (weights in PyTorch {done.torch_size / 1e6:.1f} MB)",
            f"one picture takes {1000 * done.seconds:.1f} ms (PyTorch {1000 * done.torch_seconds:.1f} ms) on the CPU, "
            f"{done.threads} thread(s), medians",
        ]
        report({"output": str(output), "opset": opset, "pictures": len(paths), **asdict(done)}, "\n".join(lines))
