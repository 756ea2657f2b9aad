"""Commands that use a trained model: evaluate, predict."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from partlabel.app.cli.output import Json, reporting
from partlabel.app.cli.paths import is_address
from partlabel.core.errors import UserError
from partlabel.core.text import plural

if TYPE_CHECKING:
    from partlabel.models.model import Model
    from partlabel.models.onnx import OnnxModel

#: files that were left out of a prediction and are named on the terminal
_LEFT_OUT = 20
_ENDINGS = (".csv", ".xlsx", ".html", ".parquet")


def evaluate(
    run: Path, labels: Path, /, *, images: Path | None = None, scores: Path | None = None, json: Json = False
) -> None:
    """Measure a trained classifier on known labels.

    Unknown labels count neither for nor against it. A class for which a number is undefined, such as the average
    precision of a class without known labels of both signs, is listed and left out of the mean. The last lines say what
    all labels of these images would give, with an interval, as known labels are seldom a random draw.

    Args:
        run: Run folder of `partlabel train`, or an .onnx file of `partlabel export`.
        labels: Label table to measure on, a .parquet file; better one with images that were not trained on.
        images: Folder that the image names of the table start from.
        scores: Instead of `--images`, a folder of scores that `partlabel predict` wrote, in shards, with all classes.
    """
    with reporting(json) as report:
        from partlabel.labels.table import LabelTable
        from partlabel.metrics.headline import say
        from partlabel.tasks.evaluate import estimate, trained_on

        table = LabelTable.read_parquet(labels)
        measured, headline = estimate(run, table, images=images, scores=scores)
        seen = trained_on(run, table)
        result = {"run": str(run), "labels": str(labels), "trained_on": seen, **measured.to_dict()}
        about = "The table is about the known labels alone. What all labels of these images would say:"
        lines = [measured.table(classes=max(len(measured.class_names), 1)), "", about, say(headline.to_dict())]
        if headline.images < table.num_images:
            lines.append(f"estimated on {headline.images:,} of the {table.num_images:,} images, drawn at random")
        if seen["labels"]:
            lines.append(
                f"warning: the model was trained on {seen['labels']:,} of these labels, so the numbers prove nothing "
                "about others"
            )
        elif seen["images"]:
            lines.append(f"note: the model was trained on {seen['images']:,} of these images, with other labels")
        report({**result, "headline": headline.to_dict()}, "\n".join(lines))


def predict(
    run: Path,
    source: Path,
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o")],
    images: Path | None = None,
    wide: Annotated[bool, Parameter(show_default=False)] = False,
    on_bad: Literal["error", "skip"] = "error",
    top: int | None = None,
    dense: Annotated[bool, Parameter(show_default=False)] = False,
    engine: Literal["processes", "ray"] = "processes",
    json: Json = False,
) -> None:
    """Score images with a trained classifier.

    The file holds the score, the probability and the decision for each image and class; the decision is by the
    threshold of the class (see `partlabel thresholds`), not by probability 0.5. The ending says which file it is:

    - `.csv`: a row for each image and class; with `--wide` a row for each image and a column for each class.
    - `.xlsx`: the wide table as a workbook.
    - `.html`: a page to look at, with small images, what was found in each, and where the surest class is seen.
    - `.parquet`: a row for each image, with lists in the order of the classes.

    An .onnx file gives the same as the run that it was made from. It is run by onnxruntime on the CPU and needs nothing
    but itself, as classes, thresholds and calibration stand in it.

    Of more than 256 classes the file holds, for each image, the 20 with the highest scores and all that reach their
    threshold; `--top` asks for another number, `--dense` for all.

    An output without ending is a folder, or the address of a bucket, and is written by any number of processes that are
    given the same one: the images are cut into shards of 10,000, each becomes one .parquet file, whole or not there,
    and what is there is not done again. Such a folder, with all classes in it, can be given to other commands as
    `--scores`.

    Args:
        run: Run folder of `partlabel train`, or an .onnx file of `partlabel export`.
        source: Folder with images (those in its subfolders too), or a text file with the path of one image a line. For
            an output in shards also a tar file, a folder of tar files, or the address of a bucket with either, such as
            s3://bucket/photos.
        output: File to be written: .csv, .xlsx, .html or .parquet. Or a folder, for shards.
        images: Folder that the paths in a text file start from; without it, the current folder.
        wide: A row for each image in a .csv file.
        on_bad: Images that cannot be read: `error`, or `skip` to leave them out.
        top: Classes of each image that are written, those with the highest scores; and all that reach their threshold.
        dense: Write all classes, however many there are.
        engine: Who does the shards: the processes that are started with this command, or `ray`, a cluster of Ray.
    """
    with reporting(json) as report:
        from partlabel.tasks.predict import open_classifier, predictions
        from partlabel.tasks.prediction_files import Keep
        from partlabel.tasks.scoring import scored, write_predictions

        suffix = "" if is_address(output) else output.suffix
        if suffix not in ("", *_ENDINGS):
            raise UserError(f"{output}: predictions are written as {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}")
        if wide and suffix != ".csv":
            raise UserError(f"--wide belongs to .csv; {suffix or 'a folder'} has one form")
        model = open_classifier(run)
        keep = Keep.of(model, top, dense)
        if not suffix:
            _predict_shards(run, source, output, images, keep, on_bad, engine, report)
            return
        if engine != "processes":
            raise UserError("Ray works on shards: give a folder as output")
        names, paths, left_out = list_images(source, images)
        names, paths, bad = _usable(source, names, paths, on_bad)
        if suffix in (".csv", ".parquet") and not wide:
            write_predictions(output, model, names, paths, keep)
        else:
            found = predictions(model, names, scored(model, paths).dense())
            if suffix == ".html":
                from partlabel.app.contact_sheet import write_contact_sheet

                write_contact_sheet(output, model, paths, found, source.name or source.resolve().name)
            else:
                found.write(output, wide=wide)
        _say_predicted(output, model, len(paths), bad, left_out, report)


def _usable(
    source: Path, names: list[str], paths: list[Path], on_bad: Literal["error", "skip"]
) -> tuple[list[str], list[Path], list[tuple[str, str]]]:
    """The images that can be scored, and the path and the reason of the others.

    Raises:
        UserError: none is left, or there are others and ``on_bad`` says ``error``.
    """
    from partlabel.images import check

    checked = check(paths)
    # A table cannot hold a name that is no text, which is better said before the scoring.
    text = [_is_text(name) for name in names]
    good = [fine and named for fine, named in zip(checked.good, text, strict=True)]
    nameless = [path for path, named in zip(paths, text, strict=True) if not named]
    bad = checked.bad + [(str(path), "its name is not UTF-8") for path in nameless]
    offenders = [f"{path}: {why}" for path, why in bad]
    if bad and on_bad == "error":
        raise UserError(f"{len(bad)} of {len(paths)} images cannot be used", offenders)
    if not any(good):
        raise UserError(f"{source}: none of the images can be read", offenders)
    return list(compress(names, good)), list(compress(paths, good)), bad


def _say_predicted(
    output: Path,
    model: Model | OnnxModel,
    count: int,
    bad: list[tuple[str, str]],
    left_out: list[str],
    report: Callable[[dict[str, Any], str], None],
) -> None:
    """Say what was written, by which thresholds, and what was left out."""
    decided = {"goal": model.threshold_goal, "sources": dict(Counter(model.threshold_sources))}
    result = {
        "output": str(output),
        "pictures": count,
        "classes": list(model.classes),
        "thresholds": decided,
        "calibrated": model.calibration is not None,
        "skipped": [{"picture": path, "reason": reason} for path, reason in bad],
        "left_out": left_out,
    }
    lines = [f"{output}: {plural(count, 'image')}, {plural(len(model.classes), 'class')}"]
    zero, never = (decided["sources"].get(name, 0) for name in ("default", "never"))
    words = [f"score 0 for {plural(zero, 'class')} where none was chosen"] if zero else []
    words += [f"never reached by {plural(never, 'class')} without a known label"] if never else []
    chosen = len(model.classes) - zero - never
    words = [f"{model.threshold_goal}{f' of {chosen:,}' if words else ''}", *words] if chosen else words
    lines.append(f"thresholds: {', '.join(words)}")
    lines += [f"left out: {path}: {reason}" for path, reason in bad]
    report(result, "\n".join([*lines, *_named(left_out)]))


def _named(left_out: list[str]) -> list[str]:
    """The first files that were left out, and how many more there are."""
    lines = [f"left out: {line}" for line in left_out[:_LEFT_OUT]]
    if len(left_out) > _LEFT_OUT:
        lines.append(f"left out: {len(left_out) - _LEFT_OUT:,} more; --json names them all")
    return lines


def _predict_shards(
    run: Path,
    source: Path,
    output: Path,
    images: Path | None,
    keep: Any,
    on_bad: Literal["error", "skip"],
    engine: Literal["processes", "ray"],
    report: Callable[[dict[str, Any], str], None],
) -> None:
    """Do the shards that are left, and say what this process did."""
    from partlabel.formats.options import read_lines
    from partlabel.tasks.engines import predict_shards

    names = None
    if source.is_file() and source.suffix != ".tar":
        names = [line if images is None else str(images / line) for line in read_lines(source)]
        names = [os.path.abspath(name) for name in names]
    done = predict_shards(run, source, output, names=names, keep=keep, on_bad=on_bad, engine=engine)
    result = {"output": str(output), "shards": done.shards, "pictures": done.images, "left_out": done.left_out}
    lines = [f"{output}: all shards are there; {done.shards:,} of them, with {done.images:,} images, by this process"]
    report(result, "\n".join([*lines, *_named(done.left_out)]))


def list_images(source: Path, folder: Path | None) -> tuple[list[str], list[Path], list[str]]:
    """List images: those of a folder, by name, or those that a text file names, in its order.

    Returns:
        Their names (paths inside the folder, or the lines of the file), their paths, and the files of a folder that
        were left out, with reasons.

    Raises:
        UserError: nothing is there, or names repeat.
    """
    from partlabel.formats.options import read_lines
    from partlabel.images import list_images as of_folder
    from partlabel.images import resolve

    if source.is_dir():
        if folder is not None:
            raise UserError(f"--images belongs to a text file of paths; {source} is a folder")
        found = of_folder(source)
        return found.names, found.paths, found.left_out
    names = read_lines(source)
    if not names:
        raise UserError(f"{source}: names no image")
    return names, [Path(name) for name in names] if folder is None else resolve(names, folder), []


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
