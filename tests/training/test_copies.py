"""Copies of one image stay together in every split, and what they contradict each other in is said."""

import shutil

import numpy as np
import pytest
from PIL import Image

from partlabel import LabelTable, evaluate, suspects
from partlabel.core.errors import UserError
from partlabel.images import content_hash, decode
from partlabel.images.near_copies import SIDE, fingerprint
from partlabel.training.copies import cautions, find_copies
from partlabel.training.data import lasting_split
from partlabel.training.loop import train
from partlabel.training.run import Run
from tests.pictures import make_pictures, tiny_config


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


def with_copies(folder, count=24):
    """A table in which 020 is a copy of 000, 021 a smaller one of 001, 022 one of 002 as a JPEG."""
    table = make_pictures(folder, count, size=64)
    shutil.copy(folder / "000.png", folder / "020.png")
    image = Image.open(folder / "001.png")
    image.resize((48, 48), Image.Resampling.LANCZOS).save(folder / "021.png")
    Image.open(folder / "002.png").save(folder / "022.png", "JPEG", quality=90)
    return table


def found_in(table, folder):
    paths = [folder / name for name in table.images.to_pylist()]
    contents = np.array([content_hash(path) for path in paths], "S32")
    return paths, find_copies(contents, np.stack([fingerprint(decode(path, SIDE)) for path in paths]))


def test_copies_by_bytes_and_by_looks(tmp_path):
    table = with_copies(tmp_path)
    _, found = found_in(table, tmp_path)
    first = np.arange(24)
    first[20:23] = [0, 1, 2]
    assert found.first.tolist() == first.tolist()
    assert np.flatnonzero(found.exact).tolist() == [20]
    assert np.flatnonzero(found.near).tolist() == [21, 22]
    labels = table.dense()
    labels[20:23] = labels[:3]
    labels[20, 1] *= -1
    said = cautions(LabelTable.from_dense(table.images, table.classes, labels), found)
    assert said[0].endswith(
        "1 image has the bytes of another image; they are kept together in every split: 020.png = 000.png"
    )
    assert said[1].endswith("021.png = 001.png, 022.png = 002.png")
    yes, no = ("020", "000") if labels[20, 1] > 0 else ("000", "020")
    assert said[2].endswith(f"contradict each other: green present in {yes}.png and absent in {no}.png")


def test_where_nearly_all_are_alike_nothing_is_tied(tmp_path):
    table = make_pictures(tmp_path, 10)
    picture = Image.open(tmp_path / "000.png").resize((64, 64))
    for i, name in enumerate(table.images.to_pylist()):
        picture.save(tmp_path / name, "JPEG", quality=60 + i)
    _, found = found_in(table, tmp_path)
    assert (found.first == np.arange(10)).all()
    assert found.alike == 9
    assert "give the table groups" in cautions(table, found)[0]


def test_a_training_keeps_them_together(tmp_path, capsys):
    folder = tmp_path / "photos"
    table = with_copies(folder)
    run = train(table, folder, out=tmp_path / "run", config=tiny_config(validation=0.4))
    side = dict.fromkeys(run.labels.images.to_pylist(), 0) | dict.fromkeys(run.validation.images.to_pylist(), 1)
    assert [side[f"02{i}.png"] for i in range(3)] == [side[f"00{i}.png"] for i in range(3)]
    assert dict(zip(run.all_labels.images.to_pylist(), run.all_labels.groups.to_pylist(), strict=True))["020.png"] == (
        "copies of 000.png"
    )
    said = capsys.readouterr().err
    assert "1 image has the bytes of another image" in said
    assert "2 images look like another image" in said


def test_a_copy_of_other_bytes_changes_nothing_for_the_others(tmp_path):
    table = with_copies(tmp_path)
    contents = np.array([content_hash(tmp_path / name) for name in table.images.to_pylist()], "S32")
    alone = lasting_split(table, contents, 0.4)
    names = ["copies of 000.png" if i in (0, 20) else None for i in range(24)]
    grouped = LabelTable.from_dense(table.images, table.classes, table.dense(), groups=names)
    assert (lasting_split(grouped, contents, 0.4) == alone).all()  # equal bytes fall on the same side anyway


def test_validation_images_that_look_like_trained_ones_are_said(tmp_path, capsys):
    folder = tmp_path / "photos"
    table = with_copies(folder)
    run = train(
        table.select(range(20)),
        folder,
        out=tmp_path / "run",
        config=tiny_config(),
        validation=table.select(range(21, 24)),
    )
    assert run.summary["validation_images_trained_on_by_looks"] == 2
    assert "2 validation images look like an image that is trained on" in capsys.readouterr().err


@pytest.fixture
def two_folders(tmp_path):
    """Training and validation images that have the same names and are different images."""
    one, other = make_pictures(tmp_path / "a" / "train", 16), make_pictures(tmp_path / "b" / "valid", 8, seed=1)
    return tmp_path, one, other


def test_validation_images_in_a_folder_of_their_own(two_folders):
    home, table, validation = two_folders
    config = tiny_config()
    run = train(
        table,
        home / "a" / "train",
        out=home / "run",
        config=config,
        validation=validation,
        validation_images=home / "b" / "valid",
    )
    assert run.validation.images.to_pylist() == [f"valid/{i:03}.png" for i in range(8)]
    assert run.all_labels.num_images == 24
    assert run.elsewhere == ("valid", home / "b" / "valid")
    # what the model said of them is what it says of the images in their folder
    measured = evaluate(run, validation, images=home / "b" / "valid")
    assert measured.mean_ap == pytest.approx(run.summary["best"]["validation"]["mean_ap"], abs=1e-6)
    assert suspects(Run(home / "run"), images=home / "a" / "train").checked == 72


def test_leaks_between_two_folders_are_found_by_content(two_folders):
    home, table, validation = two_folders
    shutil.copy(home / "a" / "train" / "003.png", home / "b" / "valid" / "005.png")
    labels = validation.dense()
    labels[5] = table.dense()[3]
    validation = LabelTable.from_dense(validation.images, validation.classes, labels)
    given = {"config": tiny_config(), "validation": validation, "validation_images": home / "b" / "valid"}
    with pytest.raises(UserError, match="3 of the 24 validation labels are trained on too") as caught:
        train(table, home / "a" / "train", out=home / "run", **given)
    assert caught.value.offenders[0] == "valid/005.png: red"
    with pytest.raises(UserError, match="and none is given"):
        train(table, home / "a" / "train", out=home / "run", validation_images=home / "b" / "valid")


def test_a_folder_inside_the_other_is_called_by_a_free_name(tmp_path):
    table = make_pictures(tmp_path / "photos" / "valid", 12)
    inside = LabelTable.from_dense([f"valid/{name}" for name in table.images.to_pylist()], table.classes, table.dense())
    run = train(
        inside.select(range(8)),
        tmp_path / "photos",
        out=tmp_path / "run",
        config=tiny_config(),
        validation=table.select(range(8, 12)),
        validation_images=tmp_path / "photos" / "valid",
    )
    assert run.validation.images.to_pylist()[0] == "valid-2/008.png"
    assert run.summary["validation_images_trained_on"] == 0
