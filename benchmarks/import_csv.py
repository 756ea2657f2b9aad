"""Label tables from CSV: partlabel against pyarrow alone, interleaved.

Run ``python -m benchmarks.import_csv``. pyarrow alone (``read_csv``, ``dictionary_encode``, a sort) checks nothing: no
codings, no repeats and contradictions, no line numbers. The long table has 1,000,000 rows, 100,000 images and 9,605
classes; the wide one 60,000 images and 80 classes, 85 % of them blank.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from pyarrow import csv as arrow_csv

from benchmarks.importing import Pairs, child, compare, machine, pairs, save
from partlabel import formats

ROUNDS = 5


def write_long(path: Path, rows: int, images: int, classes: int) -> None:
    rng = np.random.default_rng(0)
    key = np.unique(np.sort(rng.integers(0, images, rows)) * classes + rng.integers(0, classes, rows))
    image, cls = np.divmod(key, classes)
    value = rng.integers(0, 2, len(key))
    with open(path, "w", encoding="utf-8") as file:
        file.write("ImageID,Source,LabelName,Confidence\n")
        for i, c, v in zip(image.tolist(), cls.tolist(), value.tolist(), strict=True):
            file.write(f"{i:016x},verification,/m/{c:05x},{v}\n")


def write_wide(path: Path, images: int, classes: int) -> None:
    rng = np.random.default_rng(0)
    cells = rng.choice(["1", "-1", ""], p=[0.05, 0.1, 0.85], size=(images, classes))
    with open(path, "w", encoding="utf-8") as file:
        file.write("image," + ",".join(f"class {n}" for n in range(classes)) + "\n")
        for number, row in enumerate(cells.tolist()):
            file.write(f"{number:08d}.jpg," + ",".join(row) + "\n")


def is_long(path: str) -> bool:
    return "long" in Path(path).name


def partlabel(path: str) -> Pairs:
    table, _ = formats.read("csv", path, coding="zero-absent" if is_long(path) else "native")
    return table.pair_images(), table.indices, table.values


def pyarrow(path: str) -> Pairs:
    table = arrow_csv.read_csv(path)
    if is_long(path):
        encoded = {name: table[name].combine_chunks().dictionary_encode() for name in ("ImageID", "LabelName")}
        rank = np.argsort(np.argsort(encoded["LabelName"].dictionary.to_numpy(zero_copy_only=False).astype(str)))
        image = encoded["ImageID"].indices.to_numpy()
        cls = rank[encoded["LabelName"].indices.to_numpy()]
        order = np.lexsort((cls, image))
        return image[order], cls[order], np.where(table["Confidence"].to_numpy() == 1, 1, -1)[order]
    columns = [table[n].fill_null(0).to_numpy().astype(np.int8) for n in range(1, table.num_columns)]
    image, cls = np.nonzero(dense := np.stack(columns, 1))
    return image, cls, dense[image, cls]


WAYS = {"partlabel": partlabel, "pyarrow": pyarrow}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", nargs=2)
    if (own := parser.parse_args().child) is not None:
        child(WAYS[own[0]], own[1], pairs)
        return
    with tempfile.TemporaryDirectory() as folder:
        long, wide = Path(folder) / "long.csv", Path(folder) / "wide.csv"
        write_long(long, 1_000_000, 100_000, 9605)
        write_wide(wide, 60_000, 80)
        module = "benchmarks.import_csv"
        result = {
            "what": "CSV file -> sorted known pairs; seconds are medians, each reading in a process of its own",
            "machine": machine(),
            "rounds": ROUNDS,
            "long, 1,000,000 rows, 9,605 classes": compare(module, list(WAYS), long, ROUNDS),
            "wide, 60,000 x 80": compare(module, list(WAYS), wide, ROUNDS),
        }
    save("import_csv", result)


if __name__ == "__main__":
    main()
