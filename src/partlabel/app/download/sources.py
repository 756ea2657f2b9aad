"""Public data sets: which files they consist of, where those lie, and how a file is known to be right."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from partlabel.core.errors import UserError

_MB = 10**6
_VOC = "https://thor.robots.ox.ac.uk/pascal/VOC/voc2007"
_COCO = "http://images.cocodataset.org"
_OPEN_IMAGES = "https://storage.googleapis.com/openimages"
_NUS_WIDE = "https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide"


@dataclass(frozen=True)
class File:
    """One file of a data set.

    Attributes:
        address: where it is published.
        part: the part it belongs to; an empty one belongs to every part.
        md5: its published MD5 checksum in hex, None where nobody published one.
        tree: the folder that the archive is unpacked into; None for a file that is no archive.
        limit: most bytes that the archive may unpack to, about twice what the real one holds.
        then: the command that reads its labels; ``{}`` stands for the folder of the data set.
    """

    address: str
    part: str = ""
    md5: str | None = None
    tree: str | None = None
    limit: int = 0
    then: str = ""

    @property
    def name(self) -> str:
        """The file's name."""
        return self.address.rpartition("/")[2]


@dataclass(frozen=True)
class Dataset:
    """A public data set.

    Attributes:
        name: what it is called on the command line.
        title: what it is, in one line.
        terms: under which terms it may be used.
        files: all of its files.
        default: the parts that are fetched when none are named.
        by_hand: where else the files can be had when the address fails.
        pictures: the address that single images lie below.
    """

    name: str
    title: str
    terms: str
    files: tuple[File, ...]
    default: tuple[str, ...]
    by_hand: str = ""
    pictures: str | None = None

    @property
    def parts(self) -> list[str]:
        """The names of the parts, in order."""
        return list(dict.fromkeys(file.part for file in self.files if file.part))

    def select(self, parts: tuple[str, ...]) -> list[File]:
        """Give the files of some parts.

        Args:
            parts: names of parts; the beginning of a name up to a hyphen stands for all that begin so. None: the
                default.

        Raises:
            UserError: names that are no parts.
        """
        wanted = parts or self.default
        unknown = [part for part in wanted if not any(_covers(part, known) for known in self.parts)]
        if unknown:
            raise UserError(f"{self.name} has these parts: {', '.join(self.parts)}; not these:", unknown)
        return [file for file in self.files if not file.part or any(_covers(part, file.part) for part in wanted)]


def _covers(asked: str, part: str) -> bool:
    return part == asked or part.startswith(f"{asked}-")


def mirrored(address: str, dataset: Dataset, mirror: str | None) -> str:
    """Give the address that a file is fetched from: the official one, or the one on a mirror.

    A mirror serves each file as ``MIRROR/DATASET/FILE``, and an image of Open Images as
    ``MIRROR/openimages/SPLIT/ID.jpg``.

    Raises:
        UserError: the mirror is no http or https address.
    """
    if mirror is None:
        return address
    if not _is_web_address(mirror):
        raise UserError(f"{mirror}: a mirror is an address that starts with http:// or https://")
    base = dataset.pictures
    path = address.removeprefix(f"{base}/") if base and address.startswith(f"{base}/") else address.rpartition("/")[2]
    return f"{mirror.rstrip('/')}/{dataset.name}/{path}"


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.netloc) and parts.port != 0 and text.split() == [text]
    except ValueError:  # a port that is no number, and the like
        return False


def _voc(part: str, archive: str, md5: str) -> File:
    tree, then = "VOCdevkit", "partlabel import voc {}/VOCdevkit/VOC2007"
    then += f" --set {part} --images {{}}/VOCdevkit/VOC2007/JPEGImages -o {part}.parquet"
    return File(f"{_VOC}/{archive}", part, md5, tree, 1000 * _MB, then)


