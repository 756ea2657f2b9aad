"""Where a class is seen: by hand, against a loop over regions, and on images whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from partlabel import LabelTable, train
from partlabel.models.config import ModelConfig
from partlabel.models.model import Head, Heads, Model
from partlabel.tasks.class_maps import class_map, class_maps
from tests.pictures import make_pictures, tiny_config


def head(**config) -> Head:
    torch.manual_seed(0)
    made = Head(5, 3, ModelConfig(**config)).eval()
    made.standardise(torch.randn(5), torch.rand(5) + 0.5)
    return made


def test_averaged_linear_head_is_the_class_activation_map():
    own, features, classes = head(pooling="average"), torch.rand(2, 5, 3, 4), torch.tensor([2, 0])
    found = class_map(own, features, classes)
    weight = own.classifier.weight[:, :, 0, 0] * own.scale
    for n, c in enumerate(classes.tolist()):
        for y in range(3):
            for x in range(4):
                expected = sum(float(weight[c, d] * features[n, d, y, x]) for d in range(5)) / 12
                assert float(found[n, y, x]) == pytest.approx(expected, abs=1e-5)


def test_regions_of_a_square_root_add_up_to_half_the_score():
    """The root is homogeneous of degree 1/2: the gradient times the features is half of what they add (Euler)."""
    own, features = head(pooling="average", square_root=True), torch.rand(2, 5, 3, 4) + 0.1
    classes = torch.tensor([1, 2])
    found = class_map(own, features, classes).sum((1, 2))
    with torch.no_grad():
        nothing = own.classifier.bias - own.classifier.weight[:, :, 0, 0] @ (own.shift * own.scale)
        score = (own(features) - nothing)[[0, 1], classes]
    assert torch.allclose(found, score / 2, atol=1e-5)


def test_weldon_pools_its_map_to_the_score():
    own, features = head(pooling="weldon", k_max=0.2, k_min=0.2), torch.randn(2, 5, 4, 4)
    classes = torch.tensor([0, 2])
    found = class_map(own, features, classes)
    with torch.no_grad():
        assert own.pool is not None
        pooled = own.pool(found[:, None])[:, 0] + own.classifier.bias[classes] * (1 if own.pool.halved else 2)
        assert torch.allclose(pooled, own(features)[[0, 1], classes], atol=1e-5)


def test_several_heads_are_averaged():
    torch.manual_seed(0)
    own = Heads(5, 3, ModelConfig(pooling="average", heads=2)).eval()
    features, classes = torch.rand(1, 5, 2, 2), torch.tensor([1])
    each = [class_map(one, features, classes) for one in own.members]
    assert torch.allclose(class_map(own, features, classes), (each[0] + each[1]) / 2)


def test_no_image_is_no_map():
    model = Model(ModelConfig(backbone="test_resnet", weights="none"), ["a"], 32)
    assert len(class_maps(model, [], [])) == 0


@pytest.mark.slow
def test_a_trained_model_looks_at_the_square(tmp_path):
    table = make_pictures(tmp_path / "p", 240, size=64)
    config = tiny_config(images__size=64, optim__epochs=8, optim__batch_size=16, optim__learning_rate=0.03)
    model = train(table, images=tmp_path / "p", out=tmp_path / "run", config=config).model
    names = table.images.to_pylist()
    red = np.flatnonzero(table.dense()[:, 0] > 0)[:40]
    found = class_maps(model, [tmp_path / "p" / names[i] for i in red], np.zeros(len(red), int))
    assert isinstance(table, LabelTable)
    hits = 0
    from PIL import Image

    for i, own in zip(red, found, strict=True):
        pixels = np.asarray(Image.open(tmp_path / "p" / names[i]))
        y, x = (int(v.mean()) for v in np.nonzero(pixels[..., 0] == 255))
        side = 64 / own.shape[0]
        best = np.unravel_index(own.argmax(), own.shape)
        hits += abs((best[0] + 0.5) * side - y) <= 1.5 * side and abs((best[1] + 0.5) * side - x) <= 1.5 * side
    assert hits >= 0.7 * len(red), hits
