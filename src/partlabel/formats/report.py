"""What an import found, changed, left out and assumed, and the files that it leaves."""

from __future__ import annotations

import dataclasses
import json
import os
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partlabel.core.errors import UserError
from partlabel.core.files import replacing_together
from partlabel.core.text import plural
from partlabel.labels.table import LabelTable

_WIDTH = 110
_INDENT = 15


@dataclass
class Tally:
    """A count with its first few examples."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    #: examples kept
    KEPT = 10

    @classmethod
    def of(cls, names: Iterable[str], count: int | None = None) -> Tally:
        """Count ``names`` (or take ``count``, where only the first names are given) and keep the first few."""
        kept = list(names)
        return cls(len(kept) if count is None else count, kept[: cls.KEPT])

    def __str__(self) -> str:
        return _some(self.examples, self.count)


@dataclass
class ValueCount:
    """How often one value of the source was seen, and what it was taken to mean."""

    meaning: str
    cells: int


@dataclass
class Conflict:
    """Statements about one pair that contradict each other, and what was made of them."""

    image: str
    class_name: str
    places: list[str]
    settled: str

    def __str__(self) -> str:
        return f"{self.image}, {self.class_name}: {' / '.join(self.places)} -> {self.settled}"


@dataclass
class ImportReport:
    """Everything that an import has to tell.

    Attributes:
        source: path as given.
        format: name of the format.
        layout: how the file was read: layout, separator, encoding.
        rows: rows (or annotations) of the source, without the header and blank lines.
        images, classes: what the table holds; classes in table order.
        present, absent: known labels in the table.
        coding: what the values of the source mean, in words, and whether that was declared.
        values: each value seen in the source -> its meaning and the number of cells; ``blank`` is an empty cell.
        not_listed: what a pair counts as about which the source says nothing: ``unknown`` or ``absent``.
        without_known: images without any known label; they are kept.
        without_present: images without a present label (those without any known label included).
        without_annotations: images that no annotation is about; None for formats without annotations.
        dropped: reason -> what was left out.
        repeats: statements that repeated an earlier one and were merged.
        conflicts: contradictions that a policy settled.
        look_alikes: groups of class names that differ in case, blanks or punctuation only, in order of appearance.
        similar: pairs of class names that differ by one letter.
        missing: images without a file in the folder that was given.
        notes: what was changed or assumed without harm; ``warnings``: what may be a mistake.
    """

    source: str
    format: str
    layout: str = ""
    rows: int = 0
    images: int = 0
    classes: list[str] = field(default_factory=list)
    present: int = 0
    absent: int = 0
    coding: str = ""
    values: dict[str, ValueCount] = field(default_factory=dict)
    not_listed: str = "unknown"
    without_known: Tally = field(default_factory=Tally)
    without_present: Tally = field(default_factory=Tally)
    without_annotations: Tally | None = None
    dropped: dict[str, Tally] = field(default_factory=dict)
    repeats: int = 0
    conflicts: list[Conflict] = field(default_factory=list)
    look_alikes: list[list[str]] = field(default_factory=list)
    similar: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def known(self) -> int:
        """Known labels in the table."""
        return self.present + self.absent

    @property
    def known_proportion(self) -> float:
        """Known labels / (images x classes); 0 for an empty table."""
        pairs = self.images * len(self.classes)
        return self.known / pairs if pairs else 0.0

    def cells(self, meaning: str) -> int:
        """Return the number of cells with this meaning, such as ``uncertain``; ``blank`` counts the empty cells."""
        if meaning == "blank":
            return self.values["blank"].cells if "blank" in self.values else 0
        return sum(value.cells for token, value in self.values.items() if value.meaning == meaning and token != "blank")

    def count(self, table: LabelTable) -> None:
        """Fill in what the finished table says: images, classes, labels, images without labels, warnings on them."""
        present, absent = table.image_counts()
        self.images, self.classes = table.num_images, list(table.classes)
        self.present, self.absent = int(present.sum()), int(absent.sum())
        for name, mask in (("without_known", present + absent == 0), ("without_present", present == 0)):
            rows = mask.nonzero()[0]
            setattr(self, name, Tally.of(table.images.take(rows[: Tally.KEPT]).to_pylist(), len(rows)))
        self.warnings += _sign_warnings(table)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, text and numbers, ready for JSON."""
        return {**dataclasses.asdict(self), "known": self.known, "known_proportion": self.known_proportion}

    def text(self) -> str:
        """Return the report as lines for a terminal, about 110 columns wide."""
        lines = [f"{self.source} ({self.format}: {self.layout}, {plural(self.rows, 'row')})"]
        for name, content in self._facts():
            lines += _entry(name, content)
        for conflict in self.conflicts[: Tally.KEPT]:
            lines += _entry("", str(conflict))
        for kind, items in (("note", self.notes), ("warning", self._all_warnings())):
            for item in items:
                lines += _entry(kind, item)
        return "\n".join(lines)

    def _facts(self) -> list[tuple[str, str]]:
        pairs = self.images * len(self.classes)
        bare = self.without_annotations
        facts = [
            ("images", f"{self.images:,}{self._without()}"),
            ("classes", f"{len(self.classes):,}  {_some(self.classes, len(self.classes))}"),
            (
                "labels",
                f"{self.known:,} of {pairs:,} pairs known ({self.known_proportion:.1%}): "
                f"{self.present:,} present, {self.absent:,} absent",
            ),
            ("coding", self.coding),
            ("cells", "   ".join(f"{token}: {value.cells:,}" for token, value in self.values.items())),
            ("not listed", f"{self.not_listed} (pairs about which the source says nothing)"),
            (
                "not annotated",
                f"{plural(bare.count, 'image')} without annotations ({bare})" if bare and bare.count else "",
            ),
            ("merged", f"{plural(self.repeats, 'repeated label')}" if self.repeats else ""),
            ("contradicting", f"{plural(len(self.conflicts), 'label')}, settled as asked" if self.conflicts else ""),
        ]
        facts += [("left out", f"{reason}: {tally.count:,}  {tally}") for reason, tally in self.dropped.items()]
        if self.missing:
            facts.append(("missing", f"{plural(len(self.missing), 'image')} without a file: {_some(self.missing)}"))
        return [(name, content) for name, content in facts if content]

    def _without(self) -> str:
        unlabelled, more = self.without_known, self.without_present.count - self.without_known.count
        parts = []
        if unlabelled.count:
            parts.append(f"{unlabelled.count:,} without a known label ({unlabelled})")
        if more:
            parts.append(f"{more:,} with known labels but none present")
        return "  " + "; ".join(parts) if parts else ""

    def _all_warnings(self) -> list[str]:
        groups = ["look alike: " + " / ".join(group) for group in self.look_alikes[: Tally.KEPT]]
        if len(self.look_alikes) > Tally.KEPT:
            groups.append(f"... and {len(self.look_alikes) - Tally.KEPT} more groups of names that look alike")
        if self.similar:
            groups.append("spelled almost alike: " + _some([" / ".join(pair) for pair in self.similar]))
        if groups:
            groups[-1] += "; a rename table merges them"
        return [*self.warnings, *groups]


