"""Whole data sets from a mirror."""

from __future__ import annotations

import pytest

from partlabel.app.download import DATASETS, download, sources
from partlabel.core.errors import UserError
from tests.app.download.archives import names
from tests.app.download.server import BODY, left
from tests.app.download.small import NUS, ROWS, VOC


def test_voc2007_is_one_folder(mirror, tmp_path):
    done = download("voc2007", tmp_path / "data", mirror=mirror.address)
    assert [file["checked"] for file in done.files] == ["published checksum"] * 2
    assert left(tmp_path / "data" / "VOCdevkit" / "VOC2007" / "JPEGImages") == ["000001.jpg", "000005.jpg"]
    lists = left(tmp_path / "data" / "VOCdevkit" / "VOC2007" / "ImageSets" / "Main")
    assert lists == ["cat_test.txt", "cat_trainval.txt", "test.txt", "trainval.txt"]


def test_what_is_here_is_not_fetched_again(mirror, tmp_path):
    download("voc2007", tmp_path, mirror=mirror.address)
    before = (tmp_path / "VOCdevkit").stat().st_ino
    mirror.asked.clear()
    done = download("voc2007", tmp_path, mirror=mirror.address)
    assert mirror.asked == []
    assert [file["state"] for file in done.files] == ["here already"] * 2
    assert [file["address"] for file in done.files] == [f"{mirror.address}/voc2007/{name}" for name in VOC]
    assert (tmp_path / "VOCdevkit").stat().st_ino == before


def test_archives_may_be_deleted(mirror, tmp_path):
    download("voc2007", tmp_path, mirror=mirror.address)
    for name in VOC:
        (tmp_path / name).unlink()
    mirror.asked.clear()
    done = download("voc2007", tmp_path, mirror=mirror.address)
    assert mirror.asked == []
    assert [file["state"] for file in done.files] == ["unpacked already"] * 2


def test_what_is_missing_from_the_folder_is_unpacked_again(mirror, tmp_path):
    download("voc2007", tmp_path, mirror=mirror.address)
    lost = tmp_path / "VOCdevkit" / "VOC2007" / "JPEGImages" / "000005.jpg"
    lost.write_bytes(b"")
    download("voc2007", tmp_path, mirror=mirror.address)
    assert lost.read_bytes() == BODY[:50_000]


def test_a_file_that_is_here_and_wrong_is_put_aside(mirror, tmp_path):
    (tmp_path / "VOCtest_06-Nov-2007.tar").write_bytes(b"half of it")
    download("voc2007", tmp_path, ["test"], mirror=mirror.address)
    assert (tmp_path / "VOCtest_06-Nov-2007.tar.bad").read_bytes() == b"half of it"
    assert (tmp_path / "VOCdevkit" / "VOC2007" / "JPEGImages" / "000001.jpg").is_file()


def test_parts(mirror, tmp_path):
    download("coco2014", tmp_path, ["annotations", "val"], mirror=mirror.address)
    assert {"annotations", "val2014"} <= set(left(tmp_path))
    assert "train2014" not in left(tmp_path)
    with pytest.raises(UserError, match="annotations, train, val") as caught:
        download("coco2014", tmp_path, ["trian", "test", "val"], mirror=mirror.address)
    assert caught.value.offenders == ["trian", "test"]


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ([], {f"{split}-annotations-human-imagelabels-boxable.csv" for split in ("train", "validation", "test")}),
        (["human"], {f"oidv7-{split}-annotations-human-imagelabels.csv" for split in ("train", "val", "test")}),
        (["machine-validation"], {"oidv7-val-annotations-machine-imagelabels.csv"}),
    ],
)
def test_openimages_labels(mirror, tmp_path, parts, wanted):
    done = download("openimages", tmp_path, parts, mirror=mirror.address)
    described = {"oidv7-class-descriptions.csv", "oidv7-class-descriptions-boxable.csv"}
    assert {file["name"] for file in done.files} == wanted | described
    assert {file["checked"] for file in done.files} == {"size"}


