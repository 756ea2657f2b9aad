"""The metrics of one evaluation as JSON values and as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len

from partlabel.core.html import grid, line, page
from partlabel.core.text import some
from partlabel.metrics.values import NEVER

if TYPE_CHECKING:
    from partlabel.metrics.values import MetricValues

#: what each form of average precision means, as printed in every report
FORMS: dict[str, str] = {
    "area": "area under the full precision-recall curve",
    "11point": "11-point: mean of the highest precision at recall >= 0, 0.1, ..., 1",
}
DECISION_RULE = "present where score >= threshold"
UNDEFINED = "precision without predicted presents, recall without known presents, F1 without both are undefined"
#: what one sign alone cannot measure
BOTH_SIGNS = (
    "AP, AUROC, precision and F1 need known absent labels, as without them nothing can be wrongly called present"
)
#: name of each metric in the paper's tables
TITLES = {
    "mean_ap": "mAP",
    "mean_roc_auc": "AUROC",
    "zero_one": "0-1",
    "zero_one_full_rows": "0-1 full",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "pc_precision": "PC-P",
    "pc_recall": "PC-R",
    "ov_precision": "OV-P",
    "ov_recall": "OV-R",
}
NAME_WIDTH = 32


def to_dict(metrics: MetricValues) -> dict[str, Any]:
    """See ``Metrics.to_dict``."""
    undefined = {
        name: metrics.names(np.isnan(getattr(metrics, name)))
        for name in ("average_precision", "roc_auc", "precision", "recall", "f1")
    }
    return {
        "metrics": {name: _value(getattr(metrics, name)) for name in TITLES},
        "averaged_over": {
            name: {"count": count, "of": whole, "unit": unit} for name, (count, whole, unit) in _bases(metrics).items()
        },
        "average_precision": {"form": metrics.form, "meaning": f"{FORMS[metrics.form]}; mean over classes"},
        "decision_rule": DECISION_RULE,
        "zero_division": _zero_division(metrics),
        "one_sign": BOTH_SIGNS,
        "images": {
            "evaluated": metrics.images,
            "with_known_labels": metrics.images_known,
            "without_known_labels": metrics.images - metrics.images_known,
            "fully_known": metrics.images_full,
            "repeated_rows_dropped": metrics.duplicates,
        },
        "known_labels": {"present": int(metrics.present.sum()), "absent": int(metrics.absent.sum())},
        "classes": {
            "total": len(metrics.class_names),
            "excluded": [metrics.class_names[c] for c in np.flatnonzero(metrics.excluded)],
            "undefined": undefined,
            "without_known_absent": metrics.names(metrics.one_sided),
            "min_support": metrics.min_support,
            "below_min_support": metrics.names(metrics.below_support),
        },
        "per_class": _per_class(metrics),
    }


def table(metrics: MetricValues, classes: int) -> str:
    """See ``Metrics.table``."""
    known = int(metrics.present.sum() + metrics.absent.sum())
    blocks = [
        f"{metrics.images:,} images evaluated, {known:,} known labels "
        f"({int(metrics.present.sum()):,} present, {int(metrics.absent.sum()):,} absent)",
        _align(
            [["metric", "%", "over"]]
            + [
                [TITLES[name], _percent(getattr(metrics, name)), f"{count:,} of {whole:,} {unit}"]
                for name, (count, whole, unit) in _bases(metrics).items()
            ],
            left=(0, 2),
        ),
        _class_table(metrics, classes),
        "\n".join(_notes(metrics)),
    ]
    return "\n\n".join(block for block in blocks if block)


def html(metrics: MetricValues, classes: int = 20) -> str:
    """The same as :func:`table` in HTML, for notebooks."""
    chosen = np.flatnonzero(~metrics.excluded)
    lowest = chosen[np.argsort(metrics.average_precision[chosen], kind="stable")[:classes]]
    ratios = (metrics.average_precision, metrics.roc_auc, metrics.precision, metrics.recall, metrics.f1)
    names = ("class", "present", "absent", "AP %", "AUROC %", "P %", "R %", "F1 %")
    return page(
        f"Metrics of {metrics.images:,} images on {int(metrics.present.sum() + metrics.absent.sum()):,} known labels",
        grid(
            ("metric", "%", "over"),
            [
                (TITLES[name], _percent(getattr(metrics, name)), f"{count:,} of {whole:,} {unit}")
                for name, (count, whole, unit) in _bases(metrics).items()
            ],
        ),
        line(f"The {len(lowest)} of {len(chosen)} classes with the lowest AP:"),
        grid(
            names,
            [
                (
                    metrics.class_names[c],
                    int(metrics.present[c]),
                    int(metrics.absent[c]),
                    *(_percent(v[c]) for v in ratios),
                )
                for c in lowest
            ],
        ),
    )


def _bases(metrics: MetricValues) -> dict[str, tuple[int, int, str]]:
    """What each metric is a mean or share over: count, of how many, of what."""
    total = len(metrics.class_names) - int(metrics.excluded.sum())

    def defined(values: np.ndarray) -> tuple[int, int, str]:
        return int(np.count_nonzero(~np.isnan(values))), total, "classes"

    present, absent = int(metrics.present.sum()), int(metrics.absent.sum())
    predicted = int((metrics.true_positive + metrics.false_positive)[~metrics.one_sided].sum())
    known = present + absent
    refutable = known - int(metrics.present[metrics.one_sided].sum())
    return {
        "mean_ap": defined(metrics.average_precision),
        "mean_roc_auc": defined(metrics.roc_auc),
        "zero_one": (metrics.images_known, metrics.images, "images (known labels right)"),
        "zero_one_full_rows": (metrics.images_full, metrics.images, "images (all labels known)"),
        "macro_f1": defined(metrics.f1),
        "micro_f1": (refutable, known, "known labels"),
        "pc_precision": defined(metrics.precision),
        "pc_recall": defined(metrics.recall),
        "ov_precision": (predicted, known, "known labels (predicted present)"),
        "ov_recall": (present, known, "known labels (present)"),
    }


def _per_class(metrics: MetricValues) -> list[dict[str, Any]]:
    columns = {
        "threshold": metrics.thresholds,
        "present": metrics.present,
        "absent": metrics.absent,
        "true_positive": metrics.true_positive,
        "false_positive": metrics.false_positive,
        "false_negative": metrics.false_negative,
        "average_precision": metrics.average_precision,
        "roc_auc": metrics.roc_auc,
        "precision": metrics.precision,
        "recall": metrics.recall,
        "f1": metrics.f1,
    }
    lists = {name: [_value(value) for value in values.tolist()] for name, values in columns.items()}
    return [
        {"class": metrics.class_names[c], **{name: values[c] for name, values in lists.items()}}
        for c in np.flatnonzero(~metrics.excluded)
    ]


def _class_table(metrics: MetricValues, limit: int) -> str:
    chosen = np.flatnonzero(~metrics.excluded)
    heading = ""
    if len(chosen) > limit:
        order = np.argsort(metrics.average_precision[chosen], kind="stable")  # NaN last
        heading = f"the {limit} of {len(chosen)} classes with the lowest AP\n"
        chosen = chosen[order[:limit]]
    if not limit:
        return ""
    ratios = (metrics.average_precision, metrics.roc_auc, metrics.precision, metrics.recall, metrics.f1)
    rows = [
        [
            _cut(metrics.class_names[c]),
            f"{metrics.present[c]:,}",
            f"{metrics.absent[c]:,}",
            *(_percent(values[c]) for values in ratios),
        ]
        for c in chosen
    ]
    return heading + _align([["class", "present", "absent", "AP %", "AUROC %", "P %", "R %", "F1 %"], *rows], left=(0,))


def _notes(metrics: MetricValues) -> list[str]:
    lowest, highest = metrics.thresholds.min(), metrics.thresholds.max()
    limits = f"{lowest:g}" if lowest == highest else f"per class, {lowest:g} to {highest:g}"
    if highest >= NEVER:
        limits = f"per class, {lowest:g} to never" if lowest < NEVER else "never"
    lists = {
        "AP undefined, no known present label": metrics.names(metrics.present == 0),
        "AP, precision and F1 undefined, no known absent label": metrics.names(metrics.one_sided),
        f"fewer than {metrics.min_support} known present labels": metrics.names(metrics.below_support),
        "excluded": [metrics.class_names[c] for c in np.flatnonzero(metrics.excluded)],
    }
    notes = [
        f"AP: {FORMS[metrics.form]}; mAP is its mean over classes.",
        f"Decisions: {DECISION_RULE} ({limits}).",
        f"Zero division: {_zero_division(metrics)}.",
        *(f"{title} ({len(names)}): {some([_cut(name) for name in names])}" for title, names in lists.items() if names),
    ]
    if metrics.duplicates:
        notes.append(f"{metrics.duplicates:,} repeated rows dropped.")
    return notes


def _zero_division(metrics: MetricValues) -> str:
    if metrics.zero_division is None:
        return f"{UNDEFINED}; these are left out of the means"
    return f"{UNDEFINED}; these count as {metrics.zero_division}"


def _value(value: float) -> float | None:
    return None if math.isnan(value) else value


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.2f}"


def _cut(name: str) -> str:
    if cell_len(name) <= NAME_WIDTH:
        return name
    while cell_len(name) >= NAME_WIDTH:
        name = name[:-1]
    return name + "…"


def _align(rows: list[list[str]], left: tuple[int, ...]) -> str:
    """Columns two spaces apart with a rule under the first row; those in ``left`` are set left, the others right."""
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rows = [rows[0], ["-" * width for width in widths], *rows[1:]]
    lines = []
    for row in rows:
        cells = []
        for i, cell in enumerate(row):
            space = " " * (widths[i] - cell_len(cell))
            cells.append(cell + space if i in left else space + cell)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