def _entry(name: str, content: str) -> list[str]:
    return textwrap.wrap(
        content,
        _WIDTH,
        initial_indent=f"  {name:<{_INDENT}}",
        subsequent_indent=" " * (_INDENT + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _some(names: list[str], count: int | None = None) -> str:
    """Return the first names, and how many more there are."""
    count = len(names) if count is None else count
    shown = [f'"{name}"' if "," in name else name for name in names[: Tally.KEPT]]
    return ", ".join(shown) + (f", ... {count - len(shown):,} more" if 0 < len(shown) < count else "")


def _sign_warnings(table: LabelTable) -> list[str]:
    """Return warnings on classes that lack one sign, or both."""
    present, absent = table.class_counts()
    names = table.classes
    if not table.num_known:
        return ["no label is known at all"] if table.num_images else ["the source holds no image"]
    warnings = []
    positive = [n for n, p, a in zip(names, present, absent, strict=True) if p and not a]
    negative = [n for n, p, a in zip(names, present, absent, strict=True) if a and not p]
    none = [n for n, p, a in zip(names, present, absent, strict=True) if not p and not a]
    if not absent.any():
        warnings.append(
            "no class has a known absent label: a loss on known labels alone is minimal when everything is present; "
            "not_listed=absent counts unknown pairs as absent, if that is what they are"
        )
    elif positive:
        warnings.append(f"no known absent label for {_some(positive)}")
    if negative:
        warnings.append(f"no known present label for {_some(negative)}")
    if none:
        warnings.append(f"no known label at all for {_some(none)}")
    return warnings


def report_paths(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Return where the report of a table is kept: ``labels.report.json`` and ``labels.report.txt``."""
    return Path(path).with_suffix(".report.json"), Path(path).with_suffix(".report.txt")


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a place that cannot hold a table and its report, before anything is read.

    Raises:
        UserError: a folder has one of the names, or the folder of the file does not exist.
    """
    target = Path(path)
    if not target.name or target.is_dir():
        raise UserError(f"{target}: a folder; name the file of the label table")
    if not target.parent.is_dir():
        raise UserError(f"{target}: the folder {target.parent} does not exist")
    for place in report_paths(target):
        if place.is_dir():
            raise UserError(f"{place}: a folder has the name of the import report")


def store(table: LabelTable, report: ImportReport, path: str | os.PathLike[str]) -> None:
    """Write a label table and the report on its import, all whole or none at all, and never one about another table.

    Args:
        table: written to ``path``, as ``LabelTable.write_parquet`` does.
        report: written beside it, as ``report_paths`` says; the JSON is that of ``ImportReport.to_dict``.
        path: the .parquet file.

    Raises:
        UserError: the place cannot be written to.
    """
    check_place(path)
    as_json, as_text = report_paths(path)
    with replacing_together(Path(path), as_json, as_text) as (new_table, new_json, new_text):
        table.write_parquet(new_table)
        content = json.dumps(report.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        new_json.write_text(content + "\n", encoding="utf-8")
        new_text.write_text(report.text() + "\n", encoding="utf-8")
