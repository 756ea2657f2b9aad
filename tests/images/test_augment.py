import random

import numpy as np
import pytest
import torch
from PIL import Image

from partlabel.core.errors import UserError
from partlabel.images import load, make_loader
from partlabel.images.augment import AugmentedImages, OwnTransform, as_pixels, augmentation, drawing, fitted


@pytest.fixture
def paths(tmp_path):
    """Images whose red value is the row and whose green value is the column, in thousandths."""
    y, x = np.mgrid[0:200, 0:160]
    pixels = np.stack([y, x, np.full_like(x, 90)], 2).astype(np.uint8)
    found = [tmp_path / f"{i}.png" for i in range(5)]
    for i, path in enumerate(found):
        Image.fromarray(np.roll(pixels, 10 * i, 2)).save(path)
    return found


def test_without_anything_it_is_the_one_preprocessing(paths):
    images = AugmentedImages(paths, 64, augmentation(64), seed=0, epoch=0)
    for i, path in enumerate(paths):
        assert torch.equal(images[i][0], load(path, 64))


@pytest.mark.parametrize("settings", [{"crop": 0.3}, {"colour": 0.4}, {"policy": "trivial"}, {"policy": "rand"}])
def test_images_depend_on_seed_epoch_and_number_alone(paths, settings):
    def pixels(workers=0, seed=3, epoch=1):
        images = AugmentedImages(paths, 48, augmentation(48, **settings), seed=seed, epoch=epoch)
        return torch.cat([batch for batch, _ in make_loader(images, [[0, 1], [4], [2, 3]], workers)])

    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = pixels()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert torch.equal(first, pixels(workers=2))
    assert not torch.equal(first, pixels(epoch=2))
    assert not torch.equal(first, pixels(seed=4))
    assert (first.dtype, first.shape) == (torch.uint8, (5, 3, 48, 48))


@pytest.mark.parametrize("crop", [0.2, 0.6])
def test_a_crop_keeps_its_share_and_fills_the_image(paths, crop):
    shares = []
    for epoch in range(40):
        image = AugmentedImages(paths[:1], 64, augmentation(64, crop=crop), seed=0, epoch=epoch)[0][0].float()
        high, wide = (float(image[c].max() - image[c].min()) for c in (0, 1))
        shares.append(high / 200 * wide / 160)
    assert min(shares) > crop * 0.85
    assert min(shares) < crop * 1.4
    assert max(shares) > 0.8


def test_colours_change_and_places_do_not(paths):
    plain = load(paths[0], 64).float()
    image = AugmentedImages(paths[:1], 64, augmentation(64, colour=0.4), seed=0, epoch=0)[0][0].float()
    assert not torch.equal(image, plain)
    for axis, channel in ((1, 0), (0, 1)):
        profile = image[channel].mean(axis)
        assert (profile.diff() >= -1).all()


def test_a_transform_of_ones_own_may_draw_from_everywhere(paths):
    def own(image):
        assert (image.mode, image.size) == ("RGB", (160, 200))
        tone = int(random.random() * 50) + int(np.random.random() * 50) + int(torch.rand(()) * 50)  # noqa: NPY002
        return Image.new("RGB", (8, 8), (tone, 0, 0))

    def tones():
        images = AugmentedImages(paths, 16, OwnTransform(own), seed=0, epoch=0)
        return [images[i][0][0, 0, 0].item() for i in range(5)]

    random.seed(1)
    first, after = tones(), random.random()
    assert len(set(first)) > 1
    random.seed(1)
    assert random.random() == after, "the draws of the program itself are not touched"
    assert tones() == first


def test_what_a_transform_may_give():
    tensor = torch.arange(3 * 4 * 5, dtype=torch.uint8).view(3, 4, 5)
    array = tensor.permute(1, 2, 0).numpy()
    for made in (tensor, array, Image.fromarray(array)):
        assert torch.equal(as_pixels(made, "it"), tensor)
    for made in (tensor[:1], tensor[0].numpy(), Image.fromarray(tensor[0].numpy())):
        assert torch.equal(as_pixels(made, "it"), tensor[:1].expand(3, -1, -1))
    assert fitted(tensor, 7).shape == (3, 7, 7)
    for wrong in (tensor.float(), tensor[0], array.transpose(2, 0, 1), None, np.zeros((2, 2, 4), np.uint8)):
        with pytest.raises(UserError, match="it has to give images"):
            as_pixels(wrong, "it")


def test_drawing_takes_negative_seeds_and_puts_the_state_back():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with drawing(-1, 2):
        first = torch.rand(2)
    with drawing(-1, 2):
        assert torch.equal(first, torch.rand(2))
    assert torch.equal(before, torch.get_rng_state())
