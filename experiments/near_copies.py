"""What ``partlabel.images.near_copies`` finds, misses and invents.

    python -m experiments.near_copies --data ../shared/data/coco-mini

Copies of some images are made in several ways; each copy is looked for among all originals. What is found between the
originals themselves, which are different photographs, is listed by name, to be looked at.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from PIL import Image

from experiments.store import RESULTS, Store
from partlabel.images.decoding import decode
from partlabel.images.near_copies import SIDE, fingerprint, near_copies

STORE = Store(RESULTS / "near_copies.jsonl")
COPIES = 400


def _jpeg(image: Image.Image, quality: int = 85) -> bytes:
    return _written(image, "JPEG", quality=quality)


def _written(image: Image.Image, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def _resized(image: Image.Image, by: float) -> bytes:
    size = (max(1, round(image.width * by)), max(1, round(image.height * by)))
    return _jpeg(image.resize(size, Image.Resampling.BICUBIC))


def _cropped(image: Image.Image, share: float, random: np.random.Generator) -> bytes:
    """Up to ``share`` of the sides is cut away on each side."""
    left, top, right, low = random.uniform(0, share, 4)
    width, height = image.size
    box = (round(width * left), round(height * top), width - round(width * right), height - round(height * low))
    return _jpeg(image.crop(box))


WAYS: dict[str, Callable[[Image.Image, np.random.Generator], bytes]] = {
    "JPEG, quality 30": lambda image, _: _jpeg(image, 30),
    "JPEG, quality 75": lambda image, _: _jpeg(image, 75),
    "PNG": lambda image, _: _written(image, "PNG"),
    "WebP, quality 60": lambda image, _: _written(image, "WEBP", quality=60),
    "a quarter of the size": lambda image, _: _resized(image, 0.25),
    "half the size": lambda image, _: _resized(image, 0.5),
    "0.8 of the size": lambda image, _: _resized(image, 0.8),
    "1.5 times the size": lambda image, _: _resized(image, 1.5),
    "square of 256 px": lambda image, _: _jpeg(image.resize((256, 256))),
    "up to 2 % cut off each side": lambda image, random: _cropped(image, 0.02, random),
    "up to 5 % cut off each side": lambda image, random: _cropped(image, 0.05, random),
    "up to 10 % cut off each side": lambda image, random: _cropped(image, 0.1, random),
    "brighter": lambda image, _: _jpeg(image.point(lambda value: min(255, int(value * 1.15 + 5)))),
    "grey": lambda image, _: _jpeg(image.convert("L")),
    "mirrored": lambda image, _: _jpeg(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    paths = sorted((options.data / "images").iterdir())
    start = perf_counter()
    prints = np.stack([fingerprint(decode(path, SIDE)) for path in paths])
    decoded = perf_counter()
    pairs = near_copies(prints)
    compared = perf_counter()
    STORE.add(
        "originals",
        {
            "images": len(paths),
            "pairs": [[paths[i].name, paths[k].name] for i, k in pairs],
            "seconds_decoding": decoded - start,
            "seconds_comparing": compared - decoded,
        },
    )
    random = np.random.default_rng(0)
    chosen = np.sort(random.permutation(len(paths))[:COPIES])
    for name, make in WAYS.items():
        made = []
        for number in chosen.tolist():
            copy = np.asarray(
                Image.open(io.BytesIO(make(Image.open(paths[number]).convert("RGB"), random))).convert("RGB")
            )
            made.append(fingerprint(copy))
        found = dict(near_copies(np.concatenate([prints, np.stack(made)])))
        own = dict(pairs)
        partner = [found.get(len(paths) + j, -1) for j in range(len(chosen))]
        right = [one in (k, own.get(k, k)) for one, k in zip(partner, chosen.tolist(), strict=True)]
        other = [one >= 0 and not yes for one, yes in zip(partner, right, strict=True)]
        record = {"copies": len(chosen), "found": int(np.sum(right)), "taken_for_another": int(np.sum(other))}
        STORE.add(name, record)
        print(name, record, flush=True)
    print(f"{len(pairs)} pairs among {len(paths)} originals: {[[paths[i].name, paths[k].name] for i, k in pairs]}")


if __name__ == "__main__":
    main()
