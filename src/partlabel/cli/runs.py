"""Commands that train a model or use one: train, evaluate, predict, demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from partlabel.cli.output import Json, reporting
from partlabel.errors import UserError

if TYPE_CHECKING:
    from partlabel.config import Config
    from partlabel.labels import LabelTable

SETTINGS = Group("Settings (those left out come from the preset or the file)", sort_key=10)
Output = Annotated[Path, Parameter(alias="-o")]


def train(
    labels: Path,
    /,
    *,
    images: Path,
    output: Output,
    preset: Literal["small", "paper"] | None = None,
    config: Path | None = None,
    validation: str | None = None,
    resume: bool = False,
    missing: Literal["error", "skip"] = "error",
    backbone: Annotated[str | None, Parameter(group=SETTINGS)] = None,
    weights: Annotated[str | None, Parameter(group=SETTINGS)] = None,
    freeze: Annotated[str | None, Parameter(group=SETTINGS)] = None,
    size: Annotated[int | None, Parameter(group=SETTINGS)] = None,
    loss: Annotated[Literal["partial-bce", "bce"] | None, Parameter(group=SETTINGS)] = None,
    gamma: Annotated[float | None, Parameter(group=SETTINGS)] = None,
    graph: Annotated[bool | None, Parameter(group=SETTINGS, negative="--no-graph")] = None,
    epochs: Annotated[int | None, Parameter(group=SETTINGS)] = None,
    batch_size: Annotated[int | None, Parameter(group=SETTINGS)] = None,
    learning_rate: Annotated[float | None, Parameter(group=SETTINGS)] = None,
    weight_decay: Annotated[float | None, Parameter(group=SETTINGS)] = None,
    precision: Annotated[Literal["32", "bf16", "16"] | None, Parameter(group=SETTINGS)] = None,
    workers: Annotated[int | None, Parameter(group=SETTINGS)] = None,
    seed: Annotated[int | None, Parameter(group=SETTINGS)] = None,
    json: Json = False,
) -> None:
    """Train a classifier on the known labels.

    Unknown labels teach nothing: they are neither present nor absent. Every picture is decoded once before training starts,
    and all files that cannot be read are listed at once. The run folder holds the best and the last model, the settings,
    and the metrics of each epoch.

    Args:
        labels: Label table, a .parquet file written by `partlabel import`.
        images: Folder that the picture names of the table start from.
        output: Run folder to be made.
        preset: `small` keeps the backbone as it is and suits a laptop; `paper` is the paper's setting and wants a GPU.
            Without a preset and without a file: small.
        config: Settings as a TOML file, such as the config.toml of another run.
        validation: Share of the pictures that is held out to validate on (0 for none), or another label table.
        resume: Go on with a run that was stopped; the other options are the ones it was started with.
        missing: Pictures without a file: error, or skip to train without them.
        backbone: Name of a timm model.
        weights: `auto` for pretrained ones, `none` for random ones, or a file.
        freeze: What stays as it is: `none`, `all` for the whole backbone, or the number of its first stages.
        size: Side in pixels of the square that pictures are resized to.
        loss: `partial-bce` weighs a picture by the share of its labels that is known; `bce` does not.
        gamma: Exponent of that weight.
        graph: Put the paper's label graph on top, which learns which classes go together.
        epochs: How often every picture is used.
        batch_size: Pictures of one step.
        learning_rate: Learning rate at the start.
        weight_decay: Weight decay.
        precision: `32`, or half precision in the network: `bf16`, `16`.
        workers: Processes that decode pictures.
        seed: Number behind everything random; the same seed, settings and machine give the same model.
    """
    with reporting(json) as report:
        from partlabel.config import Config
        from partlabel.labels import LabelTable
        from partlabel.training import train as run_training

        if preset is not None and config is not None:
            raise UserError("--preset and --config both choose the settings; give one of them")
        base = Config.read(config) if config is not None else Config.preset(preset or "small")
        share, held_out = _validation(validation)
        given = {
            "model__backbone": backbone,
            "model__weights": weights,
            "model__graph": graph,
            "freeze": freeze,
            "images__size": size,
            "loss__name": loss,
            "loss__gamma": gamma,
            "optim__epochs": epochs,
            "optim__batch_size": batch_size,
            "optim__learning_rate": learning_rate,
            "optim__weight_decay": weight_decay,
            "precision": precision,
            "workers": workers,
            "seed": seed,
            "validation": share,
        }
        settings = base.replace(**{name: value for name, value in given.items() if value is not None})
        table = LabelTable.read_parquet(labels)
        summary = run_training(
            settings, table, images, output, validation=held_out, resume=resume, on_missing=missing
        )
        report({**summary, "run": str(output)}, f"{summary}\nRun folder: {output}")


def _validation(given: str | None) -> tuple[float | None, LabelTable | None]:
    """Read --validation: a share of the pictures, or the file of another label table."""
    if given is None:
        return None, None
    try:
        return float(given), None
    except ValueError:
        from partlabel.labels import LabelTable

        return None, LabelTable.read_parquet(given)


def evaluate(run: Path, labels: Path, /, *, images: Path, json: Json = False) -> None:
    """Measure a trained classifier on known labels.

    Unknown labels count neither for nor against it. A class for which a number is undefined, such as the average precision
    of a class without a known present label, is listed and left out of the mean.

    Args:
        run: Run folder of `partlabel train`.
        labels: Label table to measure on, a .parquet file; better one with pictures that were not trained on.
        images: Folder that the picture names of the table start from.
    """


def predict(run: Path, source: Path, /, *, output: Output, json: Json = False) -> None:
    """Score pictures with a trained classifier.

    The file holds, for each picture and class, the score, the probability and the decision. Pictures that cannot be read stop
    the command; all of them are listed.

    Args:
        run: Run folder of `partlabel train`.
        source: Folder with pictures, or a text file with the path of one picture a line.
        output: File to be written: .parquet or .csv.
    """


def demo(*, output: Output = Path("demo"), json: Json = False) -> None:
    """Train on scenes of handwritten digits and draw what the model found.

    Real digits are set into scenes, one label in ten is known, and three models are trained: with plain binary cross-entropy,
    with partial-BCE, and with partial-BCE and the label graph. Takes some minutes on a laptop and downloads nothing.

    Args:
        output: Folder for the scenes, the label tables, the runs and the picture.
    """
