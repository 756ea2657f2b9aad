"""The command ``suspects``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from partlabel.app.cli.output import Json, reporting
from partlabel.core.errors import UserError
from partlabel.core.text import plural, some

if TYPE_CHECKING:
    from partlabel.tasks.suspects import Checked

#: suspects that are printed; the file has all
_SHOWN = 10


def suspects(
    run: Path,
    labels: Path | None = None,
    /,
    *,
    images: Path | None = None,
    output: Annotated[Path, Parameter(alias="-o")],
    seed: int = 0,
    scores: Path | None = None,
    json: Json = False,
) -> None:
    """List known labels that are perhaps wrong.

    The images are dealt out into five folds; each is judged by a classifier that learned from the others, on the
    features of the run. A known label is listed when it is contradicted, the surest contradiction first. Labels that a
    model added are neither learned from nor listed. Look at the images: the classifier errs too. How many of those
    listed are expected to be wrong is said, and for each the probability that it is.

    Args:
        run: Run folder of `partlabel train`.
        labels: Label table, a .parquet file; without it, the labels that the run was trained and validated on. With the
            table that the run was trained from, stored features are used and it is fast.
        images: Folder that the image names of the table start from.
        scores: Instead of `--images`, a folder of scores that `partlabel predict` wrote, in shards, with all classes.
            They judge labels that the run was not trained on: those of its validation part, or new ones of the table.
        output: Where the list is written, a .csv file.
        seed: Number that decides the folds.
    """
    with reporting(json) as report:
        from partlabel.labels.table import LabelTable
        from partlabel.tasks.suspects import check, write_suspects

        if output.suffix != ".csv":
            raise UserError(f"{output}: suspects are written as .csv")
        table = None if labels is None else LabelTable.read_parquet(labels)
        found = check(run, table, images, scores, seed=seed)
        write_suspects(output, found.table, found.suspects)
        result = _result(found, output)
        report(result, _text(result))


def _result(found: Checked, output: Path) -> dict[str, Any]:
    table, listed = found.table, found.suspects
    names = table.images.to_pylist()
    assert listed.wrong is not None
    rows = zip(listed.image, listed.cls, listed.label, listed.probability, listed.wrong, strict=True)
    return {
        "output": str(output),
        "checked": listed.checked,
        "expected_wrong": float(listed.wrong.sum()),
        "suspects": [
            {"image": names[i], "class": table.classes[c], "label": int(y), "probability": float(p), "wrong": float(w)}
            for i, c, y, p, w in rows
        ],
        "not_checked": [table.classes[c] for c in listed.not_checked],
        "skipped": [{"picture": name, "reason": reason} for name, reason in found.skipped],
        "backbone_has_seen": found.backbone_has_seen,
    }


def _text(result: dict[str, Any]) -> str:
    listed = result["suspects"]
    lines = [f"{result['output']}: {len(listed):,} of {plural(result['checked'], 'checked label')} are contradicted"]
    expected = result["expected_wrong"]
    if listed:
        number = "less than one" if expected < 0.5 else f"about {expected:.0f}"
        lines.append(
            f"  {number} of them {'is' if expected < 1.5 else 'are'} expected to be wrong, most of "
            "these at the top; the others are right, and only hard to see"
        )
    for row in listed[:_SHOWN]:
        said, wrong = "present" if row["label"] > 0 else "absent", f"wrong: {row['wrong']:.0%}"
        lines.append(f"  {row['image']}  {row['class']}: said {said}, probability {row['probability']:.3f} ({wrong})")
    if len(listed) > _SHOWN:
        lines.append(f"  ... and {len(listed) - _SHOWN:,} more in the file")
    if result["not_checked"]:
        lines.append("not checked, as too few labels are known present or known absent: " + some(result["not_checked"]))
    if result["backbone_has_seen"]:
        lines.append(
            "note: the backbone of this run was trained on such labels, so it may agree with wrong ones; "
            "a run with a frozen backbone (--preset small) has not seen them"
        )
    lines += [f"left out: {bad['picture']}: {bad['reason']}" for bad in result["skipped"]]
    return "\n".join(lines)
