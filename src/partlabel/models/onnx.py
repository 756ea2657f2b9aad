"""ONNX files: networks written by torch's exporter, and run by onnxruntime on the CPU.

:class:`OnnxModel` is a classifier in a file that ``partlabel export`` wrote.
"""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from partlabel.core.errors import UserError
from partlabel.core.optional import require
from partlabel.metrics.calibration import Calibration, sigmoid
from partlabel.models.model import Preprocessing

#: the opset of the files
OPSET = 18
#: names of the input, the output, and the key of the metadata (JSON)
INPUT, OUTPUT, METADATA = "images", "scores", "partlabel"
#: version of the metadata that is read here
VERSION = 1
#: what needs packages of the extra ``export``
NEEDS = "ONNX files need"


@dataclass(frozen=True)
class _Metadata:
    """What of the metadata is needed to use the file; see :func:`partlabel.tasks.export.metadata`."""

    version: int
    classes: list[str]
    thresholds: list[float]
    threshold_goal: str
    threshold_sources: list[str]
    preprocessing: Preprocessing
    class_ids: list[str] | None = None
    calibration: Calibration | None = None
    quantization: dict[str, Any] | None = None


class OnnxModel:
    """An exported classifier with all that it needs to be used; made by :meth:`load`.

    Attributes:
        classes, class_ids, preprocessing, thresholds, threshold_goal, threshold_sources, calibration: as of
            :class:`partlabel.models.model.Model`.
        quantization: how the file was made INT8, None where it computes in single precision.
    """

    def __init__(self, path: Path, session: Any, described: _Metadata) -> None:
        self.path = path
        self._session = session
        self.classes = tuple(described.classes)
        self.class_ids = None if described.class_ids is None else tuple(described.class_ids)
        self.preprocessing = described.preprocessing
        self.thresholds = tuple(described.thresholds)
        self.threshold_goal = described.threshold_goal
        self.threshold_sources = tuple(described.threshold_sources)
        self.calibration = described.calibration
        self.quantization = described.quantization

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OnnxModel:
        """Open a file; it is run with as many threads as PyTorch uses.

        Args:
            path: an .onnx file that ``partlabel export`` wrote.

        Raises:
            UserError: it is missing or damaged, onnxruntime is not installed or cannot run it (such as an opset that it
                does not know), or it is not a file of ``partlabel export``.
        """
        require(NEEDS, "onnxruntime")
        file = Path(path)
        session = open_session(file)
        described = _described(file, session.get_modelmeta().custom_metadata_map.get(METADATA))
        _check_ends(file, session, described)
        return cls(file, session, described)

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Scores (N, C) before the sigmoid of images (N, 3, size, size), RGB.

        Raises:
            UserError: onnxruntime fails on them.
        """
        try:
            return np.asarray(self._session.run([OUTPUT], {INPUT: pixels})[0])
        except Exception as error:  # onnxruntime's errors have no common base
            raise UserError(f"{self.path}: onnxruntime fails on {len(pixels)} images") from error

    def probabilities(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        """Scores (N, C) to probabilities (N, C) in [0, 1]: calibrated where the model is, else the sigmoid."""
        return (
            sigmoid(scores.astype(np.float64)) if self.calibration is None else self.calibration.probabilities(scores)
        )


@contextmanager
def quiet() -> Generator[None]:
    """Keep the remarks of exporters and of onnx from the user for the block; errors are raised anyway."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # onnxruntime logs tracebacks of what it raises
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def traced(module: nn.Module, examples: Tensor) -> torch.export.ExportedProgram:
    """A network of one input as a program of ``torch.export`` for any number of images; two examples at least."""
    with torch.no_grad():
        program = torch.export.export(module, (examples,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    for node in program.graph.nodes:  # files go to others, who need not know where partlabel lies here
        node.meta.pop("stack_trace", None)
    return program


def write_network(module: nn.Module, examples: Tensor, path: Path, output: str = OUTPUT) -> None:
    """Write a network as ONNX for any number of images.

    Args:
        module: in evaluation mode, on the CPU; takes uint8 images (N, 3, size, size).
        examples: two images at least.
        path: the file.
        output: name of its output.
    """
    program = traced(module, examples)
    with quiet():
        written = torch.onnx.export(
            program, (), input_names=[INPUT], output_names=[output], opset_version=OPSET, dynamo=True, verbose=False
        )
    assert written is not None
    proto = written.model_proto
    graph = proto.graph
    made_up = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if made_up and dimension.dim_param == made_up:
                dimension.dim_param = "batch"
    path.write_bytes(proto.SerializeToString())


def open_session(path: Path) -> Any:
    """Open a file with onnxruntime, with as many threads as PyTorch uses.

    Raises:
        UserError: it is missing or damaged, or onnxruntime cannot run it.
    """
    import onnxruntime

    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4  # its errors are raised too; it need not print them
    try:
        # without trying once more, of which it would print what went wrong
        return onnxruntime.InferenceSession(
            os.fspath(path), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # onnxruntime's errors have no common base
        raise UserError(f"{path}: {_reason(error, onnxruntime.__version__)}") from error


def _described(path: Path, text: str | None) -> _Metadata:
    if text is None:
        raise UserError(f"{path}: lacks the classes and settings that `partlabel export` stores in a file")
    try:
        values = json.loads(text)
        version = values.get("version")
        if version != VERSION:
            raise UserError(f"{path}: its metadata are of version {version}; this partlabel reads version {VERSION}")
        described = msgspec.convert(values, _Metadata)
    except UserError:
        raise
    except (AttributeError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: its metadata are damaged") from error
    lists: list[Sequence[Any]] = [described.thresholds, described.threshold_sources]
    lists += [] if described.class_ids is None else [described.class_ids]
    if described.calibration is not None:
        lists += [described.calibration.slope, described.calibration.offset]
    if any(len(values) != len(described.classes) for values in lists):
        raise UserError(f"{path}: its metadata are damaged: not all lists are of {len(described.classes)} classes")
    return described


def _check_ends(path: Path, session: Any, described: _Metadata) -> None:
    """Refuse a network whose input and output are not those of the metadata."""
    size, classes = described.preprocessing.size, len(described.classes)
    wanted = [
        ("input", INPUT, "tensor(uint8)", ["any", 3, size, size]),
        ("output", OUTPUT, "tensor(float)", ["any", classes]),
    ]
    found = [
        (kind, end.name, end.type, ["any" if isinstance(n, str) or n is None else n for n in end.shape])
        for kind, ends in (("input", session.get_inputs()), ("output", session.get_outputs()))
        for end in ends
    ]
    if found != wanted:
        raise UserError(
            f"{path}: its input or output is not what its metadata say",
            [f"{name}: {_text(ends)}" for name, ends in (("in the file", found), ("expected", wanted))],
        )


def _text(ends: list[tuple[str, str, str, list[Any]]]) -> str:
    return ", ".join(f"{kind} {name} {type_} ({', '.join(map(str, shape))})" for kind, name, type_, shape in ends)


def _reason(error: Exception, version: str) -> str:
    """Why a file does not open."""
    opset = re.search(r"Opset (\d+) is .* till opset (\d+)", str(error))
    if opset:
        return f"is of opset {opset[1]}; onnxruntime {version} knows those up to {opset[2]}"
    return f"is damaged, or no ONNX file that onnxruntime {version} can run"
