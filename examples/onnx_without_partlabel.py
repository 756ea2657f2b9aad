"""Classify images with a file of ``partlabel export``, without partlabel: pip install onnxruntime pillow numpy.

python onnx_without_partlabel.py model.onnx photos/1.jpg photos/2.jpg
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1])
about = json.loads(session.get_modelmeta().custom_metadata_map["partlabel"])
size = about["preprocessing"]["size"]
for path in sys.argv[2:]:
    upright = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    square = upright.resize((size, size), Image.Resampling.BILINEAR)
    pixels = np.asarray(square).transpose(2, 0, 1)[None]  # uint8, (1, 3, size, size); normalized in the file
    (scores,) = session.run(None, {"images": pixels})
    present = [name for name, s, t in zip(about["classes"], scores[0], about["thresholds"], strict=True) if s >= t]
    print(path, ", ".join(present) or "nothing", sep=": ")
