"""An ONNX file in 8-bit integers, and what that changes.

Static quantisation by onnxruntime: the ranges of the activations are measured on real images, and the file holds
QuantizeLinear and DequantizeLinear nodes of the ONNX standard, which any runtime can fold into integer arithmetic.

- Weights are per channel: with one scale for a whole convolution, depthwise ones lose most of their precision.
- Weights use 7 of the 8 bits: without it the sums of two products overflow on x86 processors without VNNI, silently.
- The pixels' normalisation and everything from the classifier on (pooling, label graph) stay in single precision: they
  are a small part of the work, and rounding there goes into the scores directly.

All three were measured on photographs (experiments/export.py).
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.files import temporary_files_in, temporary_folder
from partlabel.core.trouble import machine_says
from partlabel.models.onnx import INPUT, quiet

#: how an INT8 file was made, for its metadata
SCHEME = {"activations": "uint8", "weights": "int8 in -64..64, per channel", "in_single_precision": "pixels, head"}
#: with these the backbone begins
_LAYERS = ("Conv", "Gemm", "MatMul")


@dataclass(frozen=True)
class Change:
    """How the scores of N images and C classes changed from one file to another.

    ``largest`` and ``mean``: absolute difference of scores. ``decisions``: pairs whose decision changed, of ``pairs``;
    ``present_before`` and ``present_after``: pairs decided as present.
    """

    pictures: int
    largest: float
    mean: float
    decisions: int
    pairs: int
    present_before: int
    present_after: int


def change(before: NDArray[np.float32], after: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Change:
    """Compare scores (N, C) at C thresholds; a class is present where score >= threshold."""
    difference = np.abs(after - before)
    present, still = before >= thresholds, after >= thresholds
    return Change(
        len(before),
        float(difference.max()),
        float(difference.mean()),
        int((present != still).sum()),
        present.size,
        int(present.sum()),
        int(still.sum()),
    )


def quantize(source: Path, target: Path, pixels: NDArray[np.uint8]) -> None:
    """Write an INT8 version of an exported file; it has no metadata.

    Args:
        source: an .onnx file of :func:`partlabel.tasks.export.export`.
        target: file to write.
        pixels: (N, 3, size, size) images that the ranges of the activations are measured on.

    Raises:
        UserError: onnxruntime fails, as where the disk is full: of the files that it writes on the way it does not
            say that they could not be written, and fails at what it reads again.
    """
    import onnxruntime

    try:
        with temporary_folder() as folder, temporary_files_in(folder), quiet(), redirect_stdout(io.StringIO()):
            prepared = _prepared(source, folder)
            _write_integers(prepared, target, pixels)
    except Exception as error:  # onnxruntime's and protobuf's errors have no common base
        if isinstance(error, UserError) or machine_says(error) is not None:
            raise
        raise UserError(
            f"{target}: onnxruntime {onnxruntime.__version__} could not make it of 8-bit integers; the disk of the "
            f"folder {tempfile.gettempdir()}, where it writes on the way, may be full"
        ) from error


def _prepared(source: Path, folder: Path) -> Path:
    """The network with batch norms folded and all shapes known, as a file in ``folder``.

    The same as onnxruntime's ``quant_pre_process``, which goes on with the network as it was where its disk is full.
    """
    import onnx
    import onnxruntime
    from onnxruntime.quantization.quant_utils import add_pre_process_metadata

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4  # what it would print is raised too
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    proto = onnx.shape_inference.infer_shapes(onnx.load(folder / "optimized.onnx"))
    add_pre_process_metadata(proto)
    prepared = folder / "prepared.onnx"
    prepared.write_bytes(proto.SerializeToString())
    return prepared


def _write_integers(prepared: Path, target: Path, pixels: NDArray[np.uint8]) -> None:
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._batches: Iterator[dict[str, NDArray[np.uint8]]] = ({INPUT: picture[None]} for picture in pixels)

        def get_next(self) -> Any:
            return next(self._batches, None)

    quantize_static(
        prepared,
        target,
        Reader(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        nodes_to_exclude=_single_precision(onnx.load(prepared).graph),
    )


def _single_precision(graph: Any) -> list[str]:
    """Names of the nodes that are not quantised: those before the first layer, and those of the head."""
    head = _head(graph)
    names, begun = [], False
    for node in graph.node:  # in order of computation
        begun = begun or node.op_type in _LAYERS
        if not begun or node.name in head:
            names.append(node.name)
    return names


def _head(graph: Any) -> set[str]:
    """Names of the nodes from the classifier on: back from the scores to the first convolution of each path."""
    made = {output: node for node in graph.node for output in node.output}
    names: set[str] = set()
    open_ends = [output.name for output in graph.output]
    while open_ends:
        node = made.get(open_ends.pop())
        if node is not None and node.name not in names:
            names.add(node.name)
            if node.op_type != "Conv":
                open_ends += node.input
    return names
