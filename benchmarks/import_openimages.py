"""Label tables from Open Images: partlabel against a bare polars ``read_csv`` and a group-by, interleaved.

Run ``python -m benchmarks.import_openimages [--rounds N]`` (needs ``pip install polars``). The first file has the size
of the human labels of the boxable training images: 9.4 million rows, 1.74 million images, 600 classes. polars counts
the labels of each image, and in another way finds each pair once; it checks nothing. The second file has 1 million
rows, 100,000 images and 9,605 classes in random order; its statistics are those of a loop over ``csv.reader``.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.importing import child, compare, machine, save
from partlabel import LabelTable, formats

MODULE = "benchmarks.import_openimages"
HEADER = b"ImageID,Source,LabelName,Confidence\n"
ROWS = 1_000_000


def write(path: Path, rows: int, images: int, classes: int, *, shuffled: bool) -> None:
    """Write distinct pairs; rows of an image stand together, as in the files of Open Images, or anywhere."""
    rng = np.random.default_rng(0)
    spare = rows + rows // 20
    image = np.concatenate([np.arange(images), rng.integers(0, images, spare - images)])
    cls = (classes * rng.random(spare) ** 2).astype(np.int64)
    key = rng.permutation(np.unique(image * classes + cls))[:rows]
    if not shuffled:
        key = key[np.argsort(key // classes, kind="stable")]
    ids = _hex(np.sort(rng.permutation(2 * images)[:images]) * 99_991 + 7, 16)
    labels = _hex(rng.permutation(classes), 5)
    value = (rng.random(len(key)) < 0.35).astype(np.uint8)
    with open(path, "wb") as file:
        file.write(HEADER)
        for low in range(0, len(key), ROWS):
            image, cls = np.divmod(key[low : low + ROWS], classes)
            line = np.tile(np.frombuffer(b"%16s,verification,/m/%5s,0\n" % (b"", b""), np.uint8), (len(image), 1))
            line[:, :16], line[:, 33:38] = ids[image], labels[cls]
            line[:, 39] += value[low : low + ROWS]
            file.write(line)


def _hex(numbers: np.ndarray, width: int) -> np.ndarray:
    digits = numbers[:, None] >> (4 * np.arange(width)[::-1]) & 15
    return np.frombuffer(b"0123456789abcdef", np.uint8)[digits]


def partlabel(path: str) -> LabelTable:
    return formats.read("openimages", path)[0]


def polars_by_image(path: str) -> Any:
    import polars

    return polars.read_csv(path).group_by("ImageID").agg(polars.len().alias("known"), polars.col("Confidence").sum())


def polars_by_pair(path: str) -> Any:
    import polars

    return polars.read_csv(path).group_by("ImageID", "LabelName").agg(polars.col("Confidence").max())


def row_count(path: str) -> tuple[Counter[str], Counter[str]]:
    known: Counter[str] = Counter()
    present: Counter[str] = Counter()
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for name in (row["ImageID"], row["LabelName"]):
                known[name] += 1
                present[name] += row["Confidence"] == "1"
    return known, present


def of_images(content: Any) -> tuple[int, Sequence[np.ndarray]]:
    """Known and present labels of each image, by name."""
    if isinstance(content, LabelTable):
        present, absent = content.image_counts()
        order = np.argsort(content.images.to_numpy(zero_copy_only=False))
        return content.num_known, ((present + absent)[order], present[order])
    import polars

    if "known" not in content.columns:
        content = content.group_by("ImageID").agg(polars.len().alias("known"), polars.col("Confidence").sum())
    known, present = (content.sort("ImageID")[name].to_numpy() for name in ("known", "Confidence"))
    return int(known.sum()), (known, present)


def of_names(content: Any) -> tuple[int, Sequence[np.ndarray]]:
    """Known and present labels of each image and of each class, by name."""
    if not isinstance(content, LabelTable):
        names = sorted(content[0])
        known, present = (np.array([counter[name] for name in names]) for counter in content)
        return int(known.sum()) // 2, (known, present)
    both = [content.image_counts(), content.class_counts()]
    names = [*content.images.to_pylist(), *content.classes]
    order = sorted(range(len(names)), key=names.__getitem__)
    present, absent = (np.concatenate([counts[sign] for counts in both])[order] for sign in (0, 1))
    return content.num_known, (present + absent, present)


PEERS = {"partlabel": partlabel, "polars_by_image": polars_by_image, "polars_by_pair": polars_by_pair}
COUNTS = {"partlabel": partlabel, "row_count": row_count}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", nargs=2)
    given = parser.parse_args()
    if given.child is not None:
        way, path = given.child
        many = Path(path).name == "many_classes.csv"
        if way.startswith("polars"):
            import_module("polars")  # before the clock starts
        child((COUNTS if many else PEERS)[way], path, of_names if many else of_images)
        return
    with tempfile.TemporaryDirectory() as folder:
        boxable, many = Path(folder) / "boxable.csv", Path(folder) / "many_classes.csv"
        write(boxable, 9_400_000, 1_740_000, 600, shuffled=False)
        write(many, 1_000_000, 100_000, 9605, shuffled=True)
        run = partial(compare, MODULE, rounds=given.rounds)
        result = {
            "what": "Open Images CSV -> known pairs; seconds are medians, each reading in a process of its own",
            "machine": machine(),
            "rounds": given.rounds,
            "9,400,000 rows, 1,740,000 images, 600 classes": run(list(PEERS), boxable),
            "1,000,000 rows in random order, 100,000 images, 9,605 classes": run(list(COUNTS), many),
        }
    save("import_openimages", result)


if __name__ == "__main__":
    main()
