"""From a COCO file to an ONNX file that runs without partlabel.

python examples/make_scenes.py my_images 300
python examples/coco_to_onnx.py my_images
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

import partlabel as pl


def main(folder: str, *changes: str) -> None:
    """Write the table as COCO, train on that, export, and run the file."""
    place = Path(folder)
    table = pl.read("csv", place / "labels.csv", coding="1=present,0=absent,blank=unknown", images=place / "photos")
    pl.formats.write("coco", table, place / "labels.json")

    # a COCO file lists what is present; what it does not list is unknown here, and would be absent in a complete one
    labels = pl.read("coco", place / "labels.json", images=place / "photos")
    print(labels)
    config = pl.Config.preset("small").replace(**dict(change.split("=") for change in changes))
    run = pl.train(labels, images=place / "photos", out=place / "run-coco", config=config)
    checked = pl.export(run, place / "model.onnx", images=place / "photos")
    print(f"model.onnx: scores differ from PyTorch by at most {checked.difference:.0e}")

    # from here on without partlabel: pixels in, scores out; everything else stands in the metadata
    session = onnxruntime.InferenceSession(place / "model.onnx")
    about = json.loads(session.get_modelmeta().custom_metadata_map["partlabel"])
    size, path = about["preprocessing"]["size"], sorted((place / "new").iterdir())[0]
    pixels = np.asarray(Image.open(path).convert("RGB").resize((size, size), Image.Resampling.BILINEAR), np.uint8)
    (scores,) = session.run(None, {session.get_inputs()[0].name: pixels.transpose(2, 0, 1)[None]})
    present = [
        name
        for name, score, least in zip(about["classes"], scores[0], about["thresholds"], strict=True)
        if score >= least
    ]
    print(f"{path.name}: {', '.join(present) or 'nothing'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