def test_a_file_without_a_published_checksum_is_known_by_the_one_that_was_noted(mirror, tmp_path):
    download("openimages", tmp_path, ["human-test"], mirror=mirror.address)
    file = tmp_path / "oidv7-test-annotations-human-imagelabels.csv"
    file.write_bytes(b"changed")
    download("openimages", tmp_path, ["human-test"], mirror=mirror.address)
    assert file.read_bytes() == ROWS % b"verification"
    assert (tmp_path / f"{file.name}.bad").read_bytes() == b"changed"


def test_nuswide_lists_have_a_folder_each(mirror, tmp_path):
    download("nuswide-lists", tmp_path, mirror=mirror.address)
    found = names(tmp_path)
    assert "Groundtruth/AllLabels/Labels_sky.txt" in found
    assert "ImageList/Imagelist.txt" in found
    assert "ConceptsList/Concepts81.txt" in found


def test_nuswide_by_hand(mirror, tmp_path):
    for name in NUS:
        del mirror.files[f"/nuswide-lists/{name}"]
    with pytest.raises(UserError, match=r"404.*yourself first .*web.archive.org") as caught:
        download("nuswide-lists", tmp_path, mirror=mirror.address)
    assert caught.value.offenders == [f"{mirror.address}/nuswide-lists/{name} -> {tmp_path / name}" for name in NUS]
    for name, body in NUS.items():
        (tmp_path / name).write_bytes(body)
    done = download("nuswide-lists", tmp_path, mirror=mirror.address)
    assert [(file["state"], file["checked"], file["address"]) for file in done.files] == [
        ("here already", "nothing", None)
    ] * 3
    assert (tmp_path / "Groundtruth" / "AllLabels" / "Labels_sky.txt").is_file()


def test_a_damaged_archive_without_a_checksum_is_fetched_anew_the_next_time(mirror, tmp_path):
    mirror.files["/nuswide-lists/ImageList.zip"].script = ["wrong"]
    with pytest.raises(UserError, match=r"ImageList.zip: is damaged.*ImageList.zip.bad"):
        download("nuswide-lists", tmp_path, ["images"], mirror=mirror.address)
    download("nuswide-lists", tmp_path, ["images"], mirror=mirror.address)
    assert (tmp_path / "ImageList" / "Imagelist.txt").is_file()


def test_no_network_names_every_address_and_where_the_file_goes(mirror, tmp_path):
    for name in VOC:
        mirror.files[f"/voc2007/{name}"].script = ["500"] * 99
    with pytest.raises(UserError, match="yourself first:") as caught:
        download("voc2007", tmp_path, mirror=mirror.address)
    assert caught.value.offenders == [f"{mirror.address}/voc2007/{name} -> {tmp_path / name}" for name in VOC]


def test_two_processes_do_not_share_a_folder(mirror, tmp_path):
    from filelock import FileLock

    with FileLock(tmp_path / ".download.lock"), pytest.raises(UserError, match="another process"):
        download("voc2007", tmp_path, mirror=mirror.address)


@pytest.mark.parametrize(
    "address", ["", "mirror.example", "file:///etc", "ftp://127.0.0.1/x", "http://", "http://a b", "http://a:x"]
)
def test_a_mirror_is_a_web_address(tmp_path, address):
    with pytest.raises(UserError, match="http://"):
        download("voc2007", tmp_path / "data", mirror=address)
    assert not (tmp_path / "data").exists()


def test_the_real_addresses_and_checksums_are_well_formed():
    for dataset in DATASETS.values():
        assert len({file.name for file in dataset.files}) == len(dataset.files)
        assert dataset.select(dataset.default)
        for file in dataset.files:
            assert file.address.startswith(("https://", "http://images.cocodataset.org/"))
            assert file.md5 is None or (len(file.md5) == 32 and int(file.md5, 16) >= 0)
            assert (file.tree is None) == (file.limit == 0) == file.name.endswith(".csv")
    assert sources.mirrored(
        "https://open-images-dataset.s3.amazonaws.com/train/0a.jpg", DATASETS["openimages"], "http://m/"
    ) == ("http://m/openimages/train/0a.jpg")
