"""Commands that ask people: next, labels answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from partlabel.app.cli.output import Json, reporting
from partlabel.core.text import plural

Output = Annotated[Path, Parameter(alias="-o")]


def next_(
    run: Path,
    labels: Path | None = None,
    /,
    *,
    images: Path | None = None,
    output: Output,
    budget: int = 500,
    random: float = 0.2,
    uncertain: float = 0.0,
    label_studio: Path | None = None,
    seed: int = 0,
    scores: Path | None = None,
    json: Json = False,
) -> None:
    """Choose the questions that are worth asking people next.

    A question is about one class in one image. Most of them seek what is present, where it adds most to the present
    labels that the class has already: a class with few gets many questions. The others are drawn at random, the same
    number for every class, because only random questions say how good a model is. A label that a model filled in counts
    as unknown.

    The file has the columns image, class, score, why and answer. Fill in present or absent and give the file to
    `partlabel labels answers`. A row that has an answer already costs nothing: the random draw hit a label that is
    known from an earlier question.

    What the answers are worth is a rule of thumb, measured on photographs of COCO: the mean average precision rises by
    about 7 points where every class gets e times as many known present labels. Below 0.05 points for 1,000 answers it
    is hardly worth asking on, and the command says so.

    Args:
        run: Run folder of `partlabel train`.
        labels: Label table, a .parquet file; better with all that is known by now. Without it, the labels of the run,
            which lack the images held out for validation.
        images: Folder that the image names of the table start from.
        scores: Instead of `--images`, a folder of scores that `partlabel predict` wrote, in shards, with all classes.
        output: CSV file to be written.
        budget: Number of questions.
        random: Share of the questions that are drawn at random.
        uncertain: Share of the questions whose score is nearest to the threshold.
        label_studio: Also write the questions as tasks for Label Studio into this .json file, and the labeling
            interface beside it.
        seed: Number that decides the random questions.
    """
    with reporting(json) as report:
        from partlabel.core.files import replacing_together
        from partlabel.formats.labelstudio.writing import interface_path
        from partlabel.labels.table import LabelTable
        from partlabel.models.model import Model
        from partlabel.tasks.next_labels import Mix, ask
        from partlabel.tasks.question_files import write_csv, write_tasks
        from partlabel.training.run import Run

        mix, model = Mix(random=random, uncertain=uncertain), Model.load(run)
        table = Run(run).labels if labels is None else LabelTable.read_parquet(labels)
        asked, table, found, result = ask(model, table, images, budget, mix, seed, scores)
        beside = () if label_studio is None else (label_studio, interface_path(label_studio))
        with replacing_together(output, *beside) as (new, *others):
            write_csv(new, table, found, asked)
            if others:
                write_tasks(others[0], table, found, asked, interface=others[1])
        files = {"output": str(output), "label_studio": None if label_studio is None else str(label_studio)}
        report({**files, **result}, _text(result, output, label_studio))


def answers(labels: Path, answered: Path, /, *, output: Output, json: Json = False) -> None:
    """Put the answers to the questions of `partlabel next` into a label table.

    Answers to random questions get the origin sampled, which counts as a random sample of all labels; the others get
    the origin asked, which is good for training but says nothing about how frequent a class is. An answer replaces a
    label that a model filled in. Answers that are in the table already change nothing.

    Args:
        labels: Label table, a .parquet file.
        answered: The CSV file of questions with the column answer filled in (present, absent; empty for not answered),
            or an export of Label Studio as JSON, JSON-MIN or CSV.
        output: Where the label table with the answers is written.
    """
    with reporting(json) as report:
        from partlabel.labels.table import LabelTable
        from partlabel.tasks.next_labels import WHY, add_answers
        from partlabel.tasks.question_files import read_answers

        table, counts = add_answers(LabelTable.read_parquet(labels), read_answers(answered))
        table.write_parquet(output)
        lines = [
            f"{output}: {plural(counts['added'], 'label')} added, "
            f"{plural(counts['replaced'], 'label')} of a model replaced, "
            f"{counts['resampled']:,} known labels count as sampled now, {counts['unchanged']:,} were there already"
        ]
        if not any(counts[why]["answers"] for why in WHY):
            lines.append(f"  nothing is answered in {answered}: write present or absent into its column answer")
        for why in WHY:
            if number := counts[why]["answers"]:
                present = counts[why]["present"]
                lines.append(f"  {why}: {present:,} of {number:,} answers are present ({present / number:.0%})")
        report({"output": str(output), **counts, "known": table.num_known}, "\n".join(lines))


def _text(result: dict[str, Any], output: Path, label_studio: Path | None) -> str:
    """Say what is asked."""
    counts = [row["questions"] for row in result["classes"]]
    each = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
    lines = [
        f"{output}: {plural(result['questions'], 'question')}, {each} about each class: {result['seek']:,} seek what "
        f"is present, {result['uncertain']:,} are uncertain, {result['random']:,} are drawn at random"
    ]
    if result["known_already"]:
        lines.append(f"{result['known_already']:,} more pairs were drawn at random and are known already")
    if label_studio is not None:
        interface = label_studio.with_suffix(".labeling.xml")
        lines.append(f"Tasks for Label Studio in {label_studio}, labeling interface in {interface}")
    each = f" ({result['expected_gain_per_1000']:.2f} points for each 1,000 answers)"
    lines.append(
        f"The scores expect {result['expected_present']:.0%} of the answers to be present, and a gain of about "
        f"{result['expected_gain']:.1f} points of mAP{each if result['questions'] >= 1000 else ''}"
    )
    if not result["worth_asking"]:
        lines.append("That is little: other images, or classes of their own, may bring more than more answers")
    return "\n".join(lines)
