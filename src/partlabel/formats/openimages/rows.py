"""Rows of the annotation files as statements: who says what about which image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.openimages.files import AnnotationFile
from partlabel.formats.report import ImportReport, Tally, ValueCount, plural
from partlabel.formats.source import Source
from partlabel.formats.table.columns import KEPT, NameColumn
from partlabel.formats.table.job import Rows
from partlabel.labels.pairs import MODEL

#: what the column Source says where persons gave the label; the last three are ways to draw boxes
PERSONS = ("verification", "crowdsource-verification", "human", "freeform", "xclick", "activemil")
MACHINE = "machine"
_PRESENT, _ABSENT, _WEAK, _SILENT, _WRONG = 1, -1, 2, 0, 3


class RowReader:
    """Reads annotation files.

    Args:
        threshold: confidence from which on a machine's label is a weak present one, or None to leave them out.
        keep_silent: give the rows of machines that are not believed too, so that their pairs count as listed.
    """

    def __init__(self, threshold: float | None, *, keep_silent: bool = False) -> None:
        self.threshold, self.keep_silent = threshold, keep_silent
        self._rows = Rows()
        self._images, self._labels = NameColumn(), NameColumn()
        self._values: list[NDArray[np.int8]] = [np.zeros(0, np.int8)]
        self._scores: list[NDArray[np.float32]] = [np.zeros(0, np.float32)]
        self._wrong: list[tuple[int, str]] = []
        self._wrong_rows = 0
        self._cells: Counter[tuple[str, int]] = Counter()
        self._sources: Counter[str] = Counter()

    def read(self, files: Iterable[AnnotationFile], report: ImportReport) -> Source:
        """Read all files and report their values; the classes of the source are label ids.

        Raises:
            UserError: confidences outside 0 .. 1 or, of a person, between them; unknown sources; rows without an image
                or a label. All are listed.
        """
        for file in files:
            for batch in self._rows.batches(file.table, file.columns):
                self._images.add_runs(batch.columns[0])
                self._labels.add(batch.columns[1])
                self._read_values(batch.columns[2], batch.columns[3:], batch.first_row)
        images, image, _ = self._images.finish(trim=True)
        names, label, _ = self._labels.finish(trim=True)
        for what, blank, number in (("image", images.index(""), image), ("label", names.index(""), label)):
            lost = np.flatnonzero(number == blank.as_py()) if blank.as_py() >= 0 else []
            self._wrong_rows += len(lost)
            self._wrong += [(int(row), f"no {what} id") for row in lost[:KEPT]]
        if self._wrong:
            raise self._refusal(report.source)
        self._report(report, all(len(file.columns) > 3 for file in files))
        value = np.concatenate(self._values)
        source = Source(images, names.to_pylist(), image, label, value, self._rows.place)
        if self.threshold is not None:
            source.score = np.concatenate(self._scores)
            source.origin = np.where(np.isnan(source.score), 0, MODEL).astype(np.uint8)
        if not self.keep_silent and not value.all():
            source.keep(value != 0)
        return source

    def _read_values(self, confidence: pa.StringArray, source: Sequence[pa.StringArray], first_row: int) -> None:
        """Read the values of one batch; without a column of sources they are labels of persons."""
        encoded = confidence.dictionary_encode()
        cells, sources, pair = encoded.dictionary.to_pylist(), ["verification"], encoded.indices.to_numpy()
        if source:
            who = source[0].dictionary_encode()
            sources, pair = who.dictionary.to_pylist(), who.indices.to_numpy() * np.int32(len(cells)) + pair
        confidences = [_number(cell) for cell in cells]
        codes = np.array([[self._code(name, c) for c in confidences] for name in sources], np.int8).reshape(-1)
        counts = np.bincount(pair, minlength=len(codes))
        for at in np.flatnonzero(counts).tolist():
            name = sources[at // len(cells)].strip()
            if source:
                self._sources[name] += int(counts[at])
            self._cells[_voice(name), int(codes[at])] += int(counts[at])
        if (codes[counts > 0] == _WRONG).any():
            rows = np.flatnonzero(codes[pair] == _WRONG)
            self._wrong_rows += len(rows)
            for row in rows[: KEPT - len(self._wrong)].tolist():
                who_said, cell = divmod(int(pair[row]), len(cells))
                self._wrong.append((first_row + row, _complaint(sources[who_said], cells[cell], confidences[cell])))
        if self.threshold is not None:
            logits = np.tile(_logit(np.array(confidences, np.float64)), len(sources))
            self._scores.append(np.where(np.isin(codes, (_WEAK, _SILENT)), logits, np.float32(np.nan))[pair])
        self._values.append(np.where(codes == _WEAK, np.int8(_PRESENT), codes)[pair])

    def _code(self, source: str, confidence: float) -> int:
        voice = _voice(source)
        if voice == "" or not 0 <= confidence <= 1:
            return _WRONG
        if voice == MACHINE:
            return _WEAK if self.threshold is not None and confidence >= self.threshold else _SILENT
        return {1.0: _PRESENT, 0.0: _ABSENT}.get(confidence, _WRONG)

    def _refusal(self, source: str) -> UserError:
        self._wrong.sort()
        places = self._rows.place([row for row, _ in self._wrong])
        known = ", ".join((*PERSONS, MACHINE))
        return UserError(
            f"{source}: {plural(self._wrong_rows, 'row')} cannot be read: a person's confidence is 1 (present) or 0 "
            f"(absent), a machine's is 0 to 1, and a source is one of {known}",
            [f"{place} {why}" for place, (_, why) in zip(places, self._wrong, strict=True)],
        )

    def _report(self, report: ImportReport, has_sources: bool) -> None:
        report.rows = self._rows.count
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
        if not has_sources:
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
