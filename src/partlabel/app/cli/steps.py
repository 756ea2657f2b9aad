"""After a command: the one that usually follows, with the user's own paths, ready to copy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from partlabel.app.cli.paths import is_address
from partlabel.core.text import as_typed

#: gives the command to name after the one that runs; asked when that one is done, as it looks at what was written
next_step: ContextVar[Callable[[], str]] = ContextVar("next_step", default=lambda: "")

#: stands for a folder that neither a table nor its neighbourhood tells
UNKNOWN = "FOLDER_OF_IMAGES"
#: runs beside a table that are looked at
_RUNS = 50


def following(command: str, given: Mapping[str, Any]) -> str:
    """Return the command that usually follows.

    Args:
        command: ``train``, ``labels answers`` ...: what was typed after ``partlabel``.
        given: its arguments by name.

    >>> following("train", {"labels": Path("t.parquet"), "images": Path("my photos"), "output": Path("run")})
    "partlabel report run --images 'my photos' -o report.html"
    """
    make = _STEPS.get("import" if command.startswith("import ") else command)
    return "" if make is None else make(given)


def _train(table: Path, given: Mapping[str, Any], *more: str | Path) -> str:
    return as_typed("partlabel", "train", table, "--images", _images(given), *more, "-o", _free("run"))


def _report(run: Path, given: Mapping[str, Any]) -> str:
    return as_typed("partlabel", "report", run, "--images", _images(given), "-o", _free("report.html"))


def _review(given: Mapping[str, Any], table: Path | None = None) -> str:
    more = () if table is None else ("--labels", table)
    return as_typed("partlabel", "review", given["run"], *more, "--images", _images(given))


def _after_complete(given: Mapping[str, Any]) -> str:
    return _review(given, given["output"] if given.get("format") is None else None)


def _after_predict(given: Mapping[str, Any]) -> str:
    """Look at what was found; then, of a run, make the file that other programs use."""
    run, source, output = given["run"], given["source"], given["output"]
    if is_address(output) or not output.suffix:
        table = run / "validation.parquet"
        if not table.is_file() or not _of_all_classes(given):
            return ""
        return as_typed("partlabel", "evaluate", run, table, "--scores", output)
    base = _folder(given)
    if output.suffix != ".html":
        return as_typed("partlabel", "predict", run, source, *base, "-o", output.with_suffix(".html"))
    if run.is_dir():
        images = source if source.is_dir() else _images(given)
        return as_typed("partlabel", "export", run, "--images", images, "-o", _free("model.onnx"))
    return as_typed("partlabel", "predict", run, source, *base, "-o", output.with_suffix(".xlsx"))


def _of_all_classes(given: Mapping[str, Any]) -> bool:
    """Whether shards hold the scores of all classes, as the commands want them that read scores."""
    from partlabel.tasks.prediction_files import MANY
    from partlabel.training.run import Run

    if given.get("top") is not None:
        return False
    return bool(given.get("dense")) or len(Run(given["run"]).description()["classes"]) <= MANY


def _after_import(given: Mapping[str, Any]) -> str:
    page = () if given.get("images") is None else ("--images", given["images"], "--html", _free("labels.html"))
    return as_typed("partlabel", "inspect", given["output"], *page)


def _folder(given: Mapping[str, Any]) -> tuple[str | Path, ...]:
    """The folder of the images, where it was named."""
    return () if given.get("images") is None else ("--images", given["images"])


def _after_next(given: Mapping[str, Any]) -> str:
    table = given.get("labels") or given["run"] / "labels.parquet"
    return as_typed("partlabel", "labels", "answers", table, given["output"], "-o", _free("grown.parquet"))


def _after_answers(given: Mapping[str, Any]) -> str:
    run = _run_of(given["labels"])
    return _train(given["output"], given, *(() if run is None else ("--after", run)))


def _after_export(given: Mapping[str, Any]) -> str:
    if given["output"].suffix == ".onnx":
        found = _free("predictions.html")
        return as_typed("partlabel", "predict", given["output"], given["images"], "-o", found)
    return as_typed("python", "-c", f"import torch; print(torch.export.load({str(given['output'])!r}))")


def _after_evaluate(given: Mapping[str, Any]) -> str:
    if given["run"].is_dir():
        return as_typed("partlabel", "suspects", given["run"], "--images", _images(given), "-o", _free("suspects.csv"))
    return as_typed("partlabel", "predict", given["run"], _images(given), "-o", _free("predictions.html"))


def _after_demo(given: Mapping[str, Any]) -> str:
    folder = given["output"]
    run = folder / "runs" / "asked"
    return as_typed("partlabel", "report", run, "--images", folder / "scenes", "-o", folder / "report.html")


_STEPS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "import": _after_import,
    "inspect": lambda given: _train(given["labels"], given),
    "simulate": lambda given: _train(given["output"], given),
    "train": lambda given: _report(given["output"], given),
    "evaluate": _after_evaluate,
    "predict": _after_predict,
    "relabel": lambda given: _review(given, given["output"]),
    "thresholds": lambda given: _report(given["run"], given),
    "report": _review,
    "complete": _after_complete,
    "suspects": _review,
    "next": _after_next,
    "labels diff": lambda given: _train(given["second"], given),
    "labels merge": lambda given: as_typed("partlabel", "inspect", given["output"]),
    "labels undo": lambda given: as_typed("partlabel", "labels", "diff", given["labels"], given["output"]),
    "labels answers": _after_answers,
    "labels hold-out": lambda given: _train(given["output"], given, "--validation", given["held_out"]),
    "export": _after_export,
    "demo": _after_demo,
}


def after_review(run: Path, images: Path) -> str:
    """Return the training that follows a review whose labels were exported; nothing where there are none."""
    exported = sorted((run / "review").glob("labels-*.parquet"), key=lambda path: path.stat().st_mtime)
    return _train(exported[-1], {"images": images}, "--after", run) if exported else ""


def _free(name: str) -> str:
    """The name, or the first of ``run2``, ``run3`` ... that is not taken."""
    path, number = Path(name), 2
    while path.exists():
        path = Path(f"{Path(name).stem}{number}{Path(name).suffix}")
        number += 1
    return str(path)


def _images(given: Mapping[str, Any]) -> str | Path:
    """The folder of the images: as given, as the import of the table was told, or one nearby that holds them."""
    if isinstance(given.get("images"), Path):
        return given["images"]
    tables = [given.get(name) for name in ("labels", "first", "output", "second")]
    if isinstance(given.get("run"), Path):
        tables.append(given["run"] / "labels.parquet")
    for table in tables:
        if isinstance(table, Path) and table.suffix == ".parquet" and table.is_file():
            return _images_of(table) or UNKNOWN
    return UNKNOWN


def _images_of(table: Path) -> Path | None:
    """The folder that the image names of a label table start from, where it is still there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(table) as file:
            about = json.loads((file.schema_arrow.metadata or {})[b"partlabel"])
            rows = next(file.iter_batches(1, columns=["image"]), None)
    except (OSError, pa.ArrowException, ValueError, KeyError):
        return None
    if rows is None or not rows.num_rows:
        return None
    name = rows.column(0)[0].as_py()
    return next((folder for folder in _candidates(table, about["history"]) if (folder / name).is_file()), None)


def _candidates(table: Path, history: list[dict[str, Any]]) -> Iterator[Path]:
    for record in history:
        own = record.get("options", {}).get("images")
        if own:
            yield Path(own)
        yield from _candidates(table, record.get("history", []))
    for place in dict.fromkeys((Path(), table.parent, table.parent.parent)):
        yield place
        try:
            yield from sorted(Path(entry) for entry in os.scandir(place) if entry.is_dir())
        except OSError:
            continue


def _run_of(table: Path) -> Path | None:
    """The run that was trained on a label table: it lies inside the run, or a run nearby knows its content."""
    if (table.parent / "run.json").is_file():
        return table.parent
    from partlabel.labels.table import LabelTable

    found = [own for place in dict.fromkeys((Path(), table.parent)) for own in place.glob("*/run.json")]
    if not found:
        return None
    newest = sorted(found, key=lambda own: own.stat().st_mtime, reverse=True)[:_RUNS]
    try:
        content = LabelTable.read_parquet(table).content_hash()
        return next((own.parent for own in newest if json.loads(own.read_text("utf-8")).get("labels") == content), None)
    except (OSError, ValueError):
        return None
