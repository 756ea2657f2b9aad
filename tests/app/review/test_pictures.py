"""Images come from the folder of the images and from nowhere else."""

from __future__ import annotations

import io
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from partlabel.app.review.app import REVIEW, make_app
from partlabel.app.review.pictures import PHOTO, THUMBNAIL, ChangedError, NoPictureError, Pictures
from partlabel.core.errors import UserError
from partlabel.core.files import machine
from partlabel.images import decode, resolve
from partlabel.images.contents import known_contents
from partlabel.labels.table import LabelTable
from tests.app.review.made import make_run

SECRET = "this is a secret"


@pytest.fixture
def folder(tmp_path):
    """Images inside, and outside a secret text and a secret image."""
    inside = tmp_path / "photos"
    (inside / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text(SECRET)
    Image.new("RGB", (40, 30), "red").save(tmp_path / "secret.png")
    Image.new("RGB", (40, 30), "green").save(inside / "good.png")
    Image.new("RGB", (40, 30), "green").save(inside / "sub" / "deep.png")
    (tmp_path / "photos-of-others").mkdir()
    Image.new("RGB", (40, 30), "red").save(tmp_path / "photos-of-others" / "x.png")
    return inside


def opened_folder(folder, name, tmp_path):
    """The images of a table with this one, as the review opens them."""
    paths = resolve([name], folder)
    return Pictures([name], paths, known_contents(paths, tmp_path / "contents.npy"), [folder], tmp_path / "cache")


def show(folder, name, tmp_path, side=PHOTO):
    pictures = opened_folder(folder, name, tmp_path)
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
    with pytest.raises(UserError, match="1 image names lead out of the image folder") as caught:
        show(folder, name, tmp_path)
    assert caught.value.offenders == [name]


def test_an_absolute_name_is_refused(folder, tmp_path):
    with pytest.raises(UserError, match="lead out of"):
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
    pictures = opened_folder(folder, "good.png", tmp_path)
    pictures.jpeg(0, pictures.find(0, PHOTO))
    (folder / "good.png").unlink()
    (folder / "good.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(NoPictureError, match="lies outside"):
        pictures.find(0, PHOTO)
    (folder / "good.png").unlink()
    with pytest.raises(NoPictureError, match="no such image"):
        pictures.find(0, PHOTO)


def test_the_folder_itself_may_be_a_link(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert opened(show(tmp_path / "link", "good.png", tmp_path)).size == (40, 30)


def test_a_pipe_is_not_waited_for(folder, tmp_path):
    pictures = opened_folder(folder, "good.png", tmp_path)
    (folder / "good.png").unlink()
    os.mkfifo(folder / "good.png")
    with pytest.raises(NoPictureError, match="not a regular file"):
        pictures.find(0, PHOTO)
    assert pictures.size(0) is None


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
    assert opened_folder(folder, "turned.jpg", tmp_path).size(0) == (30, 40)


def test_thumbnails_are_kept_for_a_content_and_no_other(folder, tmp_path, monkeypatch):
    pictures = opened_folder(folder, "good.png", tmp_path)
    data = pictures.jpeg(0, pictures.find(0, THUMBNAIL))
    with monkeypatch.context() as patched:
        patched.setattr("partlabel.app.review.pictures.decode", None)
        assert pictures.jpeg(0, pictures.find(0, THUMBNAIL)) == data
    Image.new("RGB", (44, 30), "red").save(folder / "good.png")
    with pytest.raises(ChangedError):
        pictures.find(0, THUMBNAIL)
    again = opened_folder(folder, "good.png", tmp_path)
    assert opened(again.jpeg(0, again.find(0, THUMBNAIL))).size == (44, 30)


def test_an_image_exchanged_while_it_is_decoded_is_not_kept(folder, tmp_path, monkeypatch):
    pictures = opened_folder(folder, "good.png", tmp_path)

    def decode_late(path, *args, **options):
        Image.new("RGB", (44, 30), "red").save(folder / "good.png")
        return decode(path, *args, **options)

    monkeypatch.setattr("partlabel.app.review.pictures.decode", decode_late)
    found = pictures.find(0, THUMBNAIL)
    with pytest.raises(ChangedError):
        pictures.jpeg(0, found)
    assert not list((tmp_path / "cache").rglob("*.jpg"))


def test_many_threads_ask_for_one_thumbnail_and_none_is_empty(folder, tmp_path):
    pictures = opened_folder(folder, "good.png", tmp_path)
    with ThreadPoolExecutor(16) as pool:
        for _ in range(20):
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)
            data = list(pool.map(lambda _: pictures.jpeg(0, pictures.find(0, THUMBNAIL)), range(16)))
            assert len(set(data)) == 1
            assert opened(data[0]).size == (40, 30)


@pytest.mark.parametrize("content", [b"", b"<script>alert(1)</script>", b"\xff\xd8\xff\xe0cut"])
def test_what_is_no_picture_is_never_sent(folder, tmp_path, content):
    (folder / "bad.jpg").write_bytes(content)
    with pytest.raises(NoPictureError) as caught:
        show(folder, "bad.jpg", tmp_path)
    assert str(tmp_path) not in str(caught.value)
    assert opened_folder(folder, "bad.jpg", tmp_path).size(0) is None


def test_missing_pictures_are_all_named_at_the_start(tmp_path):
    table = LabelTable.from_dense(["a.png", "b.png", "c.png"], ["x"], [[1], [0], [-1]])
    made = make_run(tmp_path, table, np.zeros((3, 1), np.float32))
    (made.images / "a.png").unlink()
    (made.images / "c.png").unlink()
    with pytest.raises(UserError, match="2 of 3 images missing") as caught:
        made.open()
    assert caught.value.offenders == ["a.png", "c.png"]


def test_over_http(folder, tmp_path):
    (folder / "bad.jpg").write_bytes(b"no image")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    table = LabelTable.from_dense(["good.png", "bad.jpg", "link.png"], ["x"], [[1], [0], [-1]])
    desk = make_run(tmp_path, table, np.zeros((3, 1), np.float32), folder).open()
    client = TestClient(make_app(desk), base_url="http://localhost:1", headers={REVIEW: desk.identity})
    thumbnail, photo = (
        [f"/{kind}/{desk.pictures.content(i)}/{i}" for i in range(3)] for kind in ("thumbnail", "photo")
    )
    good = client.get(thumbnail[0])
    assert (good.status_code, good.headers["content-type"]) == (200, "image/jpeg")
    assert good.headers["cache-control"].startswith("private")
    again = client.get(thumbnail[0], headers={"If-None-Match": good.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(photo[0]).headers["etag"] != good.headers["etag"]
    for path in (*thumbnail[1:], *photo[1:], photo[0][:-1] + "3", photo[0][:-1] + "-1", photo[0] + "e3"):
        bad = client.get(path)
        assert (bad.status_code, list(bad.json())) == (404, ["error"]), path
        assert bad.json()["error"].endswith(".")
        assert "image" not in bad.headers["content-type"]
        assert str(tmp_path) not in bad.text
    assert client.get("/api/picture/1").json()["width"] is None


def test_a_table_whose_names_lead_out_is_not_opened(folder, tmp_path):
    table = LabelTable.from_dense(["good.png", "../secret.png"], ["x"], [[1], [0]])
    with pytest.raises(UserError, match="1 image names lead out"):
        make_run(tmp_path, table, np.zeros((2, 1), np.float32), folder)


def test_what_a_killed_server_left_of_a_thumbnail_is_gone_at_the_next_start(made):
    made.open().close()
    kept = made.run / "review" / "cache" / "thumbnails" / "ab"
    kept.mkdir(parents=True, exist_ok=True)
    left = kept / f".x.jpg.{machine()}-999999999-0123456789ab.tmp"
    left.touch()
    made.open().close()
    assert not left.exists()
