"""Label tables from COCO JSON: partlabel against json.load and a loop, interleaved.

Run ``python -m benchmarks.import_coco [--annotations N]``. The file has the layout of COCO's instances (outlines,
boxes, URLs) with random content; the 860,000 annotations of train2017 are about 360 MB. json.load and the loop check
nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.importing import Pairs, child, compare, machine, pairs, save
from partlabel import formats

ROUNDS = 3
CLASSES = 80


def write(path: Path, images: int, annotations: int) -> None:
    draw = random.Random(0)
    url = "http://images.cocodataset.org/train2017"
    with open(path, "w", encoding="utf-8") as file:
        entries = [
            {"license": 1, "file_name": f"{n:012d}.jpg", "coco_url": f"{url}/{n:012d}.jpg", "height": 480, "id": n * 5}
            for n in range(images)
        ]
        file.write(f'{{"images": {json.dumps(entries)}, "annotations": [')
        for n in range(annotations):
            entry = {
                "segmentation": [[round(draw.random() * 600, 2) for _ in range(34)]],
                "area": 703.6,
                "iscrowd": 0,
                "image_id": draw.randrange(images) * 5,
                "bbox": [1.5, 2.5, 3.5, 4.5],
                "category_id": draw.randrange(CLASSES) + 1,
                "id": n,
            }
            file.write((", " if n else "") + json.dumps(entry))
        names = [{"supercategory": "thing", "id": n + 1, "name": f"class {n}"} for n in range(CLASSES)]
        file.write(f'], "categories": {json.dumps(names)}}}')


def partlabel(path: str) -> Pairs:
    table, _ = formats.read("coco", path, not_listed="unknown")
    return table.pair_images(), table.indices, table.values


def json_load(path: str) -> Pairs:
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    images = {entry["id"]: number for number, entry in enumerate(content["images"])}
    classes = {entry["id"]: number for number, entry in enumerate(content["categories"])}
    found = {(images[a["image_id"]], classes[a["category_id"]]) for a in content["annotations"]}
    image, cls = zip(*sorted(found), strict=True)
    return np.array(image), np.array(cls), np.ones(len(image))


WAYS = {"partlabel": partlabel, "json_load": json_load}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--annotations", type=int, default=860_000)
    parser.add_argument("--child", nargs=2)
    given = parser.parse_args()
    if given.child is not None:
        child(WAYS[given.child[0]], given.child[1], pairs)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "instances.json"
        write(path, given.annotations // 7, given.annotations)
        result = {
            "what": "COCO file -> sorted known pairs; seconds are medians, each reading in a process of its own",
            "machine": machine(),
            "rounds": ROUNDS,
            f"{given.annotations:,} annotations": compare("benchmarks.import_coco", list(WAYS), path, ROUNDS),
        }
    save("import_coco", result)


if __name__ == "__main__":
    main()
