"""Small archives of the same layout as those of the real data sets."""

from __future__ import annotations

import json

from tests.app.download.archives import tar_of, zip_of
from tests.app.download.server import BODY

XML = b"<annotation><filename>%b.jpg</filename><object><name>cat</name></object></annotation>"
VOC = {
    f"VOC{part}_06-Nov-2007.tar": tar_of(
        {
            f"VOCdevkit/VOC2007/Annotations/{image}.xml": XML % image.encode(),
            f"VOCdevkit/VOC2007/ImageSets/Main/{part}.txt": f"{image}\n".encode(),
            f"VOCdevkit/VOC2007/ImageSets/Main/cat_{part}.txt": f"{image}  1\n".encode(),
            f"VOCdevkit/VOC2007/JPEGImages/{image}.jpg": BODY[:50_000],
        }
    )
    for part, image in (("trainval", "000005"), ("test", "000001"))
}
INSTANCES = {
    "images": [{"id": 9, "file_name": "COCO_train2014_000000000009.jpg"}],
    "annotations": [{"id": 1, "image_id": 9, "category_id": 17}],
    "categories": [{"id": 17, "name": "cat"}, {"id": 18, "name": "dog"}],
}
COCO = {
    "annotations_trainval2014.zip": zip_of(
        {f"annotations/instances_{part}2014.json": json.dumps(INSTANCES).encode() for part in ("train", "val")}
    ),
    "train2014.zip": zip_of({"train2014/COCO_train2014_000000000009.jpg": b"9"}),
    "val2014.zip": zip_of({"val2014/COCO_val2014_000000000042.jpg": b"42"}),
}
NUS = {
    "Groundtruth.zip": zip_of({"AllLabels/Labels_sky.txt": b"1\n0\n", "TrainTestLabels/Labels_sky_Train.txt": b"1\n"}),
    "ImageList.zip": zip_of(
        {
            "ImageList/Imagelist.txt": b"actor\\0001_2124494179.jpg\nzoo\\0002_1.jpg\n",
            "ImageList/TrainImagelist.txt": b"actor\\0001_2124494179.jpg\n",
        }
    ),
    "ConceptsList.zip": zip_of({"Concepts81.txt": b"sky\n"}),
}
DESCRIBED = b"LabelName,DisplayName\n/m/01yrx,Cat\n"
ROWS = b"ImageID,Source,LabelName,Confidence\n000002b66c9c498e,%b,/m/01yrx,1\n"
