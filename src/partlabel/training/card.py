"""The model card: what a saved model was made from, what it is worth, what it is for, in one Markdown file."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Literal

import numpy as np

from partlabel.core.files import write_text
from partlabel.core.text import in_markdown, plural, some
from partlabel.labels.table import ORIGINS
from partlabel.metrics import Metrics
from partlabel.metrics.thresholds import SOURCES, threshold_text
from partlabel.training.by_class import by_class
from partlabel.training.run import Run

FILE = "MODEL_CARD.md"
_MODELS: tuple[Literal["best", "last"], ...] = ("best", "last")
_MEANS = {
    "mean_roc_auc": "ROC-AUC",
    "mean_ap": "mAP",
    "pc_precision": "mean precision",
    "pc_recall": "mean recall",
    "macro_f1": "macro-F1",
}
_HEADLINE = {
    "mean_ap": "mAP",
    "mean_roc_auc": "ROC-AUC",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "pc_precision": "mean precision",
    "pc_recall": "mean recall",
    "zero_one": "exact match (known labels)",
}


def write_card(run: Run | str | os.PathLike[str]) -> None:
    """Write ``MODEL_CARD.md`` into the model folders ``best/`` and ``last/`` of a run.

    Args:
        run: a training, or its folder; thresholds, where they were chosen, stand in it already.

    Raises:
        UserError: no run is there, or its files are damaged.
    """
    run = run if isinstance(run, Run) else Run(run)
    for name in _MODELS:
        if not (run.folder / name).is_dir():
            continue
        description = run.description(name)
        best = name == "best"
        sections = [
            _head(description, name),
            _data(run),
            *([_headline(run)] if best else []),
            _best_metrics(run, description) if best and run.is_validated else _epoch_metrics(run),
            _decisions(description, run.thresholds if best else {}),
            _use(run),
        ]
        write_text(run.folder / name / FILE, "\n\n".join(sections) + "\n")


def _head(description: dict[str, Any], name: str) -> str:
    model, shape = description["model"], description["preprocessing"]
    network = f"{model['backbone']}, {model['pooling']} pooling" + (", label graph" if model.get("graph") else "")
    which = "the model with the best validation" if name == "best" else "the model of the last epoch"
    return (
        "# Model card\n\n"
        f"A multi-label image classifier of {plural(len(description['classes']), 'class')}, trained with partlabel "
        f"from partly known labels. This is {which}.\n\n"
        f"- Network: {network}\n"
        f"- Input: RGB, {shape['size']} x {shape['size']} pixels; {shape['resize']}; {shape['orientation']}; "
        f"transparent pixels on {shape['background']}"
    )


def _data(run: Run) -> str:
    table = run.labels
    present, absent = table.class_counts()
    known, pairs = table.num_known, table.num_images * table.num_classes
    origins = Counter(np.array(ORIGINS)[table.origin].tolist())
    taken = (
        "**absent**: every unknown label was trained as absent"
        if run.config.unknown_as_absent
        else "**unknown**: it counted neither as present nor as absent, in training and in the metrics"
    )
    added = sum(row["added_present"] + row["added_absent"] for row in run.rounds)
    lines = [
        "## Training data",
        "",
        f"- {plural(table.num_images, 'image')}, {plural(table.num_classes, 'class')}",
        f"- {known:,} of {pairs:,} labels known ({known / max(pairs, 1):.1%}): {int(present.sum()):,} present, "
        f"{int(absent.sum()):,} absent",
        f"- Origin of the labels: {', '.join(f'{count:,} {name}' for name, count in origins.items()) or 'none'}",
        f"- Coding of the source: {in_markdown(table.coding) or 'not recorded'}",
        f"- An unknown label was taken to be {taken}",
    ]
    if added:
        lines.append(f"- {added:,} further labels were added by the model itself during training (relabelling)")
    for words, chosen in (("present", present == 0), ("absent", absent == 0)):
        if chosen.any():
            lines.append(f"- Classes without a known {words} label: {_names(table.classes, chosen)}")
    nothing = present + absent == 0
    if nothing.any():
        lines.append(f"- Never predicted, as no label is known: {_names(table.classes, nothing)}")
    return "\n".join(lines)


def _best_metrics(run: Run, description: dict[str, Any]) -> str:
    table = run.held_out_labels
    found = by_class(run.held_out_scores, table).metrics(np.array(description["thresholds"]), table.classes)
    known = int(found.present.sum() + found.absent.sum())
    lines = [
        "## Validation",
        "",
        f"On {known:,} known labels ({int(found.present.sum()):,} present) alone, of {found.images_known:,} images. "
        f"{_unseen(run)} The best epoch was chosen on these labels, so mAP is slightly too good; and where it was not "
        "chance that decided which labels are known, all of these numbers are.",
        "",
        "| metric | value |",
        "|---|---|",
        *(f"| {title} | {_percent(getattr(found, name))} |" for name, title in _HEADLINE.items()),
        "",
        f"mAP is over {int(np.isfinite(found.average_precision).sum())} of {len(found.class_names)} classes, those "
        "with known labels of both signs.",
    ]
    crossed = run.thresholds.get("cross_validated")
    if crossed:
        lines += [
            "",
            "The thresholds were chosen on these labels too, which flatters F1, precision and recall. With thresholds "
            f"chosen on other images (cross-validation): macro-F1 {_percent(crossed['macro_f1'])}, micro-F1 "
            f"{_percent(crossed['micro_f1'])}.",
        ]
    return "\n".join([*lines, "", *_class_table(found, description)])


def _unseen(run: Run) -> str:
    """What exactly is true of the validation images and the training."""
    held, trained = run.held_out_labels, run.labels
    shared = int((trained.image_index(held.images) >= 0).sum())
    same = run.same_content
    if shared == held.num_images:
        return "The model was trained on these images with other labels, but on none of these labels."
    if shared or same:
        parts = [f"{shared:,} of the images with other labels"] if shared else []
        parts += [f"images with the same content as {same:,} of them under other names"] if same else []
        return f"The model was trained on {' and on '.join(parts)}, on the others not."
    return "The model was not trained on these images."


def _headline(run: Run) -> str:
    """What all labels would say."""
    found = run.headline
    if found is None:
        return "## How good it is\n\nNot measured: no labels were held out."
    rows = []
    for name, title in _MEANS.items():
        each = found["metrics"][name]
        interval = "-" if each["value"] is None else f"{_percent(each['low'])} to {_percent(each['high'])}"
        rows.append(f"| {title} | {_percent(each['value'])} | {interval} |")
    lines = [
        "## How good it is",
        "",
        f"What all labels would say, as far as the known ones tell; measured on {found['meaning']}.",
        "",
        "| metric | value | 95 % interval |",
        "|---|---|---|",
        *rows,
        "",
        f"Over {found['classes_measured']:,} of {found['classes_in_all']:,} classes"
        + (f"; not measured: {_some(found['not_measured'])}." if found["not_measured"] else "."),
    ]
    if found["not_by_chance"]:
        lines.append(
            f"It was not chance that decided which labels are known in {plural(len(found['not_by_chance']), 'class')}: "
            f"{_some(found['not_by_chance'])}. There the known labels alone flatter or spoil the numbers; these here "
            "are corrected, as far as that is possible."
        )
    return "\n".join(lines)


def _class_table(found: Metrics, description: dict[str, Any]) -> list[str]:
    lines = [
        "| class | known present | known absent | AP | precision | recall | F1 | threshold | from |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for c, name in enumerate(found.class_names):
        values = (found.average_precision[c], found.precision[c], found.recall[c], found.f1[c])
        lines.append(
            f"| {in_markdown(name)} | {found.present[c]} | {found.absent[c]} | "
            f"{' | '.join(map(_percent, values))} | {threshold_text(description['thresholds'][c])} | "
            f"{description['threshold_sources'][c]} |"
        )
    return [*lines, "", "A dash: undefined, as too little is known."]


def _epoch_metrics(run: Run) -> str:
    epochs = run.epochs
    measured = epochs[-1]["validation"] if epochs else None
    if not run.is_validated or not measured:
        return "## Validation\n\nNone: no labels were held out, so nothing is known about how good the model is."
    table = [f"| {title} | {_percent(measured.get(name))} |" for name, title in _HEADLINE.items()]
    head = f"## Validation\n\nAfter epoch {epochs[-1]['epoch']}, on held-out known labels, at threshold 0.\n"
    return "\n".join([head, "| metric | value |", "|---|---|", *table])


def _decisions(description: dict[str, Any], stored: dict[str, Any]) -> str:
    lines = [
        "## Decisions and probabilities",
        "",
        f"- A class is {description['decision']}.",
        f"- Thresholds: {description['threshold_goal']}.",
    ]
    for source, count in Counter(description["threshold_sources"]).items():
        lines.append(f"- {count:,} thresholds `{source}`: {SOURCES[source]}.")
    if "calibration" not in description:
        lines.append("- Probabilities are the sigmoid of the score; they are not calibrated.")
        return "\n".join(lines)
    lines.append(f"- Calibrated for each class: {description['calibration']['meaning']}.")
    error = stored.get("calibration_error_cross_validated")
    if error is not None:
        lines.append(
            f"- Calibration error on held-out labels: {_percent(error)} % by cross-validation, "
            f"{_percent(stored['calibration_error_sigmoid'])} % with the plain sigmoid."
        )
    return "\n".join(lines)


def _use(run: Run) -> str:
    table = run.labels
    present, _ = table.class_counts()
    few = (present > 0) & (present < 20)
    lines = [
        "## Intended use",
        "",
        "Telling which of the classes above are in an image, for images like those it was trained on.",
        "",
        "## Limits",
        "",
        "- Numbers hold for images like these. Those on known labels alone, and the thresholds, assume besides that "
        "whether a label is known does not depend on what it is, within a class.",
        "- A class that is not in the list is never found; an image can be given no class at all.",
        "- Scores of one class cannot be compared with those of another; calibrated probabilities can.",
        "- Nothing was checked about groups of people, safety or law. Do not let it decide about people by itself.",
    ]
    if few.any():
        lines.append(f"- Fewer than 20 known present labels in training: {_names(table.classes, few)}")
    if run.config.unknown_as_absent:
        lines.append("- Unknown labels were trained as absent; where many of them are present, scores are too low.")
    return "\n".join(lines)


def _names(classes: tuple[str, ...], chosen: np.ndarray) -> str:
    return _some([classes[c] for c in np.flatnonzero(chosen)])


def _some(names: list[str]) -> str:
    return some([in_markdown(name) for name in names], 50)


def _percent(value: float | None) -> str:
    return "-" if value is None or np.isnan(value) else f"{100 * value:.1f}"
