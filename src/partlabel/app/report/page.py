"""The page: the numbers of a report set into the template, with charts and small images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from partlabel.app.report import charts
from partlabel.app.report.gallery import names_of
from partlabel.app.report.thumbnails import thumbnails
from partlabel.core.text import shown, some
from partlabel.metrics.thresholds import threshold_text
from partlabel.training.run import Run

#: rows of the table of classes; the JSON has all
_ROWS = 1000
#: names in a sentence
#: letters shown of the name of an image
_TAIL = 18
#: classes whose change is listed in a comparison
_CHANGES = 30


def render(report: dict[str, Any], images: str | os.PathLike[str] | None = None) -> str:
    """The HTML of a report, with nothing outside itself.

    Args:
        report: what :func:`partlabel.app.report.collect` gives.
        images: folder of the images, to show the most confident mistakes; without it they are listed by name.
    """
    return _rendered(
        "report.html",
        report=report,
        runs=[_drawn(run, report["runs"], images) for run in report["runs"]],
        spent=charts.spent(report["runs"]),
        kinds=_kinds(report["runs"]),
        rows=_ROWS,
        changes=_CHANGES,
        curves=charts.CURVES,
    )


def render_labels(numbers: dict[str, Any], found: dict[str, Any], images: str | os.PathLike[str], title: str) -> str:
    """The HTML of a label table: its counts and images to look at.

    Args:
        numbers: what :meth:`partlabel.labels.inspect.Inspection.to_dict` gives.
        found: what :func:`partlabel.app.report.gallery.gallery` gives.
        images: folder of the images.
        title: what the table is called.
    """
    pictures = thumbnails(names_of(found), images)
    return _rendered("inspect.html", n=numbers, g=found, pictures=pictures, title=title, gid="labels")


def _rendered(template: str, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("partlabel.app.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "pct": charts.percent,
        "count": _count,
        "p": _p,
        "points": _points,
        "score": _score,
        "tail": _tail,
        "some": partial(some, most=60),
    }
    folder = resources.files("partlabel.app.report") / "templates"
    text = {name: (folder / name).read_text(encoding="utf-8") for name in ("style.css", "script.js")}
    page = environment.get_template(template).render(
        style=Markup(text["style.css"]), script=Markup(text["script.js"]), version=version("partlabel"), **values
    )
    return shown(page)


def _drawn(
    run: dict[str, Any], runs: Sequence[dict[str, Any]], images: str | os.PathLike[str] | None
) -> dict[str, Any]:
    """A run with its charts and images."""
    results = run["results"]
    mistakes = [] if results is None else [row for rows in results["mistakes"].values() for row in rows]
    elsewhere = Run(run["folder"]).elsewhere if Path(run["folder"]).is_dir() else None
    named = [row["image"] for row in mistakes] + ([] if run["gallery"] is None else names_of(run["gallery"]))
    others = [other for other in runs if other is not run and other["results"] is not None]
    return {
        **run,
        "charts": {
            "loss": charts.loss_curve(run),
            "validation": charts.validation_curve(run),
            "images": charts.image_proportions(run["data"]["training"]),
            "classes": charts.class_proportions(run),
            "curves": [] if results is None else charts.curves(run, others[:2]),
            "others": [other["name"] for other in others[:2]],
            "calibration": None if results is None else charts.calibration(results["calibration"]),
        },
        "pictures": {} if images is None else thumbnails(named, images, elsewhere),
        "checks": {} if run["random_check"] is None else {row["class"]: row for row in run["random_check"]["classes"]},
    }


def _kinds(runs: Sequence[dict[str, Any]]) -> list[str]:
    """How labels were spent, in the order of the colours of the chart."""
    return sorted({run["labels_spent"]["kind"] for run in runs if run["labels_spent"]["mean_ap"] is not None})


def _count(value: int) -> str:
    return f"{value:,}"


def _points(value: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{100 * value:+.1f}".replace("-", "−")


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _score(value: float) -> str:
    return threshold_text(value, 2).replace("-", "−")


def _tail(name: str, letters: int = _TAIL) -> str:
    """The end of a long name, by which the names of images differ."""
    return name if len(name) <= letters else f"…{name[-letters:]}"
