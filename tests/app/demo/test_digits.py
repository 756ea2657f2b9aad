"""Scenes of handwritten digits: what they show, and that training and testing share nothing."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from partlabel.app.demo import digits
from partlabel.app.demo.digits import CLASSES, MAX_DIGITS, ROWS, SIDE, draw_presence, draw_scenes, split_digits


def test_a_scene_depends_on_part_seed_and_number_only() -> None:
    first, again = draw_scenes("train", 4, seed=3), draw_scenes("train", 2, seed=3)
    for a, b in zip(first, again, strict=False):
        assert a.digits == b.digits
        assert a.source == b.source
        assert np.array_equal(a.pixels, b.pixels)
    other_seed, other_part = draw_scenes("train", 4, seed=4), draw_scenes("test", 4, seed=3)
    assert [s.digits for s in other_seed] != [s.digits for s in first]
    assert [s.digits for s in other_part] != [s.digits for s in first]


def test_labels_say_what_was_drawn() -> None:
    truth = load_digits().target
    for part in ("train", "test"):
        for scene in draw_scenes(part, 40, seed=0):  # type: ignore[arg-type]
            assert tuple(truth[list(scene.source)]) == scene.digits
            labels = scene.labels()
            assert labels.dtype == np.int8
            assert set(np.flatnonzero(labels == 1)) == set(scene.digits)
            assert (labels == -1).sum() == len(CLASSES) - len(scene.digits)
            assert 1 <= len(scene.digits) <= MAX_DIGITS


def test_every_digit_leaves_ink_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each digit of a scene changes many pixels of it, so that no label speaks of something that cannot be seen."""
    blank = Image.new("L", (1, 1))
    for i in range(10):
        scene = draw_scenes("train", i + 1, seed=1)[i]
        for left_out in range(len(scene.digits)):
            seen = 0
            original = digits._ink

            def one_missing(*arguments, _original=original, _left_out=left_out):  # type: ignore[no-untyped-def]
                nonlocal seen
                ink, corner = _original(*arguments)
                seen += 1
                return (blank if seen - 1 == _left_out else ink), corner

            with monkeypatch.context() as patch:
                patch.setattr(digits, "_ink", one_missing)
                without = digits.draw_scene(split_digits(1)[0], np.random.default_rng([1, 2, i]))
            changed = np.abs(without.pixels.astype(int) - scene.pixels).max(-1) > 40
            assert changed.sum() > 40


def test_training_and_test_digits_are_different_images() -> None:
    train, test = split_digits(seed=0)
    assert not set(train.source) & set(test.source)
    assert sorted([*train.source, *test.source]) == list(range(1797))
    assert not {p.tobytes() for p in train.pixels} & {p.tobytes() for p in test.pixels}
    for value in range(10):
        share = len(test.of(value)) / (len(test.of(value)) + len(train.of(value)))
        assert share == pytest.approx(1 / 3, abs=0.005)
    used = {part: {row for s in draw_scenes(part, 60, 0) for row in s.source} for part in ("train", "test")}  # type: ignore[arg-type]
    assert used["train"] <= set(train.source)
    assert used["test"] <= set(test.source)


def test_digits_of_a_row_stand_together() -> None:
    rng = np.random.default_rng(0)
    present = np.zeros((4000, 10))
    for scene in present:
        scene[draw_presence(rng)] = 1
    share = present.mean(0)
    lift = (present.T @ present / len(present)) / np.outer(share, share)
    row_of = {digit: row for row, members in enumerate(ROWS) for digit in members}
    for a in range(10):
        for b in range(a):
            if b == 0:
                assert 0.8 < lift[a, b] < 1.15
            elif row_of[a] == row_of[b]:
                assert lift[a, b] > 1.8
            else:
                assert lift[a, b] < 0.6
    assert np.all((share > 0.25) & (share < 0.37))


def test_a_scene_is_a_readable_jpeg() -> None:
    scene = draw_scenes("test", 1, seed=0)[0]
    with Image.open(io.BytesIO(scene.jpeg())) as image:
        assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (SIDE, SIDE))
        assert np.abs(np.asarray(image, int) - scene.pixels).mean() < 8
