"""Pictures come from the folder of the pictures and from nowhere else."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from partlabel.app.review.app import make_app
from partlabel.app.review.pictures import PHOTO, THUMBNAIL, NoPictureError, Pictures
from partlabel.core.errors import UserError
from partlabel.labels.table import LabelTable
from tests.app.review.made import make_run

SECRET = "this is a secret"


@pytest.fixture
def folder(tmp_path):
    """Pictures inside, and outside a secret text and a secret picture."""
    inside = tmp_path / "photos"
    (inside / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text(SECRET)
    Image.new("RGB", (40, 30), "red").save(tmp_path / "secret.png")
    Image.new("RGB", (40, 30), "green").save(inside / "good.png")
    Image.new("RGB", (40, 30), "green").save(inside / "sub" / "deep.png")
    (tmp_path / "photos-of-others").mkdir()
    Image.new("RGB", (40, 30), "red").save(tmp_path / "photos-of-others" / "x.png")
    return inside


def show(folder, name, tmp_path, side=PHOTO):
    pictures = Pictures([name], folder, tmp_path / "cache")
    return pictures.jpeg(0, pictures.find(0, side))


def opened(data):
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize("name", ["good.png", "sub/deep.png", "./good.png", "sub/../good.png", "GOOD.PNG", "good"])
def test_pictures_inside_are_shown(folder, tmp_path, name):
    assert opened(show(folder, name, tmp_path)).size == (40, 30)


@pytest.mark.parametrize(
    "name",
    [
        "../secret.png",
        "sub/../../secret.png",
        "../photos-of-others/x.png",
        "//../secret.png",
        "/etc/passwd",
        "../secret.txt",
    ],
)
def test_names_that_lead_outside_are_not_shown(folder, tmp_path, name):
    with pytest.raises(NoPictureError, match=r"lies outside|no such picture") as caught:
        show(folder, name, tmp_path)
    assert str(tmp_path) not in str(caught.value)


def test_an_absolute_name_is_not_shown(folder, tmp_path):
    with pytest.raises(NoPictureError, match=r"lies outside|no such picture"):
        show(folder, str(tmp_path / "secret.png"), tmp_path)


def test_links_that_lead_outside_are_not_shown(folder, tmp_path):
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "hop.png").symlink_to("link.png")
    (folder / "door").symlink_to(tmp_path / "photos-of-others")
    (folder / "inside.png").symlink_to("good.png")
    for name in ("link.png", "hop.png", "door/x.png"):
        with pytest.raises(NoPictureError, match="lies outside"):
            show(folder, name, tmp_path)
    assert opened(show(folder, "inside.png", tmp_path)).size == (40, 30)


def test_a_link_made_while_the_server_runs_is_not_followed(folder, tmp_path):
    pictures = Pictures(["good.png"], folder, tmp_path / "cache")
    pictures.jpeg(0, pictures.find(0, PHOTO))
    (folder / "good.png").unlink()
    (folder / "good.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(NoPictureError, match="lies outside"):
        pictures.find(0, PHOTO)
    (folder / "good.png").unlink()
    with pytest.raises(NoPictureError, match="no such picture"):
        pictures.find(0, PHOTO)


def test_the_folder_itself_may_be_a_link(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert opened(show(tmp_path / "link", "good.png", tmp_path)).size == (40, 30)


def test_a_pipe_is_not_waited_for(folder, tmp_path):
    os.mkfifo(folder / "pipe.png")
    with pytest.raises(NoPictureError, match="not a regular file"):
        show(folder, "pipe.png", tmp_path)
    assert Pictures(["pipe.png"], folder, tmp_path).size(0) is None


def test_a_picture_is_shown_although_its_thumbnail_cannot_be_kept(folder, tmp_path):
    (tmp_path / "cache").write_text("no folder")
    assert opened(show(folder, "good.png", tmp_path, THUMBNAIL)).size == (40, 30)


def test_sizes(folder, tmp_path):
    Image.new("RGB", (3000, 1000), "blue").save(folder / "wide.jpg")
    assert opened(show(folder, "wide.jpg", tmp_path)).size == (1600, 533)
    assert opened(show(folder, "wide.jpg", tmp_path, THUMBNAIL)).size == (256, 85)
    assert opened(show(folder, "good.png", tmp_path, THUMBNAIL)).size == (40, 30)  # never larger than it is


def test_pictures_are_upright_and_carry_no_place_or_camera(folder, tmp_path):
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "Camera of a person"
    Image.new("RGB", (40, 30), "blue").save(folder / "turned.jpg", exif=exif)
    data = show(folder, "turned.jpg", tmp_path)
    assert opened(data).size == (30, 40)
    assert b"Camera" not in data
    assert Pictures(["turned.jpg"], folder, tmp_path).size(0) == (30, 40)


def test_thumbnails_are_kept_until_the_picture_changes(folder, tmp_path, monkeypatch):
    pictures = Pictures(["good.png"], folder, tmp_path / "cache")
    first = pictures.find(0, THUMBNAIL)
    data = pictures.jpeg(0, first)
    with monkeypatch.context() as patched:
        patched.setattr("partlabel.app.review.pictures.decode", None)
        assert pictures.jpeg(0, pictures.find(0, THUMBNAIL)) == data
    Image.new("RGB", (44, 30), "red").save(folder / "good.png")
    second = pictures.find(0, THUMBNAIL)
    assert second.tag != first.tag
    assert opened(pictures.jpeg(0, second)).size == (44, 30)


@pytest.mark.parametrize("content", [b"", b"<script>alert(1)</script>", b"\xff\xd8\xff\xe0cut"])
def test_what_is_no_picture_is_never_sent(folder, tmp_path, content):
    (folder / "bad.jpg").write_bytes(content)
    with pytest.raises(NoPictureError) as caught:
        show(folder, "bad.jpg", tmp_path)
    assert str(tmp_path) not in str(caught.value)
    assert Pictures(["bad.jpg"], folder, tmp_path).size(0) is None


def test_missing_pictures_are_all_named_at_the_start(tmp_path):
    table = LabelTable.from_dense(["a.png", "b.png", "c.png"], ["x"], [[1], [0], [-1]])
    made = make_run(tmp_path, table, np.zeros((3, 1), np.float32))
    (made.images / "a.png").unlink()
    (made.images / "c.png").unlink()
    with pytest.raises(UserError, match="2 of 3 images missing") as caught:
        made.open()
    assert caught.value.offenders == ["a.png", "c.png"]


def test_over_http(folder, tmp_path):
    (folder / "bad.jpg").write_bytes(b"no picture")
    table = LabelTable.from_dense(["good.png", "bad.jpg", "../secret.png"], ["x"], [[1], [0], [-1]])
    desk = make_run(tmp_path, table, np.zeros((3, 1), np.float32), folder).open()
    client = TestClient(make_app(desk), base_url="http://localhost:1")
    good = client.get("/thumbnail/0")
    assert (good.status_code, good.headers["content-type"]) == (200, "image/jpeg")
    assert good.headers["cache-control"].startswith("private")
    again = client.get("/thumbnail/0", headers={"If-None-Match": good.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/photo/0").headers["etag"] != good.headers["etag"]
    for path in ("/thumbnail/1", "/photo/1", "/thumbnail/2", "/photo/2", "/photo/3", "/photo/-1", "/photo/1e3"):
        bad = client.get(path)
        assert (bad.status_code, list(bad.json())) == (404, ["error"]), path
        assert bad.json()["error"].endswith(".")
        assert "image" not in bad.headers["content-type"]
        assert str(tmp_path) not in bad.text
    assert client.get("/api/picture/1").json()["width"] is None
