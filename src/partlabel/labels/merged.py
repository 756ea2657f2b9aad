"""Label tables of several files made one, and what there is to say about it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partlabel.core.errors import UserError
from partlabel.core.text import some
from partlabel.labels.class_names import look_alikes
from partlabel.labels.merge import two_ids
from partlabel.labels.table import LabelTable


@dataclass(frozen=True, eq=False)
class MergedTables:
    """The tables of several files as one.

    Attributes:
        table: all images, classes and labels.
        shared: images that are in more than one of the tables.
        settled: pairs that were present in one table and absent in another.
        warnings: what may be a mistake, as sentences.
    """

    table: LabelTable
    shared: int
    settled: int
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, ready for JSON."""
        present = int((self.table.values > 0).sum())
        return {
            "images": self.table.num_images,
            "in_several_tables": self.shared,
            "classes": self.table.num_classes,
            "known": self.table.num_known,
            "present": present,
            "absent": self.table.num_known - present,
            "contradictions_settled": self.settled,
            "warnings": self.warnings,
        }

    def text(self) -> str:
        """Return the numbers in words, and a line for each warning."""
        found = self.to_dict()
        pairs = found["images"] * found["classes"]
        text = (
            f"{found['images']:,} images, {self.shared:,} of them in several tables, {found['classes']:,} classes, "
            f"{found['known']:,} of {pairs:,} labels known ({found['known'] / max(pairs, 1):.1%}): "
            f"{found['present']:,} present, {found['absent']:,} absent"
        )
        text += f"; {self.settled:,} contradictions settled" if self.settled else ""
        return "\n".join([text, *(f"  warning: {warning}" for warning in self.warnings)])


def merge_files(paths: Sequence[str | os.PathLike[str]], conflicts: str = "error") -> MergedTables:
    """Merge label tables, as ``LabelTable.merge`` does, but leave class ids out that clash.

    Args:
        paths: .parquet files of label tables.
        conflicts: as in ``LabelTable.merge``.

    Raises:
        UserError: a file that is no label table; contradictions under ``error``, an image in two groups; all are named.
    """
    tables = [LabelTable.read_parquet(path) for path in paths]
    warnings = []
    clashes = two_ids(tables)
    if clashes:
        tables = [table.derive("without_class_ids", {}, class_ids=None) for table in tables]
        warnings.append(f"class ids are left out, because classes have two: {some(clashes)}")
    try:
        merged = tables[0].merge(tables[1:], conflicts)
    except UserError as error:
        hint = "; --conflicts settles them" if "contradict" in error.message else ""
        names = ", ".join(os.fspath(path) for path in paths)
        raise UserError(f"{names}: {error.message}{hint}", error.offenders) from error
    if not clashes and merged.class_ids is None and all(table.class_ids for table in tables):
        warnings.append("class ids are left out, because two classes have the same")
    warnings += _twins(tables, merged)
    shared = int((np.bincount(np.concatenate([merged.image_index(table.images) for table in tables])) > 1).sum())
    return MergedTables(merged, shared, int(merged.history[-1]["settled"]), warnings)


def _twins(tables: Sequence[LabelTable], merged: LabelTable) -> list[str]:
    """Warn of classes and images that have almost the same name in different tables."""
    warnings = []
    known = {group for table in tables for group in map(tuple, look_alikes(table.classes))}
    if alike := [" / ".join(group) for group in look_alikes(merged.classes) if tuple(group) not in known]:
        warnings.append(f"classes that look alike stay apart, rename them at import to merge them: {some(alike)}")
    first: dict[str, str] = {}
    pairs = []
    for name in merged.images.to_pylist():
        plain = os.path.splitext(name.replace("\\", "/"))[0].casefold()
        if (other := first.setdefault(plain, name)) != name:
            pairs.append(f"{other} / {name}")
    if pairs:
        warnings.append(f"images that may be one but for their ending, case or backslashes: {some(pairs)}")
    return warnings
