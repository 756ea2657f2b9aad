"""Write images and a half-filled table to try things on: scenes of handwritten digits, with nothing to download.

    python examples/make_scenes.py my_images 300

makes the folder my_images with photos/ (300 images), new/ (30 others) and labels.csv: a row for each image, a column
for each of ten classes, 1 for present, 0 for absent, and an empty cell where nobody looked (six cells of ten).
"""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

from partlabel.app.demo.digits import CLASSES, draw_scenes


def main(folder: str, count: int) -> None:
    """Write ``count`` images and their table into a folder."""
    place, chance = Path(folder), random.Random(0)
    for part, number, split in (("photos", count, "train"), ("new", count // 10, "test")):
        (place / part).mkdir(parents=True)
        for i, scene in enumerate(draw_scenes(split, number, seed=0)):  # type: ignore[arg-type]
            (place / part / f"{i:04}.jpg").write_bytes(scene.jpeg())
    with open(place / "labels.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["image", *CLASSES])
        for i, scene in enumerate(draw_scenes("train", count, seed=0)):
            cells = ["1" if label > 0 else "0" for label in scene.labels().tolist()]
            rows.writerow([f"{i:04}.jpg", *(cell if chance.random() < 0.4 else "" for cell in cells)])
    print(f"{place}: {count} images in photos/, {count // 10} in new/, labels.csv")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