def _open_images(kind: str, split: str) -> File:
    short = "val" if split == "validation" else split
    path = f"v7/oidv7-{short}-annotations-{kind}-imagelabels.csv"
    described, more = "", " --machine-threshold 0.8" if kind == "machine" else ""
    if kind == "boxable":
        path, described = f"v5/{split}-annotations-human-imagelabels-boxable.csv", "-boxable"
    then = f"partlabel import openimages {{}}/{path.rpartition('/')[2]}"
    then += f" --descriptions {{}}/oidv7-class-descriptions{described}.csv{more} -o {kind}-{split}.parquet"
    return File(f"{_OPEN_IMAGES}/{path}", f"{kind}-{split}", then=then)


# The checksums are those that torchvision's VOCDetection lists.
VOC2007 = Dataset(
    name="voc2007",
    title="PASCAL VOC 2007: 9,963 images, 20 classes, every label known but for difficult objects",
    terms="The images come from Flickr and are under its terms of use; made for research.",
    files=(
        _voc("trainval", "VOCtrainval_06-Nov-2007.tar", "c52e279531787c972589f7e41ab4ae64"),
        _voc("test", "VOCtest_06-Nov-2007.tar", "b6e924de25625d8de591ea690078ad9f"),
    ),
    default=("trainval", "test"),
)

# Checksums as PaddleDetection and LAVIS list them; that of the annotations is reported to equal the bucket's ETag.
COCO2014 = Dataset(
    name="coco2014",
    title="COCO 2014: 123,287 images, 80 classes, every label known",
    terms="The annotations are under CC BY 4.0; the images come from Flickr and are under its terms of use.",
    files=(
        File(
            f"{_COCO}/annotations/annotations_trainval2014.zip",
            part="annotations",
            md5="0a379cfc70b0e71301e0f377548639bd",
            tree="annotations",
            limit=2_500 * _MB,
            then="partlabel import coco {}/annotations/instances_train2014.json -o train.parquet",
        ),
        File(
            f"{_COCO}/zips/train2014.zip",
            part="train",
            md5="0da8c0bd3d6becc4dcb32757491aca88",
            tree="train2014",
            limit=30_000 * _MB,
        ),
        File(
            f"{_COCO}/zips/val2014.zip",
            part="val",
            md5="a3d79f5ed8d289b7a7554ce06a5782b3",
            tree="val2014",
            limit=15_000 * _MB,
        ),
    ),
    default=("annotations", "train", "val"),
)

# No checksums are published; the server of these files names the checksum of what it sends.
OPENIMAGES = Dataset(
    name="openimages",
    title="Open Images: labels of 9 million images, few of them known; the images are fetched separately",
    terms=(
        "The labels are under CC BY 4.0; the images are listed as CC BY 2.0, which the publisher does not warrant: "
        "check the licence of each image you use."
    ),
    files=(
        File(f"{_OPEN_IMAGES}/v7/oidv7-class-descriptions-boxable.csv"),
        File(f"{_OPEN_IMAGES}/v7/oidv7-class-descriptions.csv"),
        *(
            _open_images(kind, split)
            for kind in ("boxable", "human", "machine")
            for split in ("train", "validation", "test")
        ),
    ),
    default=("boxable",),
    pictures="https://open-images-dataset.s3.amazonaws.com",
)

# No checksums are published; a zip archive holds the CRC-32 of each of its files, which unpacking compares.
NUSWIDE_LISTS = Dataset(
    name="nuswide-lists",
    title="NUS-WIDE: the lists of 269,648 images and their 81 concepts, without the images",
    terms="For research; the images are given out by the National University of Singapore on request.",
    files=tuple(
        File(f"{_NUS_WIDE}/{name}.zip", part=part, tree=name, limit=1000 * _MB, then=then)
        for name, part, then in (
            ("Groundtruth", "labels", "partlabel import nuswide {} --set train -o train.parquet"),
            ("ImageList", "images", ""),
            ("ConceptsList", "concepts", ""),
        )
    ),
    default=("labels", "images", "concepts"),
    by_hand=(
        "the university's site is often down; web.archive.org has copies of these archives, and "
        "https://github.com/NExTplusplus/NUS-WIDE says where the authors offer the labels now"
    ),
)

DATASETS = {dataset.name: dataset for dataset in (VOC2007, COCO2014, OPENIMAGES, NUSWIDE_LISTS)}
