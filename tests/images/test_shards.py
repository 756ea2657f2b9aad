"""What there is, cut into shards: a folder, a list, tar files, a bucket."""

import tarfile

import numpy as np
import pyarrow.fs
import pytest

from partlabel.core.errors import UserError
from partlabel.images.shards import Manifest, Place, cut
from tests.pictures import make_pictures


def contents(manifest, place):
    return [item for shard in range(len(manifest)) for item in manifest.images(shard, place)]


def test_a_folder_a_list_and_tar_files_hold_the_same_images(tmp_path):
    photos = tmp_path / "photos"
    make_pictures(photos, 7)
    (photos / ".hidden.png").write_bytes(b"x")
    (photos / "notes.txt").write_text("x")
    names = sorted(path.name for path in photos.glob("0*.png"))
    expected = [(name, (photos / name).read_bytes()) for name in names]
    found = cut(Place.of(photos), {}, size=3)
    assert len(found) == 3
    assert contents(found, Place.of(photos)) == expected
    listed = cut(Place.of(tmp_path), {}, [str(photos / name) for name in names], size=4)
    assert [data for _, data in contents(listed, Place.of(tmp_path))] == [data for _, data in expected]
    tars = tmp_path / "tars"
    tars.mkdir()
    for number, some in enumerate((names[:4], names[4:])):
        with tarfile.open(tars / f"{number}.tar", "w") as tar:
            for name in some:
                tar.add(photos / name, name)
            tar.add(photos / "notes.txt", "notes.txt")
    many = cut(Place.of(tars), {})
    assert len(many) == 2
    assert [data for _, data in contents(many, Place.of(tars))] == [data for _, data in expected]
    assert [name for name, _ in contents(many, Place.of(tars))][:2] == ["0/000.png", "0/001.png"]
    one = cut(Place.of(tars / "0.tar"), {})
    assert contents(one, Place.of(tars / "0.tar")) == expected[:4]
    (tars / "1.tar").write_bytes((tars / "1.tar").read_bytes()[:3000])
    with pytest.raises(UserError, match=r"1\.tar: is no whole tar file"):
        contents(many, Place.of(tars))


@pytest.mark.parametrize(("count", "size"), [(1, 10), (10, 10), (11, 10), (9, 1)])
def test_a_manifest_is_read_as_it_was_written(tmp_path, count, size):
    names = [f"{i:02}.jpg" for i in range(count)]
    made = cut(Place.of(tmp_path), {"model": "m"}, names, size)
    made.write(tmp_path / "manifest.parquet")
    read = Manifest.read(tmp_path / "manifest.parquet", "manifest")
    assert (read.source, read.form, dict(read.about)) == (str(tmp_path), "files", {"model": "m"})
    assert read.names.to_pylist() == names
    np.testing.assert_array_equal(read.start, made.start)
    assert len(read) == -(-count // size)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(UserError, match="no image and no tar file"):
        cut(Place.of(tmp_path), {})
    with pytest.raises(UserError, match="is no address of a bucket"):
        Place.of("nonsense://bucket/photos")
    (tmp_path / "m").write_bytes(b"no parquet")
    with pytest.raises(UserError, match="is no whole manifest"):
        Manifest.read(tmp_path / "m", "m")
    missing = cut(Place.of(tmp_path), {}, ["gone.jpg"])
    with pytest.raises(UserError, match=r"gone\.jpg: cannot be read"):
        contents(missing, Place.of(tmp_path))


def test_an_address_may_lack_a_slash_as_paths_do():
    for slashes in ("/", "//"):
        place = Place.of(f"s3:{slashes}bucket/photos?region=us-east-1&endpoint_override=localhost:1")
        assert isinstance(place.files, pyarrow.fs.S3FileSystem)
        assert (place.path, place.text, place.is_local) == ("bucket/photos", "s3://bucket/photos", False)
