"""The dataset for a training loop of one's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from partlabel import LabelTable, PartialBCE, PartialLabelDataset
from partlabel.core.errors import UserError


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a.png", "b.png", "c.png"):
        Image.fromarray(rng.integers(0, 256, (9, 7, 3), np.uint8)).save(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_of_ones_own(folder, workers):
    labels = LabelTable.from_dense(["c.png", "a.png", "b.png"], ["cat", "dog"], [[1, 0], [-1, 1], [0, 0]])
    transform = v2.Compose([v2.ToImage(), v2.Resize((4, 4)), v2.ToDtype(torch.float32, scale=True)])
    loader = DataLoader(PartialLabelDataset(labels, folder, transform), 3, num_workers=workers)
    ((images, targets),) = loader
    assert images.shape == (3, 3, 4, 4)
    assert targets.dtype == torch.int8
    assert targets.tolist() == [[1, 0], [-1, 1], [0, 0]]
    scores = torch.zeros(3, 2, requires_grad=True)
    PartialBCE()(scores, targets).backward()
    assert scores.grad is not None
    assert scores.grad[2].tolist() == [0, 0]


def test_pixels_are_those_of_the_file(folder):
    labels = LabelTable.from_dense(["b"], ["cat"], [[1]])
    data = PartialLabelDataset(labels, folder)
    assert len(data) == 1
    image, _ = data[0]
    assert (np.asarray(image) == np.asarray(Image.open(folder / "b.png"))).all()
    with pytest.raises(IndexError):
        data[1]


def test_missing_images_are_all_named(folder):
    labels = LabelTable.from_dense(["a.png", "x.png", "y.png"], ["cat"], [[1], [1], [0]])
    with pytest.raises(UserError) as error:
        PartialLabelDataset(labels, folder)
    assert error.value.offenders == ["x.png", "y.png"]
