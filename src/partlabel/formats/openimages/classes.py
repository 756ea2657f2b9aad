"""The classes of an import: label ids with their names, the class list, and ids that nothing describes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partlabel.core.errors import UserError
from partlabel.formats.class_names import settle_names, tidy
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
    counts = dict(zip(labels, np.bincount(label, minlength=len(labels)).tolist(), strict=True))
    stated = sorted(name for name, count in counts.items() if count)
    given = options.descriptions
    if given is None and isinstance(options.classes, dict):
        given = options.classes
    described, shared = _unique_names(given or {})
    bare = [name for name in stated if name not in described]
    if options.descriptions is not None:
        _report_undescribed([f"{name} ({plural(counts[name], 'row')})" for name in bare], options, report)
    elif given is None:
        report.notes.append("classes are called by their ids; descriptions=FILE gives them names")
    if shared:
        report.notes.append(f"names that several ids have, told apart by the id: {Tally.of(shared)}")
    name_of = {**described, **{name: name for name in bare}}
    chosen = None if options.classes is None else _chosen(list(options.classes), name_of, shared)
    settled = settle_names(list(name_of.values()), report, rename=options.rename, chosen=chosen)
    number = dict(zip(name_of, settled.index.tolist(), strict=True))
    index = np.array([number.get(name, -1) for name in labels], np.int32)
    if unwanted := [name for name in labels if number.get(name, -1) < 0 and counts[name]]:
        reason = f"labels of {len(unwanted):,} classes that are not in the class list"
        report.dropped[reason] = Tally.of([name_of[name] for name in unwanted], sum(counts[n] for n in unwanted))
    return Vocabulary(settled.names, _class_ids(settled.names, number, report), index)


def _unique_names(descriptions: Mapping[str, str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return id -> name, where ids that share a name have their id added to it, and the names that are shared."""
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for label, name in descriptions.items():
        ids[tidy(name)].append(label)
    shared = {name: own for name, own in ids.items() if len(own) > 1}
    names = {label: tidy(name) for label, name in descriptions.items()}
    return {label: f"{name} ({label})" if name in shared else name for label, name in names.items()}, shared


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
    if unclear := [f"{entry}: {', '.join(shared[tidy(entry)])}" for entry in entries if tidy(entry) in shared]:
        raise UserError("the class list has names that several ids have; give the id", unclear)
    return [names.get(entry.strip(), entry) for entry in entries]


def _class_ids(names: Sequence[str], number: Mapping[str, int], report: ImportReport) -> list[str]:
    """Return the label id of each class; a class that has none, as it is only in the class list, gets its name."""
    own: list[list[str]] = [[] for _ in names]
    for label, i in number.items():
        if i >= 0:
            own[i].append(label)
    if merged := [f"{name} ({', '.join(ids)})" for name, ids in zip(names, own, strict=True) if len(ids) > 1]:
        report.notes.append(f"label ids put together by renaming, the first is kept: {Tally.of(merged)}")
    return [ids[0] if ids else name for name, ids in zip(names, own, strict=True)]
