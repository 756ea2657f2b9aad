"""Images of Open Images by a list."""

from __future__ import annotations

import pytest

from partlabel.app.download import download
from partlabel.app.download.pictures import read_list
from partlabel.core.errors import UserError
from tests.app.download.server import Served


def test_pictures_of_a_list(mirror, tmp_path):
    listed = [f"train/{number:016x}" for number in range(8)] + ["validation/00000000000000ff"]
    for name in listed[2:]:
        mirror.files[f"/openimages/{name}.jpg"] = Served(name.encode())
    mirror.files[f"/openimages/{listed[2]}.jpg"].script = ["cut", "500"]
    (tmp_path / "list.txt").write_text("\n".join([*listed, "", f"{listed[5]}.jpg "]) + "\n")
    done = download("openimages", tmp_path / "data", ["boxable-test"], tmp_path / "list.txt", mirror.address)
    assert done.pictures == 9
    assert done.absent == [f"{name}.jpg" for name in listed[:2]]
    assert (tmp_path / "data" / "absent.txt").read_text().split() == done.absent
    for name in listed[2:]:
        assert (tmp_path / "data" / f"{name}.jpg").read_bytes() == name.encode()
    assert "7 of 9" in done.text()
    mirror.asked.clear()
    download("openimages", tmp_path / "data", ["boxable-test"], tmp_path / "list.txt", mirror.address)
    assert {path for path, _ in mirror.asked} == {f"/openimages/{name}.jpg" for name in listed[:2]}


def test_a_list_with_other_lines(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("train/000002b66c9c498e\n000002b66c9c498e\ntrain/../../x\n")
    with pytest.raises(UserError, match="each line names one image") as caught:
        read_list(path)
    assert caught.value.offenders == [f"{path}:2 000002b66c9c498e", f"{path}:3 train/../../x"]
    path.write_bytes(b"\xff\xfet\0")
    with pytest.raises(UserError, match=r"list\.txt: cannot be read \(is not UTF-8 text\)"):
        read_list(path)
    with pytest.raises(UserError, match="nowhere"):
        read_list(tmp_path / "nowhere")
    with pytest.raises(UserError, match="belongs to openimages"):
        download("voc2007", tmp_path, pictures=path)


def test_pictures_stop_when_the_server_is_ill(mirror, tmp_path):
    mirror.files["/openimages/train/0000000000000001.jpg"] = Served(b"", script=["500"] * 99)
    (tmp_path / "list.txt").write_text("train/0000000000000001\n")
    with pytest.raises(UserError, match="500"):
        download("openimages", tmp_path / "data", ["boxable-test"], tmp_path / "list.txt", mirror.address)
