import io

import numpy as np
import pytest
import torch
from PIL import Image

from partlabel.core.errors import UserError
from partlabel.images import decode
from partlabel.images.own_dataset import keep_images

NAMES = ["a.png", "inner/b.jpg", "c"]
PIXELS = np.random.default_rng(0).integers(0, 256, (3, 6, 5, 3)).astype(np.uint8)


def encoded(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


class Rows:
    """A data set with indices, which counts how often it is asked."""

    def __init__(self, make):
        self.make, self.asked = make, []

    def __len__(self):
        return 3

    def __getitem__(self, index):
        self.asked.append(index)
        return self.make(index)


WAYS = {
    "PIL": lambda i: Image.fromarray(PIXELS[i]),
    "array": lambda i: PIXELS[i],
    "tensor": lambda i: torch.from_numpy(PIXELS[i]).permute(2, 0, 1),
    "bytes": lambda i: encoded(PIXELS[i]),
    "undecoded": lambda i: {"image": {"bytes": encoded(PIXELS[i]), "path": None}},
    "pair": lambda i: (Image.fromarray(PIXELS[i]), i),
    "numbers of NumPy": lambda i: {"image": PIXELS[i], "row": np.int64(i)},
    "name": lambda i: (PIXELS[i], NAMES[i]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["indices", "iterable"])
def test_each_form_of_an_image_is_kept_under_its_name(tmp_path, way, kind):
    dataset = Rows(WAYS[way])
    if kind == "iterable":
        rows = (2, 0, 1)
        items = [WAYS[way](i) for i in rows]
        has_rows = way in ("pair", "numbers of NumPy", "name")
        plain = [item["image"] if isinstance(item, dict) else item for item in items]
        dataset = iter(items if has_rows else zip(plain, rows, strict=True))
    assert keep_images(dataset, NAMES, tmp_path / "photos") == 3
    for name, pixels in zip(NAMES, PIXELS, strict=True):
        np.testing.assert_array_equal(decode(tmp_path / "photos" / name), pixels)


def test_what_is_there_is_not_read_again(tmp_path):
    keep_images(Rows(WAYS["PIL"]), NAMES, tmp_path)
    (tmp_path / "inner" / "b.jpg").unlink()
    again, said = Rows(lambda i: WAYS["PIL"]((i + 1) % 3)), []
    assert keep_images(again, NAMES, tmp_path, lambda *done: said.append(done)) == 1
    assert sorted(set(again.asked)) == [0, 1], "the first says whether items have rows of their own"
    np.testing.assert_array_equal(decode(tmp_path / "inner" / "b.jpg"), PIXELS[2])
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), PIXELS[0])
    assert said == [(1, 3)]


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (iter([(PIXELS[0], 3)]), "row 3 of the data set is not one of the 3"),
        (iter([(PIXELS[0], "z.png")]), "images that the table does not have"),
        (iter([(PIXELS[0], None)]), "not a pair"),
        (iter([PIXELS[0]]), "item 0 of the data set is ndarray, not a pair"),
        (iter([(PIXELS[0] / 255.0, 1)]), r"image 1 \(inner/b.jpg\) of the data set has to give images"),
        (iter([{"jpg": b""}]), "has the keys jpg, and none is 'image'"),
        ([PIXELS[0]] * 4, "has 4 images, the table 3"),
        (7, "int has neither"),
    ],
)
def test_what_is_no_data_set_of_the_table_is_one_sentence(tmp_path, dataset, message):
    with pytest.raises(UserError, match=message):
        keep_images(dataset, NAMES, tmp_path / "photos")
    assert not list((tmp_path / "photos").rglob("*.*")) if (tmp_path / "photos").exists() else True


@pytest.mark.parametrize("name", ["../a.png", "/etc/a.png", "b/../../a.png", "C:\\a.png", "..\\a.png"])
def test_names_that_lead_out_are_refused(tmp_path, name):
    with pytest.raises(UserError, match="lead out"):
        keep_images([PIXELS[0]], [name], tmp_path / "photos")
