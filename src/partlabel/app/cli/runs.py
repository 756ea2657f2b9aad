"""Commands that train: train, demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from partlabel.app.cli.output import Json, reporting
from partlabel.app.cli.settings import PresetName, Settings, make_config
from partlabel.core.compute import is_first_process
from partlabel.core.text import plural
from partlabel.training.presets import DEFAULT, in_words

if TYPE_CHECKING:
    from partlabel.labels.table import LabelTable
    from partlabel.training.run import Run

#: the help is made here, as the presets are a registry
_PRESETS = f"{in_words()}. Without a preset and without a file: {DEFAULT}."
Preset = Annotated[PresetName, Parameter(help=_PRESETS)]
Output = Annotated[Path, Parameter(alias="-o")]


def train(
    labels: Path,
    /,
    *,
    images: Path,
    output: Output,
    preset: Preset | None = None,
    config: Path | None = None,
    validation: str | None = None,
    validation_images: Path | None = None,
    truth: Path | None = None,
    after: Path | None = None,
    resume: Annotated[bool, Parameter(show_default=False)] = False,
    settings: Settings | None = None,
    json: Json = False,
) -> None:
    """Train a classifier on the known labels.

    Unknown labels are neither present nor absent; what is made of them is in the guide. Every image is decoded once
    before training starts, and all files that cannot be read are listed at once. The run folder holds the best and the
    last model, the settings, and the metrics of each epoch.

    Args:
        labels: Label table, a .parquet file written by `partlabel import`.
        images: Folder that the image names of the table start from.
        output: Run folder to be made.
        config: Settings as a TOML file, such as the config.toml of another run.
        validation: Share of the images that is held out to validate on (0 for none), or another label table.
        validation_images: Folder of the images of that other label table, where it is not the folder of `--images`.
        truth: Label table with the true labels, for experiments: says how many labels that relabelling adds are right.
        after: Run folder of an earlier training on a table that has grown since, such as by `partlabel labels answers`.
            Its settings are taken where none are given, its images stay in the part where they were, and
            `partlabel report` compares the two.
        resume: Go on with a run that was stopped; give the options it was started with once more.
    """
    with reporting(json) as report:
        from partlabel.labels.table import LabelTable
        from partlabel.training.choosing import automatic
        from partlabel.training.loop import train as run_training
        from partlabel.training.run import SETTINGS, Run

        share, held_out = _validation(validation)
        if after is not None and preset is None and config is None:
            Run(after)  # says where it is none
            config = after / SETTINGS
        table = LabelTable.read_parquet(labels)
        chosen = make_config(preset, config, settings, share, lambda: automatic(table, images, output, resume))
        true = None if truth is None else LabelTable.read_parquet(truth)
        held = {"validation": held_out, "validation_images": validation_images, "truth": true, "after": after}
        run = run_training(table, images, out=output, config=chosen, resume=resume, **held)
        if is_first_process():
            report({"run": str(output), **run.summary, "headline": run.headline}, _trained(run, output))


def _trained(run: Run, folder: Path) -> str:
    """Say what a training came to."""
    from partlabel.metrics.headline import say

    summary, headline = run.summary, run.headline
    labels, pictures, seconds = summary["known_labels"], summary["images_trained"], summary["seconds"]
    lines = [f"Trained on {plural(labels, 'known label')} of {plural(pictures, 'image')} in {seconds:,.0f} s"]
    if summary["images_without_labels"]:
        lines.append(f"Taught nothing: {plural(summary['images_without_labels'], 'image')} without a known label")
    if summary["images_skipped"]:
        lines.append(f"Left out as missing or not readable: {plural(summary['images_skipped'], 'image')}")
    if summary["labels_added"]:
        rounds = plural(len(summary["rounds"]), "round")
        lines.append(f"Added: {plural(summary['labels_added'], 'label')} of the model in {rounds}")
    measured = summary["best"]["validation"]
    if measured and measured["mean_ap"] is not None:
        lines.append(f"Best epoch: {summary['best_epoch']}, chosen by the known labels of the validation part")
    if headline is None:
        lines.append("How good it is was not measured: no labels were held out")
    else:
        lines.append(say(headline))
    return "\n".join([*lines, f"Written to {folder}"])


def _validation(given: str | None) -> tuple[float | None, LabelTable | None]:
    """Read --validation: a share of the images, or the file of another label table."""
    if given is None:
        return None, None
    try:
        return float(given), None
    except ValueError:
        from partlabel.labels.table import LabelTable

        return None, LabelTable.read_parquet(given)


def demo(*, output: Output = Path("demo"), json: Json = False) -> None:
    """Show on scenes of handwritten digits what helps when one label in ten is known.

    Three lessons, each measured on new scenes: unknown labels left unknown instead of taken as absent; as many labels
    again, asked for instead of drawn at random; and labels filled in at a stated precision, held against the truth.
    Takes two to four minutes on a laptop and downloads nothing.

    Args:
        output: Folder for the scenes, the label tables, the runs and the image.
    """
    with reporting(json) as report:
        from partlabel.app.demo import job as job

        report({"output": str(output), **job.run(output)}, f"Written to {output}")
