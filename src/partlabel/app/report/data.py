"""What a report says about the labels of a run: how many are known, where they came from, how they were chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from partlabel.labels.holdout import RANDOM, at_random
from partlabel.labels.inspect import Inspection, inspect
from partlabel.labels.table import ORIGINS, LabelTable
from partlabel.metrics import risk_control
from partlabel.training.evidence import evidence
from partlabel.training.run import Run

#: classes of the table of classes that occur together
_TOGETHER = 16
#: pairs of classes listed, those most often present together
_PAIRS = 12
#: a share of fewer images than this is not shown
_FEW_PICTURES = 5
#: the check says nothing about a class with fewer held-out labels
_FEW_HELD = 8


def data_section(run: Run) -> dict[str, Any]:
    """Everything about the labels that a run was trained and validated on."""
    validation = run.validation
    found = inspect(run.labels)
    return {
        "training": _counts(found),
        "held_out": None if validation is None else _counts(inspect(validation)),
        "coding": run.labels.coding or None,
        "unknown_taken_as": "absent" if run.config.unknown_as_absent else "unknown",
        "not_listed": _not_listed(run.labels.history),
        "conflicts": _conflicts(run.labels.history),
        "history": [_operation(record) for record in run.labels.history],
        "together": _together(run.labels, found),
    }


def _counts(inspected: Inspection) -> dict[str, Any]:
    found = inspected.to_dict()
    names = (
        "images",
        "classes",
        "known",
        "present",
        "absent",
        "label_proportion",
        "images_without_known_label",
        "images_without_present_label",
        "images_fully_known",
        "origins",
        "warnings",
    )
    counts = {name: found[name] for name in names}
    return {**counts, "known_by_class": [row["present"] + row["absent"] for row in found["per_class"]]}


def _records(history: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """All operations, those of tables that were merged in too."""
    found = []
    for record in history:
        found += [record, *_records(record.get("history", ()))]
    return found


def _not_listed(history: Iterable[Mapping[str, Any]]) -> list[str]:
    """What pairs about which a source says nothing were taken as, for each import."""
    return sorted({str(r["not_listed"]) for r in _records(history) if r.get("operation") == "import"})


def _conflicts(history: Iterable[Mapping[str, Any]]) -> list[str]:
    """What became of labels that contradicted each other, in sentences."""
    said = []
    for record in _records(history):
        name, settled = record.get("operation"), record.get("settled") or 0
        if name == "contradictions":
            said.append(f"{_were(settled)} stated twice in different ways; settled as {record['policy']}.")
        elif name == "merge" and settled:
            said.append(f"{_were(settled)} different in merged tables; settled as {record['conflicts']}.")
        elif name == "import" and settled:
            source = record["source"]
            said.append(f"{_were(settled)} both present and absent in {source}; settled as {record['conflicts']}.")
    return said


def _were(count: int) -> str:
    return "1 label was" if count == 1 else f"{count:,} labels were"


def _operation(record: Mapping[str, Any]) -> str:
    """One operation in a line, without what is long."""
    details = [f"{k}={v}" for k, v in record.items() if k != "operation" and isinstance(v, (str, int, float, bool))]
    return f"{record.get('operation')}" + (f" ({', '.join(details)})" if details else "")


def _together(table: LabelTable, found: Inspection) -> dict[str, Any]:
    """Which classes are present together, counted where both labels are known.

    ``share[i][j]``: of the images with class i present and class j known, those with class j present; None where
    there are fewer than five such images.
    """
    chosen = found.matrix_classes[:_TOGETHER]
    labels = table.select_classes([table.classes[c] for c in chosen])
    present, known = np.zeros((len(chosen),) * 2), np.zeros((len(chosen),) * 2)
    for start in range(0, labels.num_images, 65_536):
        part = labels.dense(slice(start, start + 65_536))
        present += (part > 0).T.astype(float) @ (part > 0)
        known += (part > 0).T.astype(float) @ (part != 0)
    share = [
        [p / k if i != j and k >= _FEW_PICTURES else None for j, (p, k) in enumerate(zip(*row, strict=True))]
        for i, row in enumerate(zip(present.tolist(), known.tolist(), strict=True))
    ]
    return {
        "classes": [table.classes[c] for c in chosen],
        "share": share,
        "pictures": known.astype(int).tolist(),
        "least_pictures": _FEW_PICTURES,
        "pairs": [
            {
                "classes": [table.classes[p.first], table.classes[p.second]],
                "together": p.together,
                "both_known": p.known,
                "expected": p.expected,
            }
            for p in found.pairs[:_PAIRS]
        ],
    }


def random_check(run: Run) -> dict[str, Any]:
    """Whether the known labels of each class look like a random sample of its pairs.

    For each class the scores of the labels that the run is judged on (all known ones out of fold, or those of the
    validation part) that count as a random sample (origin ``given`` or ``sampled``) are compared with those of the
    pairs of the same images whose label is unknown, by the two-sample test of
    :func:`partlabel.metrics.risk_control.compare`. It is the assumption of ``partlabel complete``.

    Returns:
        ``verdict``: ``alike``, ``differs`` or ``not checked``; ``sentence``; ``reason`` where nothing was checked;
        ``classes``: for each class ``held_out``, ``unknown``, ``distance``, ``p``, ``alike`` (None where not checked);
        ``not_random``: held-out labels by the origins that are no random sample.
    """
    held = evidence(run)
    assert held is not None  # asked for measured runs only
    counts = at_random(held.table)
    sample = held.table.hide(counts).dense() != 0
    known = held.table.dense() != 0
    if held.kind == "validation":
        trained = run.labels.image_index(held.table.images)
        known[trained >= 0] |= run.labels.dense(trained[trained >= 0]) != 0
    own, open_ = sample.sum(0), (~known).sum(0)
    checked = (own >= _FEW_HELD) & (open_ >= _FEW_HELD) & held.scored
    classes = []
    every = (scores for _, block in held.scores.blocks() for scores in block)
    for c, (name, scores) in enumerate(zip(held.table.classes, every, strict=True)):
        distance, p, alike = None, None, None
        if checked[c]:
            distance, p, alike = risk_control.compare(scores[sample[:, c]], scores[~known[:, c]], int(checked.sum()))
        row = {"class": name, "held_out": int(own[c]), "unknown": int(open_[c])}
        classes.append({**row, "distance": distance, "p": p, "alike": alike})
    left_out = np.bincount(held.table.origin[~counts], minlength=len(ORIGINS))
    return {
        **_verdict(classes),
        "random_origins": list(RANDOM),
        "not_random": {name: int(count) for name, count in zip(ORIGINS, left_out, strict=True) if count},
        "classes": classes,
    }


def _verdict(classes: list[dict[str, Any]]) -> dict[str, Any]:
    """What the comparisons come to, in words."""
    done = [row for row in classes if row["alike"] is not None]
    if not done:
        full = not any(row["unknown"] for row in classes)
        why = (
            "all labels of the held-out images are known, so there are no unknown ones to compare with"
            if full
            else f"no class has {_FEW_HELD} held-out labels and {_FEW_HELD} unknown ones to compare"
        )
        return {"verdict": "not checked", "sentence": f"Not checked: {why}."}
    n = np.array([row["held_out"] for row in done]) * 1.0
    m = np.array([row["unknown"] for row in done])
    # the distance from which on the test rejects (Smirnov's limit), and the least one that counts
    seen = np.sqrt(-0.5 * np.log(0.01 / len(done) / 2)) * np.sqrt((n + m) / (n * m))
    limit = max(float(np.median(seen)), 0.1)
    strange = [row["class"] for row in done if not row["alike"]]
    which = f"in {len(strange)} of the {len(done)} classes" if strange else f"in none of the {len(done)} classes"
    power = (
        f"The test sees the scores only, and in half of the classes no difference below {limit:.2f} between the two "
        "distribution functions."
    )
    left = len(classes) - len(done)
    power += f" {left} {'class was' if left == 1 else 'classes were'} not checked, with too few labels." if left else ""
    if strange:
        meaning = (
            f"Known and unknown labels have clearly different scores {which}: which labels are known does not look "
            "like chance there. partlabel complete leaves these classes as they are, and their metrics may not hold "
            f"for unknown labels: {', '.join(strange)}."
        )
        return {"verdict": "differs", "sentence": f"{meaning} {power}"}
    meaning = (
        f"Known and unknown labels have clearly different scores {which}: nothing speaks against chance having decided "
        "which labels are known, on which partlabel complete relies."
    )
    return {"verdict": "alike", "sentence": f"{meaning} {power}"}
