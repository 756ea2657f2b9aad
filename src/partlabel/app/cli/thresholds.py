"""The command ``thresholds``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from partlabel.app.cli.output import Json, reporting
from partlabel.core.errors import UserError
from partlabel.core.text import some

if TYPE_CHECKING:
    from partlabel.metrics.thresholds import Goal
    from partlabel.training.thresholds import Fitted


def thresholds(
    run: Path,
    /,
    *,
    by: Literal["f1"] | None = None,
    precision: float | None = None,
    recall: float | None = None,
    scores: Path | None = None,
    json: Json = False,
) -> None:
    """Choose from which score on each class counts as present, and calibrate the probabilities.

    Both are chosen on the known labels that the run held out for validation, and written into its best model;
    predictions use them from then on. A training chooses by F1 at its end. Give one of the three:

    - `--by f1`: the best F1 of each class.
    - `--precision 0.9`: as many present as possible, of which 90 % are right.
    - `--recall 0.8`: as few present as possible that find 80 % of what is there.

    Precision and recall are those on the held-out known labels, not a guarantee. A class with at least 20 known labels
    of each sign chooses on them (`own`); one with fewer chooses under its calibrated probabilities (`calibrated`); one
    without a known present label keeps the default, score 0 (`default`).

    Args:
        run: Run folder of `partlabel train`.
        by: Choose the best F1.
        precision: Wanted precision of each class, above 0 and at most 1.
        recall: Wanted recall of each class, above 0 and at most 1.
        scores: A folder of scores of the validation images that `partlabel predict` wrote in shards, with all classes;
            for more images and classes than fit into the memory. Without it, the scores that lie in the run.
    """
    with reporting(json) as report:
        if (by is not None) + (precision is not None) + (recall is not None) != 1:
            raise UserError("give one of --by f1, --precision and --recall")
        goal: Goal = "f1" if by else "recall" if precision is None else "precision"

        from partlabel.app.api import thresholds as choose
        from partlabel.training.thresholds import to_dict

        fitted = choose(run, goal=goal, wanted=recall if precision is None else precision, scores=scores)
        report({"run": str(run), "model": str(run / "best"), **to_dict(fitted)}, _text(run, fitted))


def _text(run: Path, fitted: Fitted) -> str:
    """Say what changed, class by class, and what it gives."""
    import math

    import numpy as np

    from partlabel.metrics.thresholds import SOURCES, goal_words, threshold_text

    def percent(value: float) -> str:
        return "-" if math.isnan(value) else f"{100 * value:.1f}"

    chosen = fitted.thresholds
    names = chosen.after.class_names
    width = max(5, *(len(name) for name in names))
    lines = [f"{'class':{width}}  before     now  from        present  absent  F1 at 0  F1 now"]
    for c, name in enumerate(names):
        scores = [f"{percent(value):>7}" for value in (chosen.at_default.f1[c], chosen.after.f1[c])]
        before, now = threshold_text(fitted.before[c], 2), threshold_text(chosen.values[c], 2)
        lines.append(
            f"{name:{width}}  {before:>6}  {now:>6}  {chosen.sources[c]:10}  "
            f"{chosen.after.present[c]:7d} {chosen.after.absent[c]:7d}  {'  '.join(scores)}"
        )
    changed = int((chosen.values != fitted.before).sum())
    lines += [
        "",
        f"{run / 'best'}: thresholds by {goal_words(chosen.goal, chosen.wanted)}; {changed} of {len(names)} changed",
    ]
    for source, words in SOURCES.items():
        found = [name for name, other in zip(names, chosen.sources, strict=True) if other == source]
        if found and source not in ("all", "own"):
            lines.append(f"{len(found)} {source} ({words}): {some(found)}")
    missed = [names[c] for c in np.flatnonzero(~chosen.reached)]
    if missed:
        lines.append(f"{len(missed)} cannot reach that {chosen.goal}; they take the highest there is: {some(missed)}")
    if fitted.left_out:
        lines.append(f"{fitted.left_out} held-out labels did not count, as they are no random sample")
    at_0, now = chosen.at_default, fitted.crossed
    if not math.isnan(now.micro_f1):
        lines.append(
            f"cross-validated on known held-out labels: macro-F1 {percent(now.macro_f1)} (at 0: "
            f"{percent(at_0.macro_f1)}), micro-F1 {percent(now.micro_f1)} (at 0: {percent(at_0.micro_f1)})"
        )
    if fitted.calibrated is None:
        lines.append("probabilities are not calibrated, as the held-out labels are too few or all of one sign")
    else:
        lines.append(
            f"calibration error {100 * fitted.calibrated.error:.2f} % (plain sigmoid: {100 * fitted.plain.error:.2f} %)"
        )
    return "\n".join(lines)
