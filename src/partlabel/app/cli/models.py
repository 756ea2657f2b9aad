"""Commands that use a trained model: evaluate, predict."""

from __future__ import annotations

import os
from collections import Counter
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from partlabel.app.cli.output import Json, reporting
from partlabel.core.errors import UserError

if TYPE_CHECKING:
    from partlabel.models.model import Model
    from partlabel.models.onnx import OnnxModel


def evaluate(run: Path, labels: Path, /, *, images: Path, json: Json = False) -> None:
    """Measure a trained classifier on known labels.

    Unknown labels count neither for nor against it. A class for which a number is undefined, such as the average
    precision of a class without a known present label, is listed and left out of the mean.

    Args:
        run: Run folder of `partlabel train`, or an .onnx file of `partlabel export`.
        labels: Label table to measure on, a .parquet file; better one with pictures that were not trained on.
        images: Folder that the picture names of the table start from.
    """
    with reporting(json) as report:
        from partlabel.labels.table import LabelTable
        from partlabel.tasks.evaluate import measure

        model, table = open_model(run), LabelTable.read_parquet(labels)
        measured = measure(model, table, images)
        report(
            {"run": str(run), "labels": str(labels), **measured.to_dict()},
            measured.table(classes=max(len(measured.class_names), 1)),
        )


def predict(
    run: Path,
    source: Path,
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o")],
    images: Path | None = None,
    on_bad: Literal["error", "skip"] = "error",
    json: Json = False,
) -> None:
    """Score pictures with a trained classifier.

    The file holds the score, the probability and the decision for each picture and class; the decision is by the
    threshold of the class (see `partlabel thresholds`), not by probability 0.5. A .csv file has a row for
    each of them; a .parquet file has a row for each picture, with lists in the order of the classes.
    An .onnx file gives the same as the run that it was made from. It is run by onnxruntime on the CPU and needs nothing
    but itself, as classes, thresholds and calibration stand in it.

    Args:
        run: Run folder of `partlabel train`, or an .onnx file of `partlabel export`.
        source: Folder with pictures (those in its subfolders too), or a text file with the path of one picture a line.
        output: File to be written: .csv or .parquet.
        images: Folder that the paths in a text file start from; without it, the current folder.
        on_bad: Pictures that cannot be read: `error`, or `skip` to leave them out.
    """
    with reporting(json) as report:
        from partlabel.images import check
        from partlabel.tasks.predict import predict as score
        from partlabel.tasks.predict import write_predictions

        if output.suffix not in (".csv", ".parquet"):
            raise UserError(f"{output}: predictions are written as .csv or .parquet")
        model = open_model(run)
        names, paths = list_pictures(source, images)
        checked = check(paths)
        # A table cannot hold a name that is no text, which is better said before the scoring.
        text = [_is_text(name) for name in names]
        good = [fine and named for fine, named in zip(checked.good, text, strict=True)]
        nameless = [path for path, named in zip(paths, text, strict=True) if not named]
        bad = checked.bad + [(str(path), "its name is not UTF-8") for path in nameless]
        if bad and on_bad == "error":
            offenders = [f"{path}: {why}" for path, why in bad]
            raise UserError(f"{len(bad)} of {len(paths)} pictures cannot be used", offenders)
        names = list(compress(names, good))
        paths = list(compress(paths, good))
        if not paths:
            raise UserError(f"{source}: none of the pictures can be read", [f"{p}: {why}" for p, why in bad])
        scores = score(model, paths)
        write_predictions(output, names, scores, model)
        skipped = [{"picture": path, "reason": reason} for path, reason in bad]
        decided = {"goal": model.threshold_goal, "sources": dict(Counter(model.threshold_sources))}
        result = {
            "output": str(output),
            "pictures": len(paths),
            "classes": list(model.classes),
            "thresholds": decided,
            "calibrated": model.calibration is not None,
            "skipped": skipped,
        }
        lines = [f"{output}: {len(paths):,} pictures, {len(model.classes):,} classes"]
        sources = ", ".join(f"{count:,} {name}" for name, count in decided["sources"].items())
        lines.append(f"thresholds: {model.threshold_goal} ({sources})")
        lines += [f"left out: {bad['picture']}: {bad['reason']}" for bad in skipped]
        report(result, "\n".join(lines))


def open_model(path: Path) -> Model | OnnxModel:
    """Open an .onnx file, or the best model of a run folder.

    Raises:
        UserError: see :meth:`partlabel.models.onnx.OnnxModel.load` and :meth:`partlabel.models.model.Model.load`.
    """
    if path.suffix == ".onnx" and not path.is_dir():
        from partlabel.models.onnx import OnnxModel

        return OnnxModel.load(path)
    from partlabel.models.model import Model

    return Model.load(path)


def list_pictures(source: Path, folder: Path | None) -> tuple[list[str], list[Path]]:
    """List pictures: those of a folder, by name, or those that a text file names, in its order.

    Returns:
        Their names (paths inside the folder, or the lines of the file), and their paths.

    Raises:
        UserError: nothing is there, or names repeat.
    """
    from partlabel.formats.options import read_lines
    from partlabel.images import resolve
    from partlabel.images.locate import PICTURES

    if source.is_dir():
        if folder is not None:
            raise UserError(f"--images belongs to a text file of paths; {source} is a folder")
        found = sorted(
            Path(parent, file) for parent, _, files in os.walk(source) for file in files if _is_picture(file, PICTURES)
        )
        if not found:
            raise UserError(f"{source}: no pictures in this folder ({', '.join(PICTURES)})")
        return [path.relative_to(source).as_posix() for path in found], found
    names = read_lines(source)
    if not names:
        raise UserError(f"{source}: names no picture")
    return names, [Path(name) for name in names] if folder is None else resolve(names, folder)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_picture(name: str, endings: tuple[str, ...]) -> bool:
    return name.lower().endswith(endings) and not name.startswith(".")
