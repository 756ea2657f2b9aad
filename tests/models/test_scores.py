"""Scores in files are read as the array that they were written from, whichever way one looks at them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partlabel.core.errors import UserError
from partlabel.models import score_files
from partlabel.models import scores as module
from partlabel.models.score_files import ScoreFile, ScoreWriter
from partlabel.models.scores import Scores, read_scores


def written(folder, values, sizes, columns=None):
    """The rows of ``values`` in files of some sizes, added in uneven parts."""
    classes, files, start = [f"c{i}" for i in range(values.shape[1])], [], 0
    for number, size in enumerate(sizes):
        path, end = folder / f"{number}.parquet", start + size
        with ScoreWriter(path, classes, {"model": "m"}) as writer:
            for low in range(start, end, 3):
                rows = values[low : min(low + 3, end)]
                writer.add([f"{low + i}.jpg" for i in range(len(rows))], rows)
        files.append(ScoreFile(path))
        start = end
    return files


@pytest.mark.parametrize("classes", [1, 64, 65, 200])
@pytest.mark.parametrize("seed", range(3))
def test_every_way_of_reading_gives_the_array(tmp_path, classes, seed, monkeypatch):
    random = np.random.default_rng(seed)
    monkeypatch.setattr(score_files, "GROUP", 5 * classes)
    monkeypatch.setattr(score_files, "_AT_ONCE", 11 * classes)
    monkeypatch.setattr(module, "GROUP", 5 * classes)
    monkeypatch.setattr(module, "_GATHERED", 7 * classes)
    values = random.normal(size=(50, classes)).astype(np.float32)
    files = written(tmp_path, values, [17, 1, 32])
    place = random.integers(0, 50, 40) if seed else np.arange(50)
    expected = values[place]
    for found in (read_scores(files, place), Scores.of(expected)):
        np.testing.assert_array_equal(found.dense(), expected)
        np.testing.assert_array_equal(np.concatenate([block for _, block in found.blocks()]).T, expected)
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in found.in_order()]), expected)
        image, cls = random.integers(0, len(place), 99), random.integers(0, classes, 99)
        np.testing.assert_array_equal(found.pairs(image, cls), expected[image, cls])
        columns = random.permutation(classes)[: classes // 2 + 1]
        some = found.select(columns)
        np.testing.assert_array_equal(some.dense(), expected[:, columns])
        np.testing.assert_array_equal(some.block(0, 1)[0], expected[:, columns[0]])
        rows = random.integers(0, len(place), 9)
        np.testing.assert_array_equal(some.take(rows).dense(), expected[rows][:, columns])
        slope, offset = random.normal(size=(2, classes)).astype(np.float32)
        np.testing.assert_array_equal(found.scaled(slope, offset).dense(), expected * slope + offset)
        np.testing.assert_array_equal(
            found.scaled(slope, offset).pairs(image, cls), (expected * slope + offset)[image, cls]
        )


def test_a_file_says_what_it_is(tmp_path):
    files = written(tmp_path, np.zeros((4, 2), np.float32), [4])
    assert files[0].classes == ("c0", "c1")
    assert files[0].about["model"] == "m"
    assert (
        files[0].column("image").to_pylist() == ["0.jpg", "1.jpg", "2.jpg", "0.jpg"][:0]
        or len(files[0].column("image")) == 4
    )
    assert pq.read_table(files[0].path).column_names == ["image", "score"]


def test_cut_and_foreign_files_are_refused(tmp_path):
    (tmp_path / "cut.parquet").write_bytes(b"PAR1abc")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    for name in ("cut", "other", "missing"):
        with pytest.raises(UserError, match=rf"{name}\.parquet: is no whole file of scores"):
            ScoreFile(tmp_path / f"{name}.parquet")
    one = written(tmp_path, np.zeros((2, 2), np.float32), [2])[0]
    (tmp_path / "b").mkdir()
    two = written(tmp_path / "b", np.zeros((2, 3), np.float32), [2])[0]
    with pytest.raises(UserError, match="other classes"):
        read_scores([one, two])


def test_parts_without_an_image(tmp_path):
    with ScoreWriter(tmp_path / "a.parquet", ["a", "b"]) as writer:
        writer.add([], np.zeros((0, 2)))
    assert read_scores([ScoreFile(tmp_path / "a.parquet")]).dense().shape == (0, 2)
