"""Names found among paths as they are found on disk."""

from __future__ import annotations

from partlabel.images.among import among
from partlabel.images.locate import locate


def test_names_mean_what_they_mean_on_disk(tmp_path):
    paths = ["a/one.jpg", "a/two.png", "b/One.jpg", "three.JPG", "four.jpg", "four.png"]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for path in paths:
        (tmp_path / path).touch()
    names = ["a/one.jpg", "a/ONE.JPG", "a\\two", "three", "THREE.jpg", "two.png"]
    names += ["four", "one", "none.jpg", "./four.png"]
    found = among(names, paths)
    assert found == [0, 0, 1, 3, 3, 1, -1, -1, -1, 5]
    assert [paths[row] if row >= 0 else None for row in found] == locate(names, tmp_path).files
