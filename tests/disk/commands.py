"""The commands that write, on a small run: what the tests of faults start again and again."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from partlabel import LabelTable, train
from partlabel.app.cli import main
from partlabel.core.text import as_cell
from tests.pictures import CLASSES, make_pictures, tiny_config

CODING = ("--coding", "1=present,-1=absent,0=unknown")
IMAGES = ("--images", "{place}/photos")
RUN, TABLE = "{place}/run", "{place}/labels.parquet"
#: name -> words; what is written lies in {out}, or in the run
COMMANDS: dict[str, tuple[str, ...]] = {
    "import csv": ("import", "csv", "{place}/labels.csv", *CODING, "-o", "{out}/t.parquet"),
    "import coco": ("import", "coco", "{place}/coco.json", "-o", "{out}/t.parquet"),
    "inspect": ("inspect", TABLE, "--png", "{out}/figure.png"),
    "simulate": ("simulate", TABLE, "partial", "--proportion", "0.5", "-o", "{out}/t.parquet"),
    "train, closed form": ("train", TABLE, *IMAGES, "--config", "{place}/small.toml", "-o", "{out}/run"),
    "train, relabelling": ("train", TABLE, *IMAGES, "--config", "{place}/paper.toml", "-o", "{out}/run"),
    "evaluate": ("evaluate", RUN, TABLE, *IMAGES),
    "predict csv": ("predict", RUN, "{place}/photos", "-o", "{out}/p.csv"),
    "predict parquet": ("predict", RUN, "{place}/photos", "-o", "{out}/p.parquet"),
    "relabel": ("relabel", RUN, TABLE, *IMAGES, "--strategy", "score-threshold", "-o", "{out}/t.parquet"),
    "thresholds": ("thresholds", RUN, "--by", "f1"),
    "report": ("report", RUN, *IMAGES, "-o", "{out}/report.html"),
    "complete": ("complete", RUN, TABLE, *IMAGES, "--precision", "0.6", "-o", "{out}/t.parquet"),
    "suspects": ("suspects", RUN, TABLE, *IMAGES, "-o", "{out}/s.csv"),
    "next": ("next", RUN, TABLE, *IMAGES, "--budget", "10", "-o", "{out}/q.csv"),
    "next labelstudio": ("next", RUN, TABLE, *IMAGES, "--budget", "10", "-o", "{out}/q.json"),
    "labels answers": ("labels", "answers", TABLE, "{place}/q.csv", "-o", "{out}/t.parquet"),
    "labels merge": ("labels", "merge", TABLE, "{place}/other.parquet", "-o", "{out}/t.parquet"),
    "labels undo": ("labels", "undo", TABLE, "-o", "{out}/t.parquet"),
    "labels hold-out": ("labels", "hold-out", TABLE, "-o", "{out}/a.parquet", "--held-out", "{out}/b.parquet"),
    "export onnx": ("export", RUN, *IMAGES, "-o", "{out}/m.onnx"),
    "export onnx int8": ("export", RUN, *IMAGES, "--int8", "-o", "{out}/m.onnx"),
    "export pt2": ("export", RUN, *IMAGES, "-o", "{out}/m.pt2"),
    "review": ("review", "{place}"),
    "predict xlsx": ("predict", RUN, "{place}/photos", "-o", "{out}/p.xlsx"),
    "predict html": ("predict", RUN, "{place}/photos", "-o", "{out}/p.html"),
    "predict shards": ("predict", RUN, "{place}/photos", "-o", "{out}/shards"),
    "write formats": ("write", TABLE, "{out}"),
}


def words_of(name: str, place: Path, out: Path) -> list[str]:
    """The words of a command."""
    return [word.format(place=place, out=out) for word in COMMANDS[name]]


#: names that are not what names usually are
ODD = (
    "=1+1",
    "a,b",
    'quote"d',
    "tab\there",
    "é\u0301",
    "\u202eright",
    "<b>car</b>",
    "-x",
    "CON",
    "'",
    "a|b",
    "猫",
    "x" * 150,
)


@dataclass(frozen=True)
class World:
    """What a folder is made of, drawn from a seed; seed None is the plain one."""

    seed: int | None = None

    def make(self, place: Path) -> None:
        """A folder with images, tables in several formats, a finished run and settings."""
        rng = np.random.default_rng(self.seed or 0)
        images, share, names = 40, 0.7, list(CLASSES)
        if self.seed is not None:
            images, share = int(rng.integers(12, 60)), float(rng.uniform(0.3, 1))
            names = [str(name) for name in rng.choice([*CLASSES, *ODD], 3, replace=False)]
        drawn = make_pictures(place / "photos", images, seed=self.seed or 0)
        dense = (drawn.dense() * (rng.random((images, 3)) < share)).astype(np.int8)
        table = LabelTable.from_dense(drawn.images.to_pylist(), names, dense)
        table.write_parquet(place / "labels.parquet")
        table.select(np.arange(5)).write_parquet(place / "other.parquet")
        _write_sources(place, table, dense)
        seed, held = int(rng.integers(100)), 0.3
        small = tiny_config(optim__epochs=1, validation=held, model__pooling="average", freeze="all", seed=seed)
        small = small.replace(optim__name="closed-form")
        small.write(place / "small.toml")
        relabel = {"relabel__before": [2], "relabel__strategy": "score-threshold"}
        tiny_config(optim__epochs=2, validation=held, seed=seed, **relabel).write(place / "paper.toml")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            train(table, images=place / "photos", out=place / "run", config=small)


def _write_sources(place: Path, table: LabelTable, dense: NDArray[np.int8]) -> None:
    """The table as annotation files, and as answered questions."""
    names = table.images.to_pylist()
    with open(place / "labels.csv", "w", newline="", encoding="utf-8") as file:
        rows = [[name, *row] for name, row in zip(names, dense, strict=True)]
        csv.writer(file).writerows([["image", *table.classes], *rows])
    with open(place / "q.csv", "w", newline="", encoding="utf-8") as file:
        open_ = [i for i in range(8) if not dense[i, i % 3]]
        rows = [[names[i], as_cell(table.classes[i % 3]), "0.5", "seek", "present"] for i in open_]
        csv.writer(file).writerows([["image", "class", "score", "why", "answer"], *rows])
    coco = {
        "images": [{"id": i, "file_name": n, "width": 32, "height": 32} for i, n in enumerate(names)],
        "categories": [{"id": c + 1, "name": n} for c, n in enumerate(table.classes)],
        "annotations": [
            {"id": int(3 * i + c + 1), "image_id": int(i), "category_id": int(c) + 1, "bbox": [0, 0, 1, 1], "area": 1}
            for i, c in zip(*np.nonzero(dense > 0), strict=True)
        ],
    }
    (place / "coco.json").write_text(json.dumps(coco))


def run_command(name: str, place: Path, out: Path, again: bool = False) -> int:
    """Run a command in this process; its exit code. ``again``: it was tried before, so a training goes on."""
    if name == "review":
        return _main(lambda: review(place))
    if name == "write formats":
        return _main(lambda: write_formats(place / "labels.parquet", out))
    more = ["--resume"] if again and name.startswith("train") else []
    return main([*words_of(name, place, out), *more])


def _main(function: Callable[[], None]) -> int:
    from partlabel.core.errors import UserError

    try:
        function()
    except UserError as error:
        print(f"partlabel: {error}")
        return 2
    return 0


def write_formats(table: Path, out: Path) -> None:
    """Every format that a table can be written in."""
    from partlabel import formats

    labels = LabelTable.read_parquet(table)
    for name, entry in formats.FORMATS.items():
        if entry.write is not None:
            formats.write(name, labels, out / name)


def review(place: Path) -> None:
    """What the server of a review writes: it starts, stores answers, shows an image, exports, and ends."""
    from partlabel.app.review.answers import StoreError
    from partlabel.app.review.desk import Asked, open_desk
    from partlabel.core.errors import UserError
    from partlabel.core.lock import holding

    with holding(place / "run", "partlabel review"):
        desk = open_desk(place / "run", place / "labels.parquet", place / "photos")
        try:
            for number in range(3):
                asked = Asked(desk.names[number], desk.table.classes[0], desk.pictures.content(number), "yes", "all")
                desk.answer("me", f"batch-{number}", [asked], False)
            desk.pictures.jpeg(0, desk.pictures.find(0, 256))
            desk.export("parquet")
            desk.export("coco")
        except StoreError as error:
            raise UserError(str(error)) from None
        finally:
            desk.close()
