"""Near-copies: the same image in another encoding, size or border, and nothing else."""

import io

import numpy as np
import pytest
from PIL import Image

from partlabel.images import check, decode
from partlabel.images.near_copies import BYTES, SIDE, fingerprint, near_copies


def scene(seed, size=(160, 120)):
    """Smooth blobs in colour, different for each seed."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[: size[1], : size[0]] / max(size)
    pixels = np.zeros((size[1], size[0], 3))
    for _ in range(12):
        at, wide = random.random(2), random.uniform(0.05, 0.25)
        pixels += np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / wide**2)[..., None] * random.uniform(-90, 130, 3)
    return Image.fromarray(np.clip(110 + pixels, 0, 255).astype(np.uint8))


def written(image, format="JPEG", **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return np.asarray(Image.open(io.BytesIO(file.getvalue())).convert("RGB"))


def pairs_of(*images):
    return near_copies(np.stack([fingerprint(np.asarray(image)) for image in images]))


@pytest.fixture(scope="module")
def others():
    return [scene(seed) for seed in range(100, 130)]


def cropped(image, share):
    width, height = image.size
    return image.crop((round(share * width), 0, width, round((1 - share) * height)))


@pytest.mark.parametrize(
    "change",
    [
        lambda image: written(image, quality=30),
        lambda image: written(image, "PNG"),
        lambda image: written(image, "WEBP", quality=50),
        lambda image: image.resize((80, 60)),
        lambda image: image.resize((400, 300)),
        lambda image: image.resize((128, 128)),
        lambda image: cropped(image, 0.02),
    ],
    ids=["jpeg", "png", "webp", "smaller", "larger", "square", "cropped"],
)
def test_a_changed_copy_is_found(others, change):
    for seed in range(5):
        image = scene(seed)
        assert pairs_of(image, *others, change(image)) == [(len(others) + 1, 0)]


def test_different_images_are_not(others):
    assert pairs_of(*others) == []


def test_other_colours_are_another_image(others):
    image = np.asarray(others[0])
    assert pairs_of(image, image[..., [2, 0, 1]]) == []


def test_images_of_one_colour_are_no_copies():
    assert pairs_of(*(np.full((50, 50, 3), value, np.uint8) for value in (0, 0, 128, 128))) == []


def test_no_chains_and_no_end_of_time(others):
    """Each copy belongs to one that is itself no copy, also among many that are alike."""
    width = 160
    frames = [scene(3, (width, 120)).crop((i, 0, i + 100, 120)) for i in range(40)]
    pairs = pairs_of(*frames)
    copies = {i for i, _ in pairs}
    assert 20 < len(pairs) < 40
    assert not copies & {k for _, k in pairs}
    same = pairs_of(*[scene(0)] * 300)
    assert same == [(i, 0) for i in range(1, 300)]


def test_nothing_to_compare():
    assert near_copies(np.zeros((0, BYTES), np.uint8)) == []
    assert pairs_of(scene(0)) == []


def test_the_check_makes_the_fingerprints(tmp_path):
    paths = [tmp_path / name for name in ("a.jpg", "bad.jpg", "b.png")]
    scene(1, (640, 480)).save(paths[0], quality=95)
    paths[1].write_bytes(b"nothing")
    scene(1, (640, 480)).save(paths[2])
    found = check(paths, with_prints=True)
    assert found.prints.shape == (3, BYTES)
    assert (found.prints[0] == fingerprint(decode(paths[0], SIDE))).all()
    assert not found.prints[1].any()
    assert near_copies(found.prints) == [(2, 0)]
    assert check(paths).prints is None
