"""The classes of an import: label ids with their names, the class list, and ids that nothing describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.class_names import settle_names, tidy
from partlabel.formats.openimages.descriptions import unique_names
from partlabel.formats.openimages.options import OpenImagesOptions
from partlabel.formats.report import ImportReport, Tally, plural


@dataclass(frozen=True)
class Vocabulary:
    """Names and ids of the C classes; ``index`` int32 (L,) is the class of each label id of the rows, or -1."""

    names: list[str]
    ids: list[str]
    index: NDArray[np.int32]


def settle_classes(
    labels: Sequence[str], label: NDArray[np.int32], options: OpenImagesOptions, report: ImportReport
) -> Vocabulary:
    """Tell the class of each label id.

    With descriptions all described ids are classes, in the order of the file; otherwise the ids that occur, sorted.

    Args:
        labels: L label ids of the rows.
        label: int32 (S,) number in ``labels`` of each statement.
        options: of the import.
        report: gets what was left out or has no description.

    Raises:
        UserError: ids without description (all are listed), unless they are kept or a class list leaves them out; a
            class list with a name that several ids have.
    """
    rows = np.bincount(label, minlength=len(labels))
    stated = sorted(name for name, count in zip(labels, rows.tolist(), strict=True) if count)
    count_of = dict(zip(labels, rows.tolist(), strict=True))
    described: dict[str, str] = {}
    shared: dict[str, list[str]] = {}
    bare = stated
    given = (
        options.classes if options.descriptions is None and isinstance(options.classes, dict) else options.descriptions
    )
    if given is not None:
        described, shared = unique_names(given)
        bare = [name for name in stated if name not in described]
    if options.descriptions is not None:
        _report_undescribed([f"{name} ({plural(count_of[name], 'row')})" for name in bare], options, report)
    elif given is None:
        report.notes.append("classes are called by their ids; descriptions=FILE gives them names")
    if shared:
        report.notes.append(f"names that several ids have, told apart by the id: {Tally.of(shared)}")
    ids = [*described, *bare]
    raw = [*described.values(), *bare]
    chosen = (
        None if options.classes is None else _chosen(list(options.classes), dict(zip(ids, raw, strict=True)), shared)
    )
    settled = settle_names(raw, report, rename=options.rename, chosen=chosen)
    number = dict(zip(ids, settled.index.tolist(), strict=True))
    index = np.array([number.get(name, -1) for name in labels], np.int32)
    unwanted = [i for i, name in enumerate(labels) if index[i] < 0 and count_of[name]]
    if unwanted:
        name_of = dict(zip(ids, raw, strict=True))
        reason = f"labels of {len(unwanted):,} classes that are not in the class list"
        report.dropped[reason] = Tally.of([name_of[labels[i]] for i in unwanted], int(rows[unwanted].sum()))
    return Vocabulary(settled.names, _class_ids(settled.names, ids, settled.index, report), index)


def _report_undescribed(bare: Sequence[str], options: OpenImagesOptions, report: ImportReport) -> None:
    if not bare:
        return
    what = f"{plural(len(bare), 'label id')} without description"
    if options.undescribed == "keep":
        report.warnings.append(f"{what}, called by the id: {Tally.of(bare)}")
    elif options.classes is None:
        raise UserError(
            f"{report.source}: {what}; undescribed=keep keeps them under their ids, and a class list (classes=FILE) "
            "leaves them out",
            bare,
        )
    else:
        report.warnings.append(f"{what}: {Tally.of(bare)}")


def _chosen(entries: Sequence[str], names: Mapping[str, str], shared: Mapping[str, list[str]]) -> list[str]:
    """Return the names of a class list whose entries are names or ids."""
    unclear = [f"{entry}: {', '.join(shared[tidy(entry)])}" for entry in entries if tidy(entry) in shared]
    if unclear:
        raise UserError("the class list has names that several ids have; give the id", unclear)
    return [names.get(entry.strip(), entry) for entry in entries]


def _class_ids(names: Sequence[str], ids: Sequence[str], index: NDArray[np.int32], report: ImportReport) -> list[str]:
    """Return the label id of each class; a class that has none, as it is only in the class list, gets its name."""
    own: list[list[str]] = [[] for _ in names]
    for label, number in zip(ids, index.tolist(), strict=True):
        if number >= 0:
            own[number].append(label)
    merged = [f"{name} ({', '.join(labels)})" for name, labels in zip(names, own, strict=True) if len(labels) > 1]
    if merged:
        report.notes.append(f"label ids put together by renaming, the first is kept: {Tally.of(merged)}")
    return [labels[0] if labels else name for name, labels in zip(names, own, strict=True)]
