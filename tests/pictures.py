"""Small images with something to learn, and their table."""

from pathlib import Path

import numpy as np
from PIL import Image

from partlabel import Config, LabelTable

CLASSES = ("red", "green", "blue")


def make_pictures(folder: Path, count: int, seed: int = 0, size: int = 32) -> LabelTable:
    """Noise with squares of the colours that are present; all labels known."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(np.array([-1, 1], np.int8), (count, 3))
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for i in range(count):
        pixels = rng.integers(0, 90, (size, size, 3))
        for c in np.flatnonzero(labels[i] > 0):
            y, x = rng.integers(0, size - 8, 2)
            pixels[y : y + 8, x : x + 8, c] = 255
        names.append(f"{i:03}.png")
        Image.fromarray(pixels.astype(np.uint8)).save(folder / names[-1])
    return LabelTable.from_dense(names, CLASSES, labels)


def tiny_config(**changes) -> Config:
    """A run of a very small network without pretrained weights."""
    config = Config.preset("paper").replace(
        model__backbone="test_resnet",
        model__weights="none",
        images__size=32,
        optim__epochs=2,
        optim__batch_size=4,
        optim__learning_rate=0.01,
        optim__head_learning_rate=None,
        validation=0.0,
        workers=0,
    )
    return config.replace(**changes)
