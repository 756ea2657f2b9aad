"""Predictions to look at: one HTML page with small images, the classes found in each, and where the surest is seen."""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Sequence
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

from partlabel.app.report.thumbnails import thumbnail
from partlabel.core.files import write_text
from partlabel.core.progress import Reporter
from partlabel.core.text import shown
from partlabel.models.model import Model
from partlabel.models.onnx import OnnxModel
from partlabel.tasks.class_maps import class_maps
from partlabel.tasks.predict import Predictions

__all__ = ["MOST", "write_contact_sheet"]

#: images on a page: about 8 MB
MOST = 1000
#: letters shown of a name, from its end, by which names differ
_TAIL = 22
#: classes named under an image, and how dark the regions become in which its surest class is not seen
_NAMED, _DARK = 6, 0.66


def write_contact_sheet(
    output: str | os.PathLike[str],
    model: Model | OnnxModel,
    paths: Sequence[Path],
    found: Predictions,
    title: str,
) -> int:
    """Write a page with the images, what was found in them, and where the surest class of each is seen.

    Args:
        output: file to be written, ``.html``; it needs nothing else.
        model: the classifier; an exported one cannot say where.
        paths: N image files.
        found: what it says of them.
        title: what the page is about, such as the name of the folder.

    Returns:
        How many images are on the page: N, or :data:`MOST` spread evenly over them.

    Raises:
        UserError: an image cannot be read, or the page cannot be written.
    """
    rows: NDArray[np.int64] = np.arange(len(paths))
    if len(paths) > MOST:
        rows = np.linspace(0, len(paths) - 1, MOST).round().astype(np.int64)
    # the surest of the classes that are present; where none is, of all
    top = np.where(found.present[rows], 2.0, 0.0) + found.probabilities[rows]
    top = top.argmax(1)
    maps = class_maps(model, [paths[row] for row in rows.tolist()], top) if isinstance(model, Model) else None
    cards = []
    with Reporter().bar("making small images") as bar:
        for place, (row, best) in enumerate(zip(rows.tolist(), top.tolist(), strict=True)):
            where = None if maps is None else _shade(maps[place])
            cards.append(_card(found, row, best, paths[row], where))
            bar(place + 1, len(rows))
    counts = found.present.sum(0).tolist()
    page = (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            cards=cards,
            total=len(paths),
            classes=[(c, name, counts[c]) for c, name in enumerate(found.classes)],
            empty=int((~found.present.any(1)).sum()),
            maps=maps is not None,
            how=model.threshold_goal,
            style=_texts("partlabel.app.report", "style.css") + _texts("partlabel.app.contact_sheet", "sheet.css"),
            script=_texts("partlabel.app.contact_sheet", "sheet.js"),
            version=version("partlabel"),
        )
    )
    write_text(output, shown(page))
    return len(rows)


def _card(found: Predictions, row: int, best: int, path: Path, where: str | None) -> dict[str, Any]:
    name = found.images[row]
    own, present = found.probabilities[row], np.flatnonzero(found.present[row])
    order = present[np.argsort(-own[present], kind="stable")].tolist()
    return {
        "name": found.images[row],
        "tail": name if len(name) <= _TAIL else f"…{name[-_TAIL:]}",
        "picture": thumbnail(path),
        "where": where,
        "best": found.classes[best],
        "named": [(found.classes[c], own[c]) for c in order[:_NAMED]],
        "more": len(order) - len(order[:_NAMED]),
        "nearest": (found.classes[best], own[best]),
        "values": json.dumps({c: round(float(own[c]), 4) for c in order}),
    }


def _shade(evidence: NDArray[np.float32]) -> str | None:
    """A dark layer (h, w) with light where a class is seen, as ``data:`` address; None where nothing speaks for it."""
    light = np.clip(np.nan_to_num(evidence), 0, None)
    if light.size < 4 or not light.max() > 0:
        return None
    light = np.clip(light / max(float(np.quantile(light, 0.95)), float(light.max()) / 4), 0, 1) ** 0.6
    layer = np.zeros((*light.shape, 2), np.uint8)
    layer[..., 1] = np.round(255 * _DARK * (1 - light))
    file = io.BytesIO()
    Image.fromarray(layer, "LA").save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("partlabel.app.contact_sheet"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["pct"] = _percent
    return environment


def _percent(value: float) -> str:
    """A probability for people: 0 and 100 % only where it is exactly so."""
    if value in (0, 1):
        return f"{100 * value:.0f} %"
    return "under 1 %" if value < 0.01 else "over 99 %" if value > 0.99 else f"{100 * value:.0f} %"


def _texts(package: str, name: str) -> Markup:
    return Markup((resources.files(package) / "templates" / name).read_text(encoding="utf-8"))
