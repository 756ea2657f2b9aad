"""Commands on label tables: inspect, simulate, labels diff, labels merge, labels undo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from partlabel.app.cli.output import Json, reporting
from partlabel.core.errors import UserError
from partlabel.core.text import plural

group = App(
    name="labels", help="Merge and compare label tables, add answers of people, take back the labels of a model."
)


@group.command(help_format="markdown")
def diff(first: Path, second: Path, /, *, json: Json = False) -> None:
    """Show what changed between two label tables.

    Counts the labels that were added, lost or turned into their opposite, per class, and names the images and classes
    that only one of the tables has.

    Args:
        first: Label table, a .parquet file.
        second: A later state of it, such as after `partlabel relabel`.
    """
    with reporting(json) as report:
        from partlabel.labels.diff import diff as compare
        from partlabel.labels.table import LabelTable

        found = compare(LabelTable.read_parquet(first), LabelTable.read_parquet(second))
        report({"first": str(first), "second": str(second), **found.to_dict()}, found.text())


@group.command(help_format="markdown")
def merge(
    first: Path,
    second: Path,
    /,
    *more: Path,
    output: Annotated[Path, Parameter(alias="-o")],
    conflicts: Literal["error", "unknown", "present", "absent", "first"] = "error",
    json: Json = False,
) -> None:
    """Put label tables together: all their images, classes and labels.

    An image or a class that several tables name is one. What no table says stays unknown: tables that were each looked
    through for other classes become one partly labelled table. Where tables agree, the label of a person stays before
    that of a model. Class ids are left out where two classes have the same, or a class has two.

    Args:
        first: Label table, a .parquet file.
        second: Another label table.
        more: Further label tables.
        output: Where the merged label table is written.
        conflicts: What becomes of a label that is present in one table and absent in another: error names them all,
            first keeps that of the table named first.
    """
    with reporting(json) as report:
        from partlabel.labels.merged import merge_files

        merged = merge_files([first, second, *more], conflicts)
        merged.table.write_parquet(output)
        report({"output": str(output), **merged.to_dict()}, f"{output}: {merged.text()}")


@group.command(help_format="markdown")
def undo(
    labels: Path,
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o")],
    since_round: int = 1,
    json: Json = False,
) -> None:
    """Take back labels that a model added; labels from people stay.

    Args:
        labels: Label table, a .parquet file.
        output: Where the label table without them is written.
        since_round: Take back this round of relabelling and all later ones; 1 takes back all.
    """
    with reporting(json) as report:
        from partlabel.labels.table import LabelTable

        if since_round < 1:
            raise UserError(f"rounds are counted from 1, not {since_round}")
        table = LabelTable.read_parquet(labels)
        made = table.without_origin("model", since_round)
        made.write_parquet(output)
        gone = table.num_known - made.num_known
        report(
            {"output": str(output), "taken_back": gone, "known": made.num_known},
            f"{output}: {plural(gone, 'label')} taken back, {made.num_known:,} are known",
        )


def inspect(
    labels: Path,
    /,
    *,
    png: Path | None = None,
    images: Path | None = None,
    html: Path | None = None,
    json: Json = False,
) -> None:
    """Show what a label table knows and what it lacks.

    Counts known present, known absent and unknown labels of each class, how many labels of each image are known, and
    which classes occur together; names classes that cannot be learned and class names that look alike.

    Args:
        labels: Label table, a .parquet file written by `partlabel import`.
        png: Also draw the counts into this PNG file.
        images: Folder that the image names of the table start from, for `--html`.
        html: Also write a page into this HTML file: the counts, examples of each class, and images that are dark, pale,
            blurred, tiny or of an odd shape.
    """
    with reporting(json) as report:
        from partlabel.labels.inspect import inspect as look
        from partlabel.labels.inspect_figure import draw
        from partlabel.labels.inspect_text import text
        from partlabel.labels.table import LabelTable

        if html is not None and images is None:
            raise UserError("--html shows images: give their folder with --images")
        if images is not None and html is None:
            raise UserError("--images is the folder of the images that a page shows: name the page with --html")
        table = LabelTable.read_parquet(labels)
        found = look(table)
        if png is not None:
            draw(found, png)
        drawn = [f"Drawn to {png}"] if png is not None else []
        if html is not None and images is not None:
            from partlabel.app.report.gallery import gallery
            from partlabel.app.report.page import render_labels
            from partlabel.core.files import write_text

            write_text(html, render_labels(found.to_dict(), gallery(table, images), images, labels.name))
            drawn.append(f"Images to look at in {html}")
        files = {"png": None if png is None else str(png), "html": None if html is None else str(html)}
        report({**found.to_dict(), **files}, "\n".join([text(found), *([""] if drawn else []), *drawn]))


def simulate(
    labels: Path,
    strategy: Literal["partial", "dense", "noisy", "noisy+"],
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o")],
    proportion: float | None = None,
    seed: int = 0,
    per_image: Literal["exact", "bernoulli"] = "exact",
    json: Json = False,
) -> None:
    """Hide or falsify labels by one of the paper's labelling strategies.

    Made for experiments: start from a table in which (nearly) every label is known, keep as much as a labelling budget
    would buy, train, and compare.

    - `partial`: every image keeps some of its labels, drawn at random.
    - `dense`: some images, drawn at random, keep all their labels; the others keep none.
    - `noisy`: every label stays known, but some are turned into their opposite.
    - `noisy+`: each image keeps one present label; its other present labels become absent.

    Args:
        labels: Label table, a .parquet file.
        strategy: How labels are hidden or falsified, see above.
        output: Where the new label table is written.
        proportion: Share of the labels (dense: of the images) that stay as they are, from 0 to 1. Needed by all
            strategies but noisy+.
        seed: Number that decides which labels are drawn; the same seed draws the same ones.
        per_image: For partial: exact keeps the same number of labels in each image; bernoulli decides for each label
            by itself.
    """
    with reporting(json) as report:
        from partlabel.labels import simulate as strategies
        from partlabel.labels.table import LabelTable

        if (proportion is None) != (strategy == "noisy+"):
            needs = "takes no" if strategy == "noisy+" else "needs a"
            raise UserError(f"the strategy {strategy} {needs} --proportion")
        if per_image != "exact" and strategy != "partial":
            raise UserError(f"--per-image belongs to the strategy partial, not to {strategy}")
        table = LabelTable.read_parquet(labels)
        if proportion is None:
            made = strategies.noisy_plus(table, seed)
        elif strategy == "partial":
            made = strategies.partial(table, proportion, seed, per_image)
        else:
            made = (strategies.dense if strategy == "dense" else strategies.noisy)(table, proportion, seed)
        made.write_parquet(output)
        known, pairs = made.num_known, made.num_images * made.num_classes
        present = int((made.values > 0).sum())
        result = {
            "output": str(output),
            "strategy": strategy,
            "proportion": proportion,
            "seed": seed,
            "images": made.num_images,
            "classes": made.num_classes,
            "known": known,
            "present": present,
            "absent": known - present,
        }
        report(
            result,
            f"{output}: {plural(made.num_images, 'image')}, {plural(made.num_classes, 'class')}, "
            f"{known:,} of {pairs:,} labels known "
            f"({known / max(pairs, 1):.1%}): {present:,} present, {known - present:,} absent",
        )
