"""The commands ``complete`` and ``labels hold-out``."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from partlabel.app.cli.output import Json, reporting
from partlabel.core.errors import UserError
from partlabel.core.text import plural, some


def complete(
    run: Path,
    labels: Path | None = None,
    /,
    *,
    images: Path | None = None,
    output: Annotated[Path, Parameter(alias="-o")],
    precision: float = 0.95,
    confidence: float = 0.9,
    format: str | None = None,
    seed: int = 0,
    scores: Path | None = None,
    json: Json = False,
) -> None:
    """Fill in unknown labels with a stated precision.

    A label is filled in only where known labels that the model was not trained on bear it out. For present and for
    absent labels by themselves: with the confidence asked for, at least the share `precision` of all labels filled in
    is right, and of those of each class that had enough labels for a test of its own. All other classes share one test.

    This rests on an assumption: within a class, chance decided which labels are known. Classes in which the scores of
    known and unknown labels differ are left as they are. New labels are marked as the model's, with round and score;
    known labels never change. What was filled in for each class, or why not, is written to completion.json in the run
    folder.

    When classes are rare, absent labels are easy to get right: ask for 0.99 or more, or present ones are among them.

    Args:
        run: Run folder of `partlabel train`, with validation labels. Best made with `partlabel labels hold-out`.
        labels: Label table to complete, a .parquet file. Without it, the training and validation labels of the run.
        images: Folder that the image names of the table start from.
        scores: Instead of `--images`, a folder of scores that `partlabel predict` wrote, in shards, with all classes.
        output: File to be written.
        precision: Share of the labels filled in that must be right, between 0.5 and 1.
        confidence: Probability with which it must be, between 0.5 and 1.
        format: Write an annotation format, such as coco or csv, instead of a label table.
        seed: Number that decides which held-out labels the shared test takes, where classes differ in how many they
            have.
    """
    with reporting(json) as report:
        from partlabel import formats
        from partlabel.core.lock import holding
        from partlabel.labels.table import LabelTable
        from partlabel.tasks.complete import REPORT, complete_run

        writable = [name for name, entry in formats.FORMATS.items() if entry.write]
        if format is not None and format not in writable:
            raise UserError(f"the format {format} cannot be written; these can: {', '.join(writable)}")
        table = None if labels is None else LabelTable.read_parquet(labels)
        with holding(run, "partlabel complete") if run.is_dir() else nullcontext():
            made, done = complete_run(
                run, images, table, precision=precision, confidence=confidence, seed=seed, scores=scores
            )
        if format is None:
            made.write_parquet(output)
        else:
            formats.write(format, made, output)
        report({"output": str(output), **done}, _text(done, output, run / REPORT))


def hold_out(
    labels: Path,
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o")],
    held_out: Path,
    share: float = 0.2,
    seed: int = 0,
    json: Json = False,
) -> None:
    """Put known labels aside, to judge a model on them.

    A share of the known labels of each class is put aside, drawn at random; the images stay in both tables. Train on
    the one table and give the other to --validation. To the model, the labels put aside are then like the unknown ones,
    which is what `partlabel complete` needs.

    Args:
        labels: Label table, a .parquet file.
        output: Where the label table to train on is written.
        held_out: Where the label table with the labels put aside is written.
        share: Share of the known labels of each class that is put aside.
        seed: Number that decides which labels are drawn.
    """
    with reporting(json) as report:
        from partlabel.core.files import replacing_together
        from partlabel.labels.holdout import hold_out as draw
        from partlabel.labels.table import LabelTable

        kept, aside = draw(LabelTable.read_parquet(labels), share, seed)
        with replacing_together(output, held_out) as (new_kept, new_aside):
            kept.write_parquet(new_kept)
            aside.write_parquet(new_aside)
        result = {
            "output": str(output),
            "held_out": str(held_out),
            "kept": kept.num_known,
            "put_aside": aside.num_known,
        }
        report(result, f"{output}: {kept.num_known:,} known labels; {held_out}: {aside.num_known:,} put aside")


def _text(done: dict[str, Any], output: Path, record: Path) -> str:
    """Say what was filled in, and why not more."""
    lines = [f"{output}: of {done['unknown']:,} unknown labels"]
    for sign in ("present", "absent"):
        filled, tests = done[sign]["filled"], done[sign]["tests"]
        alone = sum(1 for test in tests if test["class"] is not None and test["filled"])
        by = f" ({plural(alone, 'class')} by a test of its own)" if alone else ""
        lines.append(f"  {filled:,} filled in as {sign}{by}")
        if not filled:
            lines.append(f"    {_reachable(done[sign].get('reachable'), sign, done)}")
        reasons: dict[str, list[str]] = {}
        for row in done["classes"]:
            if row[sign]["reason"]:
                reasons.setdefault(row[sign]["reason"], []).append(row["class"])
        for reason, names in reasons.items():
            lines.append(f"    not in {plural(len(names), 'class')} ({some(names)}): {reason}")
    lines.append(
        f"  With {done['confidence']:.0%} confidence at least {done['precision']:.1%} of each sign are right, "
        "if chance decided which labels of a class are known"
    )
    if done.get("classes_left"):
        left = done["classes_left"]
        about = f"{plural(len(left), 'class')} ({some(left)})"
        lines.append(f"  left as they are, with too few known labels to judge: {about}")
    if done["pictures_left"]:
        lines.append(
            f"  left as they are: {done['pictures_left']:,} images, as the model was trained on guesses for them"
        )
    lines += [f"warning: {text}" for text in done["warnings"]]
    return "\n".join([*lines, f"Each class: {record}"])


def _reachable(found: dict[str, Any] | None, sign: str, done: dict[str, Any]) -> str:
    """Say what could be promised instead of nothing."""
    if found is None:
        return "nothing could be promised at any precision: no held-out label has a score on this side"
    text = (
        f"within reach is a precision of about {found['lower_bound']:.0%} for {found['filled']:,} labels: "
        f"{found['tested'] - found['wrong']:,} of {found['tested']:,} held-out labels there are {sign}"
    )
    if found["lower_bound"] >= done["precision"]:
        return f"{text}; that is for the long run: so few labels to fill in can miss {done['precision']:.1%} by chance"
    if found["more"] is None:
        return f"{text}; more held-out labels would not bear out {done['precision']:.1%} there"
    return f"{text}; {done['precision']:.1%} needs about {found['more']:,} more held-out labels there, as good as these"
