import numpy as np
import pytest
import torch

from partlabel.images.mixing import Mixing, boxes, draw_mixing
from tests.reference import mixing as reference


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
def test_images_are_mixed_as_in_the_loop(kind, seed):
    rng = np.random.default_rng(seed)
    count, channels, height, width = rng.integers(1, [8, 5, 12, 12])
    images = rng.integers(0, 256, (count, channels, height, width)).astype(np.uint8)
    mixing = draw_mixing(kind, 0.7, seed, epoch=3, images=rng.permutation(100)[:count])
    mixed, _, share = mixing.images(torch.from_numpy(images))
    if kind == "mixup":
        np.testing.assert_allclose(mixed.numpy(), reference.mixup(images, mixing.share.numpy()), rtol=1e-5)
        torch.testing.assert_close(share, mixing.share)
    else:
        expected, left = reference.cutmix(images, mixing.share.double().numpy(), mixing.corner.numpy())
        np.testing.assert_array_equal(mixed.numpy(), expected)
        np.testing.assert_allclose(share.numpy(), left, rtol=1e-6)


def test_two_images_by_hand():
    images = torch.tensor([10.0, 30.0]).view(2, 1, 1, 1)
    mixing = Mixing(torch.tensor([1, 0]), torch.tensor([0.75, 0.75]), None)
    assert mixing.images(images)[0].flatten().tolist() == [15.0, 25.0]
    # sides sqrt(0.25) of 4 pixels: 2 x 2 around row 2, column 1; at the corner a quarter of it is left
    box = boxes(torch.tensor([0.75, 0.75]), torch.tensor([[0.5, 0.25], [0.0, 0.0]]), 4, 4)
    assert box[0].nonzero().tolist() == [[1, 0], [1, 1], [2, 0], [2, 1]]
    assert box[1].nonzero().tolist() == [[0, 0]]


def test_an_image_without_a_partner_stays():
    for kind in ("mixup", "cutmix"):
        images = torch.arange(3 * 16.0).view(3, 1, 4, 4)
        mixed, _, share = draw_mixing(kind, 1.0, 0, 0, np.array([5, 2, 9])).images(images)
        assert torch.equal(mixed[2], images[2])
        assert share[2] == 1


def test_a_draw_depends_on_seed_epoch_and_pair_alone():
    def share(*arguments):
        return draw_mixing("mixup", 1.0, *arguments).share.tolist()

    whole = share(0, 1, np.array([4, 7, 2, 3]))
    assert whole[2:] == share(0, 1, np.array([2, 3]))
    assert whole != share(0, 2, np.array([4, 7, 2, 3]))
    assert whole != share(1, 1, np.array([4, 7, 2, 3]))
    assert whole[0] == whole[1] != whole[2]
    shares = [share(-3, epoch, np.array([1, 2]))[0] for epoch in range(400)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.06)
