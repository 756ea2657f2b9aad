"""The files of predictions, written some images at a time: all classes, or of many classes those that people use."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.core.text import as_cell
from partlabel.models.model import Model
from partlabel.models.onnx import OnnxModel
from partlabel.models.score_files import ScoreWriter

#: up to so many classes all scores are written, where nobody chose; above, so many of each image and all present ones
MANY, TOP = 256, 20
#: images that are put together before they are written
_ROWS = 1024


@dataclass(frozen=True)
class Keep:
    """What is written of each image.

    ``top``: the classes with the highest scores, as many as that, and all that reach their threshold; None: all.
    """

    top: int | None = None

    def __post_init__(self) -> None:
        """Refuse less than one class.

        Raises:
            UserError: see above.
        """
        if self.top is not None and self.top < 1:
            raise UserError(f"at least 1 class of each image is written, not {self.top}")

    @staticmethod
    def of(model: Model | OnnxModel, top: int | None = None, dense: bool = False) -> Keep:
        """Decide for a model: what was asked for, else all of up to 256 classes and the best 20 of more.

        Raises:
            UserError: both were asked for.
        """
        if top is not None and dense:
            raise UserError("either all classes are written, or the best ones, not both")
        if top is not None or dense:
            return Keep(top)
        return Keep(None if len(model.classes) <= MANY else TOP)

    def to_dict(self) -> dict[str, Any]:
        """Give plain values."""
        return asdict(self)

    def pairs(self, scores: NDArray[np.float32], present: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return row and class of each pair that is written, row by row, the highest score of each first."""
        chosen = present.copy()
        top = scores.shape[1] if self.top is None else min(self.top, scores.shape[1])
        best = np.argpartition(-scores, top - 1, axis=1)[:, :top]
        np.put_along_axis(chosen, best, True, axis=1)
        row, cls = np.nonzero(chosen)
        order = np.lexsort((-scores[row, cls], row))
        return row[order], cls[order]


class Writer(Protocol):
    """Takes images (n,) with their scores, probabilities and decisions, (n, C) each."""

    def add(self, images: Sequence[str], scores: Any, probabilities: Any, present: Any) -> None:
        """Write them."""
        ...


def decided(
    model: Model | OnnxModel, scores: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_]]:
    """Give scores (n, C) with the probabilities and the decisions of the model."""
    return scores, model.probabilities(scores), scores >= np.asarray(model.thresholds, np.float32)


class PredictionWriter:
    """Opens a file of predictions; use it inside :func:`partlabel.core.files.replacing`."""

    @staticmethod
    @contextmanager
    def open(
        path: Path, classes: Sequence[str], keep: Keep, about: Mapping[str, Any] | None = None, kind: str = "shard"
    ) -> Generator[Writer]:
        """Give what writes a file.

        Args:
            path: the file.
            classes: C names.
            keep: what is written of each image.
            about: more to say in the file, as plain values.
            kind: ``shard`` (scores alone where all are kept), ``parquet`` or ``csv``.
        """
        if kind == "shard" and keep.top is None:
            with ScoreWriter(path, classes, about) as writer:
                yield _Scores(writer)
            return
        made = _Csv(path, classes, keep) if kind == "csv" else _Lists(path, classes, keep, about or {})
        try:
            yield made
            made.flush()
        finally:
            made.close()


class _Scores:
    """Scores alone, from which the rest follows."""

    def __init__(self, writer: ScoreWriter) -> None:
        self._writer = writer

    def add(self, images: Sequence[str], scores: Any, probabilities: Any, present: Any) -> None:
        self._writer.add(images, scores)


