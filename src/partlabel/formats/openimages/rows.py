"""Rows of the annotation files as statements: who says what about which image."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.openimages.sources import AnnotationFile
from partlabel.formats.report import ImportReport, Tally, ValueCount, plural
from partlabel.formats.table.columns import NameColumn

#: what the column Source says where persons gave the label; the last three are ways to draw boxes
PERSONS = ("verification", "crowdsource-verification", "human", "freeform", "xclick", "activemil")
MACHINE = "machine"
_PRESENT, _ABSENT, _WEAK, _SILENT, _WRONG = 1, -1, 2, 0, 3
#: wrong rows that are kept for an error
_KEPT = 1000


@dataclass
class Rows:
    """What R rows of all files say; S of them state something.

    Attributes:
        images: N unique ids, those of rows that state nothing included; labels: L unique label ids.
        image, label: int32 (S,) numbers in them; value: int8 (S,), +1, -1, or 0 for a machine that is not believed.
        row: int64 (S,) number of the row, counted through all files.
        score: float32 (S,) logit of the confidence of a machine, NaN where a person gave the label; None where
            machines are not believed.
    """

    images: pa.StringArray
    labels: list[str]
    image: NDArray[np.int32]
    label: NDArray[np.int32]
    value: NDArray[np.int8]
    row: NDArray[np.int64]
    score: NDArray[np.float32] | None


class RowReader:
    """Reads annotation files; ``place`` tells later where a row was.

    Args:
        files: in the order in which their rows are counted.
        threshold: confidence from which on a machine's label is a weak present one, or None to leave them out.
        keep_silent: give the rows of machines that are not believed too, so that their pairs count as listed.
    """

    def __init__(self, files: Sequence[AnnotationFile], threshold: float | None, keep_silent: bool = False) -> None:
        self.files = files
        self.threshold = threshold
        self.keep_silent = keep_silent
        self._first_rows: list[int] = []
        self._rows = 0
        self._images, self._labels = NameColumn(), NameColumn()
        self._values: list[NDArray[np.int8]] = []
        self._scores: list[NDArray[np.float32]] = []
        self._wrong: list[tuple[int, str]] = []
        self._wrong_rows = 0
        self._cells: Counter[tuple[str, int]] = Counter()
        self._sources: Counter[str] = Counter()

    def read(self, report: ImportReport) -> Rows:
        """Read all files and report their values.

        Raises:
            UserError: confidences outside 0 .. 1 or, of a person, between them; unknown sources; rows without an image
                or a label. All are listed.
        """
        for file in self.files:
            self._first_rows.append(self._rows)
            self._read_file(file)
        images, image, _ = self._images.finish(trim=True)
        names, label, _ = self._labels.finish(trim=True)
        labels = names.to_pylist()
        for what, blank, number in (
            ("image", images.index("").as_py(), image),
            ("label", names.index("").as_py(), label),
        ):
            lost = np.flatnonzero(number == blank) if blank >= 0 else np.zeros(0, np.int64)
            self._wrong_rows += len(lost)
            self._wrong += [(int(row), f"no {what} id") for row in lost[:_KEPT]]
        if self._wrong:
            raise self._refusal(report.source)
        self._report(report)
        value = np.concatenate(self._values) if self._values else np.zeros(0, np.int8)
        score = np.concatenate(self._scores) if self.threshold is not None and self._scores else None
        row = np.arange(len(value)) if self.keep_silent else np.flatnonzero(value)
        if len(row) < len(value):
            image, label, value = image[row], label[row], value[row]
            score = None if score is None else score[row]
        return Rows(images, labels, image, label, value, row, score)

    def _read_file(self, file: AnnotationFile) -> None:
        """Read one file, a batch of rows at a time."""
        columns = [file.image, file.label, file.confidence, *([] if file.source is None else [file.source])]
        for batch in file.table.batches(columns):
            self._images.add(batch.columns[0])
            self._labels.add(batch.columns[1])
            cells = batch.columns[2].dictionary.to_pylist()
            sources = ["verification"] if file.source is None else batch.columns[3].dictionary.to_pylist()
            pair = batch.columns[2].indices.to_numpy()
            if file.source is not None:
                pair = batch.columns[3].indices.to_numpy() * np.int32(len(cells)) + pair
            self._read_values(sources, cells, pair)
            self._rows += len(batch)

    def _read_values(self, sources: Sequence[str], cells: Sequence[str], pair: NDArray[np.int32]) -> None:
        """Read the values of one batch.

        Args:
            sources: S distinct sources; cells: C distinct confidences, as they are written.
            pair: int32 (R,) number of the source times C plus number of the confidence of each row.
        """
        confidences = [_number(cell) for cell in cells]
        codes = np.array([[self._code(source, c) for c in confidences] for source in sources], np.int8).reshape(-1)
        counts = np.bincount(pair, minlength=len(codes))
        for source, own, count in zip(
            sources, codes.reshape(-1, len(cells)), counts.reshape(-1, len(cells)), strict=True
        ):
            self._sources[source.strip()] += int(count.sum())
            for code in np.unique(own[count > 0]).tolist():
                self._cells[_voice(source), code] += int(count[own == code].sum())
        code = codes[pair]
        if (wrong := (codes == _WRONG) & (counts > 0)).any():
            rows = np.flatnonzero(wrong[pair])
            self._wrong_rows += len(rows)
            for row in rows[: _KEPT - len(self._wrong)].tolist():
                source, cell = divmod(int(pair[row]), len(cells))
                self._wrong.append((self._rows + row, _complaint(sources[source], cells[cell], confidences[cell])))
        if self.threshold is not None:
            logits = np.tile(_logit(np.array(confidences, np.float64)), len(sources))
            self._scores.append(np.where(np.isin(codes, (_WEAK, _SILENT)), logits, np.float32(np.nan))[pair])
        self._values.append(np.where(code == _WEAK, np.int8(_PRESENT), code))

    def _code(self, source: str, confidence: float) -> int:
        voice = _voice(source)
        if voice == "" or not 0 <= confidence <= 1:
            return _WRONG
        if voice == MACHINE:
            return _WEAK if self.threshold is not None and confidence >= self.threshold else _SILENT
        return {1.0: _PRESENT, 0.0: _ABSENT}.get(confidence, _WRONG)

    def _refusal(self, source: str) -> UserError:
        self._wrong.sort()
        places = self.place([row for row, _ in self._wrong])
        known = ", ".join((*PERSONS, MACHINE))
        return UserError(
            f"{source}: {plural(self._wrong_rows, 'row')} cannot be read: a person's confidence is 1 (present) or 0 "
            f"(absent), a machine's is 0 to 1, and a source is one of {known}",
            [f"{place} {why}" for place, (_, why) in zip(places, self._wrong, strict=True)],
        )

    def place(self, rows: Sequence[int]) -> list[str]:
        """Return ``file:line`` of rows."""
        owners = [bisect_right(self._first_rows, row) - 1 for row in rows]
        lines = {}
        for number in set(owners):
            first, table = self._first_rows[number], self.files[number].table
            own = [row - first for row, owner in zip(rows, owners, strict=True) if owner == number]
            lines |= {first + row: f"{table.path}:{line}" for row, line in table.lines(own).items()}
        return [lines[row] for row in rows]

    def _report(self, report: ImportReport) -> None:
        report.rows = self._rows
        for (voice, code), cells in sorted(self._cells.items(), reverse=True):
            name, meaning = {
                _PRESENT: ("1", "present"),
                _ABSENT: ("0", "absent"),
                _WEAK: (f"machine from {self.threshold:g} on" if self.threshold else "", "weak present"),
                _SILENT: (f"machine below {self.threshold:g}" if self.threshold else "machine", "unknown"),
            }[code]
            report.values[name] = ValueCount(meaning, cells)
            if voice == MACHINE and code == _SILENT:
                reason = f"machine labels below {self.threshold:g}" if self.threshold else "machine labels"
                report.dropped[reason] = Tally(cells)
        if self._sources:
            report.notes.append("rows by source: " + ", ".join(f"{n} {c:,}" for n, c in self._sources.items()))
        if any(file.source is None for file in self.files):
            report.notes.append("a file without the column Source is taken to hold labels of persons")


def _voice(source: str) -> str:
    """Return ``person`` or ``machine``, or nothing for an unknown source."""
    word = source.strip().casefold()
    return "person" if word in PERSONS else MACHINE if word == MACHINE else ""


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _logit(confidence: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return log(p / (1 - p)); a machine that says 1 is taken to mean 1 - 1e-6, so that no score is infinite."""
    with np.errstate(invalid="ignore"):
        p = np.clip(confidence, 1e-6, 1 - 1e-6)
        return np.log(p / (1 - p)).astype(np.float32)


def _complaint(source: str, cell: str, confidence: float) -> str:
    if _voice(source) == "":
        return f"source {source.strip() or 'blank'} is not known"
    if not 0 <= confidence <= 1:
        return f"confidence {cell.strip() or 'blank'} outside 0..1"
    return f"confidence {cell.strip()} of a person ({source.strip()}) is neither 1 nor 0"
