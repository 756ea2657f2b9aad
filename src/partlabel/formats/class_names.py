"""Class names as they come from a file: trimmed, one Unicode form, renamed on request, checked for twins."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partlabel.formats.report import ImportReport, Tally
from partlabel.labels.class_names import look_alikes, similar


def tidy(name: str) -> str:
    """Return the name without outer blanks and in Unicode's composed form (NFC)."""
    return unicodedata.normalize("NFC", name.strip())


@dataclass(frozen=True)
class Classes:
    """Class names after tidying; ``index[i]`` is the number of raw name ``i``, -1 where it was left out."""

    names: list[str]
    index: NDArray[np.int32]


def settle_names(
    raw: Sequence[str],
    report: ImportReport,
    *,
    rename: Mapping[str, str] | None = None,
    chosen: Sequence[str] | None = None,
    sort: bool = False,
) -> Classes:
    """Tidy and rename class names and choose among them; look-alikes are reported, never merged.

    Args:
        raw: names of the source in order of appearance.
        report: gets notes on what was changed, look-alikes, and names that are not in the source.
        rename: old -> new name, both compared after tidying.
        chosen: the classes that are wanted, in this order; others get the number -1.
        sort: order the classes by name instead of by appearance (where the source has no order of its own).
    """
    tidied = [tidy(name) for name in raw]
    trimmed = [repr(name) for name in raw if name != name.strip()]
    recomposed = [name for old, name in zip(raw, tidied, strict=True) if old.strip() != name]
    if trimmed:
        report.notes.append(f"outer blanks trimmed from class names: {Tally.of(trimmed)}")
    if recomposed:
        report.notes.append(
            f"class names in another Unicode form, put together with the composed one: {Tally.of(recomposed)}"
        )
    table = {tidy(old): tidy(new) for old, new in (rename or {}).items()}
    unused = sorted(set(table) - set(tidied))
    if unused:
        report.warnings.append(f"the rename table names classes that do not occur: {Tally.of(unused)}")
    final = [table.get(name, name) for name in tidied]
    seen = list(dict.fromkeys(final))
    report.look_alikes = look_alikes(seen if chosen is None else [*seen, *(c for c in chosen if c not in seen)])
    report.similar = similar(seen, report.look_alikes)
    if chosen is None:
        names = sorted(seen) if sort else seen
    else:
        names = list(dict.fromkeys(tidy(name) for name in chosen))
        if absent := [name for name in names if name not in set(seen)]:
            report.warnings.append(f"listed classes that do not occur in the source: {Tally.of(absent)}")
    number = {name: i for i, name in enumerate(names)}
    return Classes(names, np.array([number.get(name, -1) for name in final], np.int32))
