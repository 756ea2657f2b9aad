"""A second data set: scenes of handwritten digits, drawn by ``partlabel demo`` from what scikit-learn brings along."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.closed_form import frozen_features
from partlabel import Config, LabelTable
from partlabel.app.demo.digits import CLASSES, draw_scenes

TRAIN, TEST, SIZE = 3000, 1500, 96

Features = NDArray[np.float32]


def digit_scenes() -> tuple[Features, Features, LabelTable, LabelTable]:
    """Frozen features of training and test scenes, and all their labels; the parts share no digit image."""
    config = Config.preset("small").replace(model__backbone="tf_efficientnet_lite0", images__size=SIZE)
    features, labels = [], []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for part, count in (("train", TRAIN), ("test", TEST)):
            scenes = draw_scenes(part, count, seed=0)
            names = [f"{part}-{i:05}.jpg" for i in range(count)]
            for name, scene in zip(names, scenes, strict=True):
                (folder / name).write_bytes(scene.jpeg())
            table = LabelTable.from_dense(names, CLASSES, np.stack([scene.labels() for scene in scenes]))
            features.append(frozen_features(config, table, folder))
            labels.append(table)
    return features[0], features[1], labels[0], labels[1]
