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

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partlabel.core.files import temporary_folder
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
    """
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._batches: Iterator[dict[str, NDArray[np.uint8]]] = ({INPUT: picture[None]} for picture in pixels)

        def get_next(self) -> Any:
            return next(self._batches, None)

    with temporary_folder() as folder, quiet():
        prepared = folder / "prepared.onnx"
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
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