class _Buffered:
    """Images put together until they are worth writing."""

    def __init__(self, classes: Sequence[str], keep: Keep) -> None:
        self.keep = keep
        self._waiting: list[tuple[Any, ...]] = []
        self._rows, self._count = max(1, min(_ROWS, 2**22 // max(len(classes), 1))), 0

    def add(self, images: Sequence[str], scores: Any, probabilities: Any, present: Any) -> None:
        for low in range(0, len(images), self._rows):
            some = slice(low, low + self._rows)
            self._waiting.append((images[some], scores[some], probabilities[some], present[some]))
            self._count += len(images[some])
            if self._count >= self._rows:
                self.flush()

    def flush(self) -> None:
        """Write what was put together."""
        if self._waiting:
            names = [name for images, *_ in self._waiting for name in images]
            scores, likely, present = (np.concatenate(parts) for parts in list(zip(*self._waiting, strict=True))[1:])
            self._waiting, self._count = [], 0
            self.write(names, scores, likely, present)

    def write(
        self, names: list[str], scores: NDArray[np.float32], likely: NDArray[Any], present: NDArray[np.bool_]
    ) -> None:
        raise NotImplementedError


class _Csv(_Buffered):
    """A row for each image and class: image, class, score, probability, present."""

    def __init__(self, path: Path, classes: Sequence[str], keep: Keep) -> None:
        super().__init__(classes, keep)
        self._classes = np.array([as_cell(name) for name in classes], object)
        kinds = {"image": pa.string(), "class": pa.string(), "score": pa.float32(), "probability": pa.float64()}
        self._schema = pa.schema([*kinds.items(), ("present", pa.int8())])
        self._sink = pa.OSFile(str(path), "wb")
        try:
            self._file = pyarrow.csv.CSVWriter(self._sink, self._schema)
        except BaseException:
            self._sink.close()
            raise

    def write(
        self, names: list[str], scores: NDArray[np.float32], likely: NDArray[Any], present: NDArray[np.bool_]
    ) -> None:
        if self.keep.top is None:
            row, cls = (index.ravel() for index in np.indices(scores.shape))
        else:
            row, cls = self.keep.pairs(scores, present)
        values = {
            "image": np.array([as_cell(name) for name in names], object)[row],
            "class": self._classes[cls],
            "score": scores[row, cls],
            "probability": np.round(likely[row, cls].astype(np.float64), 6),
            "present": present[row, cls].astype(np.int8),
        }
        self._file.write_table(pa.table(values, schema=self._schema))

    def close(self) -> None:
        try:
            self._file.close()
        finally:
            self._sink.close()  # which the writer leaves open, and Windows moves and removes no open file


class _Lists(_Buffered):
    """A row for each image, with lists: of all classes in their order, or of those that are kept, with their names."""

    def __init__(self, path: Path, classes: Sequence[str], keep: Keep, about: Mapping[str, Any]) -> None:
        super().__init__(classes, keep)
        count = len(classes)
        self._list = (lambda kind: pa.list_(kind, count)) if keep.top is None else pa.list_
        kinds = {} if keep.top is None else {"class": pa.string()}
        kinds |= {"score": pa.float32(), "probability": pa.float32(), "present": pa.bool_()}
        lists = [(name, self._list(kind)) for name, kind in kinds.items()]
        notes = {"classes": list(classes), **about}
        self._schema = pa.schema([("image", pa.string()), *lists]).with_metadata(
            {key: json.dumps(value, ensure_ascii=False) for key, value in notes.items()}
        )
        self._classes = np.array(list(classes), object)
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")

    def write(
        self, names: list[str], scores: NDArray[np.float32], likely: NDArray[Any], present: NDArray[np.bool_]
    ) -> None:
        likely = likely.astype(np.float32)
        if self.keep.top is None:
            lists = [
                pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), scores.shape[1])
                for values in (scores, likely, present)
            ]
        else:
            row, cls = self.keep.pairs(scores, present)
            start = pa.array(np.searchsorted(row, np.arange(len(names) + 1)), pa.int32())
            columns = (pa.array(self._classes[cls], pa.string()), *(v[row, cls] for v in (scores, likely, present)))
            lists = [pa.ListArray.from_arrays(start, pa.array(values)) for values in columns]
        self._file.write_table(pa.table([pa.array(names, pa.string()), *lists], schema=self._schema))

    def close(self) -> None:
        self._file.close()
