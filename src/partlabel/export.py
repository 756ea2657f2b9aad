"""A trained model as one file for other programs: ONNX, or a program of ``torch.export`` (.pt2), checked as written."""

from __future__ import annotations

import importlib.util
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

from partlabel.errors import UserError
from partlabel.images import load
from partlabel.model import Model
from partlabel.storage import replacing

#: the opset of the ONNX files
OPSET = 18
#: largest difference allowed, of scores up to 1; larger scores may differ in proportion
TOLERANCE = 1e-4
#: batch sizes that every file is checked with, none of which it was traced with
BATCHES = (1, 2, 5)
_TRACED = 3
_RUNS = 7
#: key of the metadata, JSON, in both kinds of file
METADATA = "partlabel"
_NEEDED = ("onnx", "onnxruntime", "onnxscript")

Scorer = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


@dataclass(frozen=True)
class Exported:
    """What an export gave.

    ``difference``: largest one from PyTorch, relative for scores above 1. ``size`` and ``torch_size``: bytes of the
    file and of the weights. ``seconds`` and ``torch_seconds``: medians for one picture with ``threads`` threads on the
    CPU.
    """

    difference: float
    size: int
    torch_size: int
    seconds: float
    torch_seconds: float
    threads: int


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
    """Write the model for any number of pictures at once, dropout off; the file is there only if it passes the check.

    Args:
        model: the classifier; is left in evaluation mode on the CPU.
        path: .onnx or .pt2.
        pictures: picture files to check with, at least one.

    Raises:
        UserError: another ending, a package is missing, no picture, or the file does not do what the model does.
    """
    target = Path(path)
    if target.suffix not in (".onnx", ".pt2"):
        raise UserError(f"{target}: models are exported as .onnx or .pt2")
    if target.suffix == ".onnx":
        require_packages()
    if not pictures:
        raise UserError("the exported file is checked on real pictures, and there is none")
    pixels = _pixels(model, pictures)
    model.eval().cpu()
    with torch.no_grad(), replacing(target) as temporary:
        batch = {"images": {0: torch.export.Dim("batch")}}
        program = torch.export.export(model, (torch.from_numpy(pixels[:_TRACED]),), dynamic_shapes=batch)
        if target.suffix == ".onnx":
            _write_onnx(program, model, temporary)
            scorer = onnx_scorer(temporary)
        else:
            with open(temporary, "wb") as file:
                torch.export.save(program, file, extra_files={METADATA: json.dumps(metadata(model))})
            scorer = _program_scorer(temporary)
        difference = check(scorer, model, pixels, target)
        size = temporary.stat().st_size
        seconds = _median(lambda: scorer(pixels[:1]))
        torch_seconds = _median(lambda: model(torch.from_numpy(pixels[:1])))
    weights = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    return Exported(difference, size, weights, seconds, torch_seconds, torch.get_num_threads())


def check(scorer: Scorer, model: Model, pixels: NDArray[np.uint8], name: str | os.PathLike[str]) -> float:
    """Compare a file's scores with the model's, in batches of 1, 2 and 5.

    Args:
        scorer: uint8 (N, 3, size, size) to scores (N, C).
        model: what the file must do, in evaluation mode.
        pixels: (>= 5, 3, size, size) pictures.
        name: the file, for the message.

    Returns:
        The largest difference, relative for scores above 1.

    Raises:
        UserError: a batch does not run, or scores differ by more than ``TOLERANCE``.
    """
    worst, wrong = 0.0, []
    for size in BATCHES:
        with torch.no_grad():
            expected = model(torch.from_numpy(pixels[:size])).numpy()
        try:
            found = scorer(pixels[:size])
        except Exception as error:  # the runtime's own errors have no common base
            wrong.append(f"batch of {size}: does not run ({str(error).splitlines()[0]})")
            continue
        if found.shape != expected.shape:
            wrong.append(f"batch of {size}: gives scores of shape {found.shape}, not {expected.shape}")
            continue
        difference = float((np.abs(found - expected) / np.maximum(1, np.abs(expected))).max())
        if not difference <= TOLERANCE:
            wrong.append(f"batch of {size}: scores differ by {difference:.2g}")
        worst = max(worst, difference)
    if wrong:
        raise UserError(f"{name}: does not do what the model does, so it was not kept", wrong)
    return worst


def onnx_scorer(path: str | os.PathLike[str]) -> Scorer:
    """Open an ONNX file in onnxruntime on the CPU, with PyTorch's number of threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    return lambda pixels: np.asarray(session.run(["scores"], {"images": pixels})[0])


def require_packages() -> None:
    """Refuse in one sentence when the extra is not installed.

    Raises:
        UserError: a package is missing.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"ONNX files need {', '.join(missing)}: pip install 'partlabel[export]'")


def _program_scorer(path: Path) -> Scorer:
    with open(path, "rb") as file:
        module = torch.export.load(file).module()
    return lambda pixels: module(torch.from_numpy(pixels)).numpy()


def _write_onnx(program: torch.export.ExportedProgram, model: Model, path: Path) -> None:
    import onnx

    written = torch.onnx.export(
        program, (), input_names=["images"], output_names=["scores"], opset_version=OPSET, dynamo=True, verbose=False
    )
    assert written is not None
    proto = written.model_proto
    graph = proto.graph
    made_up = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if made_up and dimension.dim_param == made_up:
                dimension.dim_param = "batch"
    described = metadata(model)
    parts = ("classes", "class_ids", "thresholds", "preprocessing", "coding")
    values = {METADATA: described, **{name: described[name] for name in parts}}
    onnx.helper.set_model_props(proto, {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()})
    path.write_bytes(proto.SerializeToString())


def _pixels(model: Model, pictures: Sequence[str | os.PathLike[str]]) -> NDArray[np.uint8]:
    """At least five pictures as the model sees them; fewer are repeated."""
    chosen = [pictures[i % len(pictures)] for i in range(max(BATCHES))]
    return np.stack([load(path, model.preprocessing.size).numpy() for path in chosen])


def _median(run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
